//! Processes that die in line, or stop there.

use std::time::Duration;

use super::crew::{LONG, fair, waits};
use crate::support::manager::connected;
use crate::support::server::Server;
use crate::support::time::{NOISE, Stopwatch, millis, within};
use crate::support::worker::{Worker, arguments, block_on, tell};

/// How long a lock is granted for at first.
pub const GRANT: Duration = Duration::from_secs(2);

/// In the other process: waits, and tells what it comes to believe.
pub fn stand(url: &str) {
    block_on(async {
        let locks = connected(fair(url)).await;
        let acquire = locks.lock("door").wait(LONG).acquire();
        tell("waits");
        let guard = acquire.await.unwrap();
        let before = guard.is_valid();
        tell(format!(
            "had {before} {}",
            guard.fencing_token().await.is_ok()
        ));
        guard.release().await.unwrap();
        locks.shutdown().await;
    });
}

pub struct Line {
    pub server: Server,
    pub workers: Vec<Worker>,
}

/// The test stands in line behind so many processes, which it then does something to; the holder
/// releases. How long it has waited from then on.
pub fn behind<T: Fn() + Copy>(
    test: T,
    processes: usize,
    happens: impl FnOnce(&mut [Worker]),
) -> Option<(Line, Duration)> {
    if let Some(arguments) = arguments() {
        stand(&arguments[0]);
        return None;
    }
    Some(behind_on(Server::start(), test, processes, happens))
}

/// The same on that server, in the test's own process.
pub fn behind_on<T: Fn() + Copy>(
    server: Server,
    test: T,
    processes: usize,
    happens: impl FnOnce(&mut [Worker]),
) -> (Line, Duration) {
    let mut workers = Vec::new();
    let waited = block_on(async {
        let locks = connected(fair(&server.url())).await;
        let other = connected(fair(&server.url())).await;
        let holder = locks.lock("door").acquire().await.unwrap();
        for before in 0..processes {
            workers.push(Worker::start(test, &[&server.url()]));
            workers[before].expect("waits", LONG);
            server.until_waiting("door", before + 1);
        }
        let last = waits(&other, "door");
        server.until_waiting("door", processes + 1);
        happens(&mut workers);
        holder.release().await.unwrap();
        let start = Stopwatch::start();
        let guard = within(LONG, last).await.unwrap().unwrap();
        let waited = start.elapsed();
        guard.release().await.unwrap();
        locks.shutdown().await;
        other.shutdown().await;
        waited
    });
    (Line { server, workers }, waited)
}

#[test]
fn a_killed_first_costs_the_others_nothing() {
    let kill = |workers: &mut [Worker]| workers[0].kill();
    let line = behind(a_killed_first_costs_the_others_nothing, 1, kill);
    if let Some((_line, waited)) = line {
        assert!(waited < millis(1000), "{waited:?}");
    }
}

#[test]
fn a_line_of_killed_processes_costs_the_others_nothing() {
    let kill = |workers: &mut [Worker]| workers.iter_mut().for_each(Worker::kill);
    let line = behind(a_line_of_killed_processes_costs_the_others_nothing, 5, kill);
    if let Some((_line, waited)) = line {
        assert!(waited < millis(1000), "{waited:?}");
    }
}

#[test]
fn a_killed_one_in_the_middle_costs_the_others_nothing() {
    let kill = |workers: &mut [Worker]| workers[1].kill();
    let line = behind(a_killed_one_in_the_middle_costs_the_others_nothing, 3, kill);
    if let Some((mut line, waited)) = line {
        assert!(waited < millis(1000), "{waited:?}");
        for worker in [0, 2] {
            line.workers[worker].expect("had true true", LONG);
            line.workers[worker].succeeds(LONG);
        }
    }
}

/// It's handed the lock and doesn't take it; when it goes on, it knows that it has nothing.
#[test]
fn a_stopped_first_costs_the_others_the_lease_of_a_grant() {
    let stop = |workers: &mut [Worker]| workers[0].pause();
    let line = behind(
        a_stopped_first_costs_the_others_the_lease_of_a_grant,
        1,
        stop,
    );
    if let Some((mut line, waited)) = line {
        assert!(waited < GRANT + millis(1500), "{waited:?}");
        assert!(waited > GRANT / 2, "{waited:?}: it was never granted");
        // Somebody else has it now, for longer than the first one sleeps.
        line.server.query::<()>("SET lock:door somebody PX 60000");
        line.workers[0].resume();
        line.server.until_waiting("door", 1);
        assert_eq!(
            line.workers[0].event(millis(300)),
            None,
            "it believes it holds"
        );
        line.server.query::<()>("DEL lock:door");
        line.workers[0].expect("had true true", NOISE + millis(1000));
        line.workers[0].succeeds(LONG);
    }
}

/// Not so long that its lease ended: it has the lock, and may believe so.
#[test]
fn who_was_stopped_for_a_moment_has_the_lock() {
    if let Some(arguments) = arguments() {
        return stand(&arguments[0]);
    }
    let server = Server::start();
    block_on(async {
        let locks = connected(server.url()).await;
        let holder = locks.lock("door").acquire().await.unwrap();
        let url = server.url();
        let mut worker = Worker::start(who_was_stopped_for_a_moment_has_the_lock, &[&url]);
        server.until_waiting("door", 1);
        worker.expect("waits", LONG);
        worker.pause();
        holder.release().await.unwrap();
        tokio::time::sleep(GRANT / 4).await;
        worker.resume();
        worker.expect("had true true", NOISE);
        worker.succeeds(LONG);
    });
}

/// Nobody tells those behind it that the first has died, nor that the lock was deleted.
#[test]
fn a_killed_first_hides_no_foreign_delete() {
    if let Some(arguments) = arguments() {
        return stand(&arguments[0]);
    }
    let server = Server::start();
    server.query::<()>("SET lock:door somebody");
    let mut worker = Worker::start(a_killed_first_hides_no_foreign_delete, &[&server.url()]);
    server.until_waiting("door", 1);
    block_on(async {
        let locks = connected(fair(&server.url())).await;
        let next = waits(&locks, "door");
        server.until_waiting("door", 2);
        worker.kill();
        server.query::<()>("DEL lock:door");
        let guard = within(millis(2000), next).await.unwrap().unwrap();
        guard.release().await.unwrap();
        locks.shutdown().await;
    });
}

/// The holder is killed, and the first in line with it: the lease ends, and the next one has it.
#[test]
fn a_killed_holder_and_a_killed_first() {
    if let Some(arguments) = arguments() {
        return block_on(async {
            let locks = connected(fair(&arguments[0])).await;
            let ttl = millis(1500);
            let guard = locks.lock("door").ttl(ttl).wait(LONG).acquire().await;
            tell("held");
            let _waits = waits(&locks, "door");
            std::future::pending::<()>().await;
            drop(guard);
        });
    }
    let server = Server::start();
    let mut worker = Worker::start(a_killed_holder_and_a_killed_first, &[&server.url()]);
    worker.expect("held", LONG);
    server.until_waiting("door", 1);
    block_on(async {
        let locks = connected(fair(&server.url())).await;
        let next = waits(&locks, "door");
        server.until_waiting("door", 2);
        // Past what was left of the lease when the next one asked: it has been renewed since.
        tokio::time::sleep(millis(1600)).await;
        worker.kill();
        let guard = within(millis(1500 + 1000), next).await.unwrap().unwrap();
        guard.release().await.unwrap();
        locks.shutdown().await;
    });
}
