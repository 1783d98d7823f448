//! The command never survives `locks`.

use crate::program::{hold, is_dead, locks, run};
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, eventually};

/// A command that ignores all that can be ignored.
const DEAF: &str = "trap '' TERM INT HUP; echo \"@ runs as $$\"; while :; do sleep 0.05; done";

#[test]
fn command_dies_with_locks() {
    let server = Server::start();
    for n in 0..5 {
        let mut worker = run(&server, &format!("k:{n}"), DEAF);
        let pid = worker.expect("runs as");
        assert!(!is_dead(&pid));
        worker.kill();
        eventually("the command is dead", || is_dead(&pid));
    }
    server.query::<()>("FLUSHALL");
}

#[test]
fn command_does_not_start_without_its_parent() {
    let mut locks = locks("memory://", "__exec 1 --", &["echo", "started"]);
    let ended = locks.output().unwrap();
    assert_eq!(ended.status.code(), Some(126));
    assert!(ended.stdout.is_empty());
}

#[test]
fn waiting_locks_leaves_the_queue_when_it_is_terminated() {
    let server = Server::start();
    let mut holder = hold(&server, "k");
    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let mut waiter = run(&server, "k --wait 1m", "echo '@ runs'");
        server.until_waiting("k", 1);
        waiter.signal(signal);
        assert_eq!(waiter.ends().code(), Some(code));
        server.until_waiting("k", 0);
        assert_eq!(waiter.event(PATIENCE), None);
    }
    holder.order("end");
    holder.succeeds();
}
