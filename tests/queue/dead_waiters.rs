//! Processes that are killed or stopped while they wait in the queue.

use std::time::{Duration, Instant};

use super::fixture::{LONG, fair, waits};
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use lock_test_support::time::{Timed, millis, soon, within};
use lock_test_support::worker::{Worker, arguments, block_on, report_event};

/// The initial lease of a granted lock.
pub const GRANT: Duration = Duration::from_secs(2);

/// In the other process: waits, and reports the guard's state.
pub fn wait_in_queue(url: &str) {
    block_on(async {
        let locks = connected(fair(url)).await;
        let acquire = locks.lock("door").wait(LONG).acquire();
        report_event("waits");
        let guard = acquire.await.unwrap();
        let before = guard.ensure_valid_for(Duration::ZERO);
        let after = guard.fencing_token().await.map(drop);
        report_event(format!("had {before:?} {after:?}"));
        guard.release().await.unwrap();
        locks.shutdown().await;
    });
}

/// Fields drop in order.
pub struct Line {
    _timed: Timed,
    pub server: Server,
    pub workers: Vec<Worker>,
}

/// Waits behind `processes` other processes, applies `happens` to them, and releases the lock. Returns the
/// wait from then on.
pub fn behind<T: Fn() + Copy>(
    test: T,
    processes: usize,
    happens: impl FnOnce(&mut [Worker]),
) -> Option<(Line, Duration)> {
    if let Some(arguments) = arguments() {
        wait_in_queue(&arguments[0]);
        return None;
    }
    Some(behind_on(Server::start(), test, processes, happens))
}

/// As [`behind`], on the given server and in the test's own process.
pub fn behind_on<T: Fn() + Copy>(
    server: Server,
    test: T,
    processes: usize,
    happens: impl FnOnce(&mut [Worker]),
) -> (Line, Duration) {
    let timed = Timed::start();
    let mut workers = Vec::new();
    let waited = block_on(async {
        let locks = connected(fair(&server.url())).await;
        let other = connected(fair(&server.url())).await;
        let holder = locks.lock("door").acquire().await.unwrap();
        for before in 0..processes {
            workers.push(Worker::start(test, &[&server.url()]));
            workers[before].expect("waits");
            server.until_waiting("door", before + 1);
        }
        let last = waits(&other, "door");
        server.until_waiting("door", processes + 1);
        happens(&mut workers);
        holder.release().await.unwrap();
        let start = Instant::now();
        let guard = soon(last).await.unwrap().unwrap();
        let waited = start.elapsed();
        guard.release().await.unwrap();
        locks.shutdown().await;
        other.shutdown().await;
        waited
    });
    let line = Line {
        _timed: timed,
        server,
        workers,
    };
    (line, waited)
}

/// Waits as a reader beside another one, behind writers of other processes, which then end. Returns the wait from then
/// on; it must end within `most`.
fn reads_behind<T: Fn() + Copy>(
    test: T,
    writers: usize,
    most: Duration,
    ends: impl Fn(&mut Worker),
) {
    if let Some(arguments) = arguments() {
        return wait_in_queue(&arguments[0]);
    }
    let _timed = Timed::start();
    let server = Server::start();
    let mut workers = Vec::new();
    block_on(async {
        let locks = connected(fair(&server.url())).await;
        let other = connected(fair(&server.url())).await;
        let reader = locks.lock("door").read().acquire().await.unwrap();
        for before in 0..writers {
            workers.push(Worker::start(test, &[&server.url()]));
            workers[before].expect("waits");
            server.until_waiting("door", before + 1);
        }
        let behind = tokio::spawn(other.lock("door").read().wait(LONG).acquire());
        server.until_waiting("door", writers + 1);
        // The bound counts from any moment between two polls.
        tokio::time::sleep(millis(700)).await;
        workers.iter_mut().for_each(ends);
        let start = Instant::now();
        let guard = soon(behind).await.unwrap().unwrap();
        let waited = start.elapsed();
        println!("{writers} dead writers: {waited:?} of {most:?}");
        assert!(waited < most, "{waited:?}, and {most:?} at most");
        guard.release().await.unwrap();
        reader.release().await.unwrap();
        locks.shutdown().await;
        other.shutdown().await;
    });
    workers.iter_mut().for_each(Worker::kill);
    server.until_gone("lock:door");
}

#[test]
fn reader_passes_killed_writer_at_its_next_poll() {
    let test = reader_passes_killed_writer_at_its_next_poll;
    reads_behind(test, 1, millis(1200), Worker::kill);
}

#[test]
fn reader_passes_stopped_writer_within_2_2_s() {
    let test = reader_passes_stopped_writer_within_2_2_s;
    reads_behind(test, 1, millis(2200), |writer| writer.pause());
}

#[test]
fn reader_passes_six_killed_writers_within_3_2_s() {
    let test = reader_passes_six_killed_writers_within_3_2_s;
    reads_behind(test, 6, millis(3200), Worker::kill);
}

#[test]
fn reader_passes_six_stopped_writers_within_3_2_s() {
    let test = reader_passes_six_stopped_writers_within_3_2_s;
    reads_behind(test, 6, millis(3200), |writer| writer.pause());
}

