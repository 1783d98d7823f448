//! Processes that are killed and stopped at random, in the middle of writes, too.

use std::fs::{File, OpenOptions, read_to_string};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use lock_runtime::{LockManager, Report};
use rustix::time::{ClockId, clock_gettime};

use lock_test_support::rng::Rng;
use lock_test_support::servers::{Servers, Sqlite};
use lock_test_support::time::{PATIENCE, comes_true_within, eventually, millis, patient};
use lock_test_support::worker::{Worker, arguments, block_on, report_event};

const PROCESSES: u64 = 6;
const TTL: Duration = millis(700);
/// How often a process is killed or stopped. `LOCK_KILLS` sets the number.
const KILLS: usize = 8;

/// Returns microseconds of a clock that all processes share.
fn time() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

fn journal(folder: &Path) -> std::path::PathBuf {
    folder.join("journal")
}

/// Holds the lock again and again. Writes a line for each hold: when it has begun, when it ends at the latest,
/// and its number; and one when it has ended.
async fn hold_for_ever(url: &str, folder: &Path) {
    let config = patient(url).report(Report::Off).wait(PATIENCE);
    let locks = loop {
        let config = config.clone().command_timeout(millis(500));
        match LockManager::connect(config).await {
            Ok(locks) => break locks,
            // Another one may be stopped in the middle of a write.
            Err(error) => assert!(error.is_unavailable(), "{error}"),
        }
    };
    let mut lines = OpenOptions::new()
        .append(true)
        .open(journal(folder))
        .unwrap();
    let mut rng = Rng::random();
    report_event("ready");
    loop {
        let Ok(guard) = locks.lock("row").ttl(TTL).acquire().await else {
            continue;
        };
        let Ok(number) = guard.fencing_token().await else {
            continue;
        };
        let begun = time();
        let until = begun + guard.remaining().as_micros() as u64;
        if until > begun {
            let line = format!("{number} begins {begun} {until}\n");
            lines.write_all(line.as_bytes()).unwrap();
            tokio::time::sleep(Duration::from_micros(rng.below(3000))).await;
            let line = format!("{number} ends {}\n", time());
            lines.write_all(line.as_bytes()).unwrap();
        }
        let _ = guard.release().await;
    }
}

/// A hold, by the clock of its process.
#[derive(Clone, Copy, Debug)]
struct Hold {
    number: u64,
    begun: u64,
    until: u64,
}

fn holds(folder: &Path) -> Vec<Hold> {
    let text = read_to_string(journal(folder)).unwrap();
    let mut holds: Vec<Hold> = Vec::new();
    // The last line may be written half.
    for line in text.split_inclusive('\n').filter(|it| it.ends_with('\n')) {
        let words: Vec<_> = line.split_whitespace().collect();
        let number = |word: &str| word.parse::<u64>().unwrap();
        match words[..] {
            [of, "begins", begun, until] => holds.push(Hold {
                number: number(of),
                begun: number(begun),
                until: number(until),
            }),
            [of, "ends", at] => {
                let of = holds.iter_mut().find(|it| it.number == number(of)).unwrap();
                of.until = of.until.min(number(at));
            }
            _ => panic!("{line}"),
        }
    }
    holds
}

#[test]
fn processes_that_are_killed_and_stopped_exclude_each_other() {
    if let Some(arguments) = arguments() {
        return block_on(hold_for_ever(&arguments[0], Path::new(&arguments[1])));
    }
    let kills = std::env::var("LOCK_KILLS").ok();
    let kills = kills.map_or(KILLS, |kills| kills.parse().unwrap());
    let mut file = Sqlite::start();
    file.clear(0);
    let folder = lock_test_support::server::temporary("lock-journal-");
    File::create(journal(folder.path())).unwrap();
    let start = || {
        let (url, folder) = (file.url(), folder.path().display().to_string());
        let worker = Worker::start(
            processes_that_are_killed_and_stopped_exclude_each_other,
            &[&url, &folder],
        );
        worker.expect("ready");
        worker
    };
    let mut workers: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    let mut rng = Rng::random();
    let count = || holds(folder.path()).len();
    for _ in 0..kills {
        let before = count();
        eventually("they go on", || count() > before + 5);
        let chosen = rng.below(PROCESSES) as usize;
        if rng.one_in(2) {
            workers[chosen].kill();
            workers[chosen] = start();
        } else {
            workers[chosen].pause();
            let before = count();
            // If it writes, no other goes on.
            comes_true_within(TTL * 2, || count() > before + 20);
            workers[chosen].resume();
        }
    }
    drop(workers);
    let mut holds = holds(folder.path());
    holds.sort_by_key(|hold| hold.begun);
    for two in holds.windows(2) {
        let [one, next] = two else { unreachable!() };
        assert!(one.until <= next.begun, "both hold it: {two:?}");
        assert!(one.number < next.number, "out of order: {two:?}");
    }
    println!("{} holds", holds.len());
}
