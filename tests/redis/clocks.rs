//! Checks that the fake clocks deviate as ordered.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use lock_test_support::clocks::{ALL, Clock, Clocks};
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, millis};
use lock_test_support::worker::{Worker, arguments, next_order, report_event};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns how far the other process's clocks are ahead of real time, in milliseconds.
fn ahead(worker: &mut Worker) -> [i64; ALL.len()] {
    worker.order("report");
    let reported = worker.expect("clocks");
    let mut reported = reported
        .split(' ')
        .map(|nanos| nanos.parse::<i64>().unwrap());
    read().map(|time| (reported.next().unwrap() - time) / 1_000_000)
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
        let reported = ahead(&mut worker);
        for (reported, expected) in reported.into_iter().zip([wall, monotonic, boot]) {
            let late = expected - reported;
            // The worker's clocks are read before this process's.
            assert!(
                (0..800).contains(&late),
                "{reported} ms instead of {expected}"
            );
        }
    };
    let hour = 3_600_000;
    expect(0, 0, 0);
    clocks.forward(&[Clock::Boot], HOUR);
    expect(0, 0, hour);
    clocks.back(&[Clock::Wall], HOUR);
    expect(-hour, 0, hour);
    clocks.reset();
    expect(0, 0, 0);
    // A clock at a thousandth of its speed.
    clocks.gain(&[Clock::Monotonic], -999_000);
    let start = std::time::Instant::now();
    std::thread::sleep(2 * NOISE);
    let slow = ahead(&mut worker);
    let passed = start.elapsed().as_millis() as i64;
    assert!(
        (-passed..-1500).contains(&slow[1]),
        "{slow:?} after {passed} ms"
    );
    clocks.gain(&[Clock::Monotonic], 0);
    let stays = ahead(&mut worker)[1] - slow[1];
    assert!(stays.abs() < 800, "{stays} ms more");
    worker.order("end");
    worker.succeeds();
}

#[test]
fn server_uses_fake_clocks() {
    let server = Server::by(Clocks::correct(), &[]);
    let clocks = server.clocks().expect("it has its own");
    let ahead = || {
        let (seconds, _): (u64, u64) = server.query("TIME");
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        seconds as i64 - now.unwrap().as_secs() as i64
    };
    assert!((-1..=0).contains(&ahead()));
    server.query::<()>("SET key value PX 60000");
    clocks.forward(&[Clock::Wall], millis(59_000));
    assert!((57..=59).contains(&ahead()));
    assert!(server.exists("key"));
    clocks.forward(&[Clock::Wall], millis(2_000));
    assert!(!server.exists("key"));
    clocks.back(&[Clock::Wall], HOUR);
    assert!((-3600 + 57..=-3600 + 61).contains(&ahead()));
}