#[test]
fn killed_first_waiter_causes_no_delay() {
    let kill = |workers: &mut [Worker]| workers[0].kill();
    let line = behind(killed_first_waiter_causes_no_delay, 1, kill);
    if let Some((_line, waited)) = line {
        assert!(waited < millis(1000), "{waited:?}");
    }
}

#[test]
fn five_killed_waiters_cause_no_delay() {
    let kill = |workers: &mut [Worker]| workers.iter_mut().for_each(Worker::kill);
    let line = behind(five_killed_waiters_cause_no_delay, 5, kill);
    if let Some((_line, waited)) = line {
        assert!(waited < millis(1000), "{waited:?}");
    }
}

#[test]
fn killed_middle_waiter_causes_no_delay() {
    let kill = |workers: &mut [Worker]| workers[1].kill();
    let line = behind(killed_middle_waiter_causes_no_delay, 3, kill);
    if let Some((mut line, waited)) = line {
        assert!(waited < millis(1000), "{waited:?}");
        for worker in [0, 2] {
            line.workers[worker].expect("had Ok(()) Ok(())");
            line.workers[worker].succeeds();
        }
    }
}

/// The stopped waiter is granted the lock but does not renew it; when resumed, it knows that it does not hold
/// the lock.
#[test]
fn stopped_first_waiter_delays_others_by_one_grant_lease() {
    let stop = |workers: &mut [Worker]| workers[0].pause();
    let line = behind(
        stopped_first_waiter_delays_others_by_one_grant_lease,
        1,
        stop,
    );
    if let Some((mut line, waited)) = line {
        assert!(waited < GRANT + millis(1500), "{waited:?}");
        assert!(
            waited > GRANT / 2,
            "{waited:?}: the lock was never granted to the stopped waiter"
        );
        // Another client holds the lock, for longer than the waiter is stopped.
        line.server
            .query::<()>("SET lock:door other-client PX 60000");
        line.workers[0].resume();
        line.server.until_waiting("door", 1);
        assert_eq!(
            line.workers[0].event(millis(300)),
            None,
            "the resumed waiter reports that it holds the lock"
        );
        line.server.query::<()>("DEL lock:door");
        line.workers[0].expect("had Ok(()) Ok(())");
        line.workers[0].succeeds();
    }
}

/// The stop is shorter than the grant's lease, so the waiter still holds the lock.
#[test]
fn briefly_stopped_waiter_keeps_its_grant() {
    if let Some(arguments) = arguments() {
        return wait_in_queue(&arguments[0]);
    }
    let server = Server::start();
    block_on(async {
        let locks = connected(server.url()).await;
        let holder = locks.lock("door").acquire().await.unwrap();
        let url = server.url();
        let mut worker = Worker::start(briefly_stopped_waiter_keeps_its_grant, &[&url]);
        server.until_waiting("door", 1);
        worker.expect("waits");
        worker.pause();
        holder.release().await.unwrap();
        tokio::time::sleep(GRANT / 4).await;
        worker.resume();
        worker.expect("had Ok(()) Ok(())");
        worker.succeeds();
    });
}

/// No message reports the death of the first waiter or the deletion of the lock.
#[test]
fn foreign_delete_is_noticed_behind_killed_waiter() {
    if let Some(arguments) = arguments() {
        return wait_in_queue(&arguments[0]);
    }
    let server = Server::start();
    server.query::<()>("SET lock:door other-client");
    let mut worker = Worker::start(
        foreign_delete_is_noticed_behind_killed_waiter,
        &[&server.url()],
    );
    server.until_waiting("door", 1);
    block_on(async {
        let locks = connected(fair(&server.url())).await;
        let next = waits(&locks, "door");
        server.until_waiting("door", 2);
        worker.kill();
        server.query::<()>("DEL lock:door");
        let guard = soon(next).await.unwrap().unwrap();
        guard.release().await.unwrap();
        locks.shutdown().await;
    });
}

/// The holder and the first waiter are killed together: the lease expires, and the next waiter acquires the
/// lock.
#[test]
fn lock_is_acquired_after_holder_and_first_waiter_are_killed() {
    if let Some(arguments) = arguments() {
        return block_on(async {
            let locks = connected(fair(&arguments[0])).await;
            let ttl = millis(1500);
            let guard = locks.lock("door").ttl(ttl).wait(LONG).acquire().await;
            report_event("held");
            let _waits = waits(&locks, "door");
            std::future::pending::<()>().await;
            drop(guard);
        });
    }
    let server = Server::start();
    let mut worker = Worker::start(
        lock_is_acquired_after_holder_and_first_waiter_are_killed,
        &[&server.url()],
    );
    worker.expect("held");
    server.until_waiting("door", 1);
    block_on(async {
        let locks = connected(fair(&server.url())).await;
        let next = waits(&locks, "door");
        server.until_waiting("door", 2);
        // Past the lease that the next waiter saw when it polled: the holder has renewed it since.
        tokio::time::sleep(millis(1600)).await;
        worker.kill();
        let guard = within(millis(1500 + 1000), next).await.unwrap().unwrap();
        guard.release().await.unwrap();
        locks.shutdown().await;
    });
}
