//! Processes that are killed or stopped while they wait in the queue.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::fixture::{LONG, fair, waits};
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, Timed, eventually, millis, patient, soon};
use lock_test_support::worker::{Worker, arguments, block_on, report_event};

/// The initial lease of a granted lock.
pub const GRANT: Duration = Duration::from_secs(2);

/// In the other process: waits, and reports the guard's state.
pub fn wait_in_queue(url: &str) {
    block_on(async {
        let locks = connected(patient(fair(url))).await;
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

/// Starts a process for each waiter, one behind the other.
fn line<T: Fn() + Copy>(server: &Server, test: T, processes: usize) -> Vec<Worker> {
    let start = |before| {
        let worker = Worker::start(test, &[&server.url()]);
        worker.expect("waits");
        server.until_waiting("door", before + 1);
        worker
    };
    (0..processes).map(start).collect()
}

/// Waits behind `processes` other processes, stops them, and releases the lock. Returns them and the wait
/// from then on.
pub fn behind_stopped<T: Fn() + Copy>(
    server: &Server,
    test: T,
    processes: usize,
) -> (Vec<Worker>, Duration) {
    block_on(async {
        let locks = connected(patient(fair(&server.url()))).await;
        let other = connected(patient(fair(&server.url()))).await;
        let holder = locks.lock("door").acquire().await.unwrap();
        let workers = line(server, test, processes);
        let last = waits(&other, "door");
        server.until_waiting("door", processes + 1);
        workers.iter().for_each(Worker::pause);
        holder.release().await.unwrap();
        let start = Instant::now();
        let guard = soon(last).await.unwrap().unwrap();
        let waited = start.elapsed();
        guard.release().await.unwrap();
        locks.shutdown().await;
        other.shutdown().await;
        (workers, waited)
    })
}

/// Waits as a reader beside another one, behind six writers of other processes, which then end. Asserts that
/// the wait from then on ends within 3.2 s.
fn reads_behind<T: Fn() + Copy>(test: T, ends: impl Fn(&mut Worker)) {
    if let Some(arguments) = arguments() {
        return wait_in_queue(&arguments[0]);
    }
    let most = millis(3200);
    let server = Server::start();
    let mut workers = block_on(async {
        let locks = connected(patient(fair(&server.url()))).await;
        let other = connected(patient(fair(&server.url()))).await;
        let reader = locks.lock("door").read().acquire().await.unwrap();
        let mut workers = line(&server, test, 6);
        let behind = tokio::spawn(other.lock("door").read().wait(LONG).acquire());
        server.until_waiting("door", 7);
        // The bound counts from any moment between two polls.
        tokio::time::sleep(millis(700)).await;
        workers.iter_mut().for_each(ends);
        let start = Instant::now();
        let guard = soon(behind).await.unwrap().unwrap();
        let waited = start.elapsed();
        println!("six dead writers: {waited:?} of {most:?}");
        assert!(waited <= most + NOISE, "{waited:?}, and {most:?} at most");
        guard.release().await.unwrap();
        reader.release().await.unwrap();
        locks.shutdown().await;
        other.shutdown().await;
        workers
    });
    workers.iter_mut().for_each(Worker::kill);
    server.until_gone("lock:door");
}

#[test]
fn reader_passes_six_killed_writers_within_3_2_s() {
    let _timed = Timed::start();
    reads_behind(reader_passes_six_killed_writers_within_3_2_s, Worker::kill);
}

#[test]
fn reader_passes_six_stopped_writers_within_3_2_s() {
    let _timed = Timed::start();
    let test = reader_passes_six_stopped_writers_within_3_2_s;
    reads_behind(test, |writer| writer.pause());
}

/// A release grants the lock to the first waiter that lives, wherever killed ones are in the queue. `PUBLISH`
/// counts a pattern listener as a receiver.
#[test]
fn killed_waiters_are_skipped_at_once() {
    if let Some(arguments) = arguments() {
        return wait_in_queue(&arguments[0]);
    }
    for listens in [false, true] {
        let server = Server::start();
        let mut listener = UnixStream::connect(server.socket()).unwrap();
        if listens {
            listener.write_all(b"PSUBSCRIBE *\r\n").unwrap();
        }
        block_on(async {
            let locks = connected(patient(fair(&server.url()))).await;
            let other = connected(patient(fair(&server.url()))).await;
            let holder = locks.lock("door").acquire().await.unwrap();
            let mut workers = line(&server, killed_waiters_are_skipped_at_once, 5);
            let last = waits(&other, "door");
            server.until_waiting("door", 6);
            for killed in [0, 1, 3, 4] {
                workers[killed].kill();
            }
            eventually("the server has noticed it", || {
                let subscribed: Vec<String> = server.query("PUBSUB CHANNELS lock:::grants:*");
                subscribed.len() == 2
            });
            holder.release().await.unwrap();
            assert!(server.waiting("door") <= 3, "two were skipped");
            workers[2].expect("had Ok(()) Ok(())");
            workers[2].succeeds();
            assert_eq!(server.waiting("door"), 0, "two more were skipped");
            let guard = soon(last).await.unwrap().unwrap();
            guard.release().await.unwrap();
            locks.shutdown().await;
            other.shutdown().await;
        });
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
        let locks = connected(patient(server.url())).await;
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
        let locks = connected(patient(fair(&server.url()))).await;
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
        let locks = connected(patient(fair(&server.url()))).await;
        let next = waits(&locks, "door");
        server.until_waiting("door", 2);
        // Past the lease that the next waiter saw when it polled: the holder has renewed it since.
        tokio::time::sleep(millis(1600)).await;
        worker.kill();
        let guard = soon(next).await.unwrap().unwrap();
        guard.release().await.unwrap();
        locks.shutdown().await;
    });
}
