//! Checks that the fake clocks deviate as ordered.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use lock_test_support::clocks::{ALL, Clock, Clocks};
use lock_test_support::server::Server;
use lock_test_support::time::millis;
use lock_test_support::worker::{Worker, arguments, next_order, report_event};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns what the other process's clocks show, between what this process's show before and after.
fn reported(worker: &mut Worker) -> [[i64; ALL.len()]; 3] {
    let before = read();
    worker.order("report");
    let reported = worker.expect("clocks");
    let reported: Vec<_> = reported.split(' ').map(|it| it.parse().unwrap()).collect();
    [before, reported.try_into().unwrap(), read()]
}

fn read() -> [i64; ALL.len()] {
    let clocks = [ClockId::Realtime, ClockId::Monotonic, ClockId::Boottime];
    clocks.map(|clock| {
        let time = clock_gettime(clock);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    })
}

#[test]
fn each_clock_deviates_separately() {
    if arguments().is_some() {
        while next_order() == "report" {
            let [wall, monotonic, boot] = read();
            report_event(format_args!("clocks {wall} {monotonic} {boot}"));
        }
        return;
    }
    let clocks = Clocks::correct();
    let mut worker = Worker::start_by(each_clock_deviates_separately, &[], &clocks);
    let mut expect = |wall: i64, monotonic: i64, boot: i64| {
        let [before, reported, after] = reported(&mut worker);
        for (clock, ahead) in [wall, monotonic, boot].into_iter().enumerate() {
            let possible = before[clock] + ahead..=after[clock] + ahead;
            assert!(
                possible.contains(&reported[clock]),
                "{:?} is not ahead by {ahead}",
                ALL[clock]
            );
        }
    };
    let hour = HOUR.as_nanos() as i64;
    expect(0, 0, 0);
    clocks.forward(&[Clock::Boot], HOUR);
    expect(0, 0, hour);
    clocks.back(&[Clock::Wall], HOUR);
    expect(-hour, 0, hour);
    clocks.reset();
    expect(0, 0, 0);
    // A clock at a thousandth of its speed.
    clocks.gain(&[Clock::Monotonic], -999_000);
    let mut gains = || {
        let [_, first, after] = reported(&mut worker);
        std::thread::sleep(millis(100));
        let [before, second, _] = reported(&mut worker);
        let passed = before[1] - after[1];
        (second[1] - first[1], passed)
    };
    let (slow, passed) = gains();
    assert!(slow < passed / 2, "{slow} ns in {passed} ns");
    clocks.gain(&[Clock::Monotonic], 0);
    let (normal, passed) = gains();
    assert!(normal >= passed, "{normal} ns in {passed} ns");
    worker.order("end");
    worker.succeeds();
}

#[test]
fn server_uses_fake_clocks() {
    let server = Server::by(Clocks::correct(), &[]);
    let clocks = server.clocks().expect("it has its own");
    let is_ahead = |expected: i64| {
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = || now().unwrap().as_secs() as i64;
        let before = now();
        let (seconds, _): (i64, u64) = server.query("TIME");
        // Seconds end at other moments.
        assert!((before + expected - 1..=now() + expected + 1).contains(&seconds));
    };
    is_ahead(0);
    let half = HOUR / 2;
    server.query::<()>("SET key value PX 3000000");
    clocks.forward(&[Clock::Wall], half);
    is_ahead(1800);
    assert!(server.exists("key"));
    clocks.forward(&[Clock::Wall], half);
    assert!(!server.exists("key"));
    clocks.back(&[Clock::Wall], 2 * HOUR);
    is_ahead(-3600);
}
