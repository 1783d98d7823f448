//! A command ends before its lock can be another's.

use crate::program::{code, is_dead, output, run};
use lock_test_support::server::{Server, temporary};
use lock_test_support::time::{NOISE, Timed, eventually};
use lock_test_support::worker::Worker;
use std::fs;
use std::time::{Duration, SystemTime};

const GRACE: Duration = Duration::from_secs(1);

/// When the server ends the lease, if it stops now.
fn end_of_lease(server: &mut Server) -> SystemTime {
    let before = SystemTime::now();
    let left: u64 = server.query("PTTL lock:k");
    server.pause();
    before + Duration::from_millis(left)
}

/// Reads the time that `date +%s%N` has printed last.
fn last_time(lines: &str) -> SystemTime {
    // The last line may be incomplete.
    let (lines, _) = lines.rsplit_once('\n').unwrap();
    let nanos = lines.lines().last().unwrap().parse().unwrap();
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos)
}

#[track_caller]
fn is_lost(worker: &mut Worker) {
    assert_eq!(worker.ends().code(), Some(124));
}

#[test]
fn command_gets_term_while_the_grace_is_left_and_is_killed_at_the_end_of_the_lease() {
    let _timed = Timed::start();
    let mut server = Server::start();
    let directory = temporary("locks-");
    let file = directory.path().join("times");
    let script = format!(
        "trap 'echo \"@ terminated at $(date +%s%N)\"' TERM; echo \"@ runs as $$\"; \
         while :; do date +%s%N >>{}; sleep 0.01; done",
        file.display()
    );
    let mut worker = run(&server, "k --ttl 4s --grace 1s", &script);
    let pid = worker.expect("runs as");
    let end = end_of_lease(&mut server);
    let at = last_time(&format!("{}\n", worker.expect("terminated at")));
    assert!(at < end, "{at:?}, lease until {end:?}");
    assert!(at + GRACE + NOISE >= end, "{at:?}, {end:?}");
    is_lost(&mut worker);
    assert!(is_dead(&pid));
    let last = last_time(&fs::read_to_string(&file).unwrap());
    assert!(last < end, "{last:?}, lease until {end:?}");
    assert!(last + NOISE >= end, "{last:?}, {end:?}");
    server.resume();
    let ended = output(&server.url(), "run k --wait 1m", &["--", "true"]);
    assert_eq!(code(&ended), 0);
}

#[test]
fn command_is_killed_when_another_client_took_the_lock() {
    let server = Server::start();
    let script = "echo \"@ runs as $$\"; while :; do sleep 0.05; done";
    let mut worker = run(&server, "k --ttl 3s", script);
    let pid = worker.expect("runs as");
    server.query::<()>("SET lock:k stolen");
    is_lost(&mut worker);
    eventually("the command is dead", || is_dead(&pid));
    server.query::<()>("DEL lock:k");
}

#[test]
fn loss_that_comes_to_light_at_the_end_is_reported() {
    let server = Server::start();
    let mut worker = run(&server, "k --ttl 1m", "echo '@ runs'; read _");
    worker.expect("runs");
    server.query::<()>("SET lock:k stolen");
    worker.order("end");
    is_lost(&mut worker);
    server.query::<()>("DEL lock:k");
}

#[test]
fn outage_shorter_than_the_lease_is_survived() {
    let mut server = Server::start();
    let mut worker = run(
        &server,
        "k --ttl 10s --grace 1s",
        "echo '@ runs'; read _; exit 3",
    );
    worker.expect("runs");
    server.pause();
    worker.order("end");
    server.resume();
    assert_eq!(worker.ends().code(), Some(3));
}
