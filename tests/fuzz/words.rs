//! Random keys, durations and URLs.

use std::time::Duration;

use lock_runtime::{Config, LockManager, distributed_lock};

use crate::dice;
use crate::report::Report;
use crate::support::dice::Dice;
use crate::support::time::{millis, within};

const PARTS: [&str; 36] = [
    "redis",
    "rediss",
    "redis-sentinel",
    "redis-cluster",
    "rediss-cluster",
    "redis+unix",
    "unix",
    "memory",
    "://",
    ":",
    "/",
    "//",
    "@",
    ",",
    "?",
    "&",
    "=",
    "#",
    "%",
    "%zz",
    "%00",
    "[",
    "]",
    "[::1]",
    "127.0.0.1",
    "h",
    "0",
    "-1",
    "99999",
    "18446744073709551616",
    " ",
    "\0",
    "\u{fffd}",
    "é",
    "db",
    "{",
];

fn odd(dice: &mut Dice, most: u64) -> String {
    let parts = dice.roll(most + 1);
    (0..parts)
        .map(|_| PARTS[dice.roll(PARTS.len() as u64) as usize])
        .collect()
}

fn time(dice: &mut Dice) -> Duration {
    match dice.roll(6) {
        0 => Duration::ZERO,
        1 => Duration::MAX,
        2 => Duration::from_nanos(dice.roll(1 << 30)),
        3 => Duration::from_secs(dice.roll(1 << 50)),
        4 => Duration::new(u64::MAX - dice.roll(3), 999_999_999),
        _ => millis(10 + dice.roll(50)),
    }
}

#[distributed_lock(key = "<a>{{<b>}}:<c.0>", ttl = "1s", wait = "1ms")]
async fn annotated(a: &str, b: f64, c: (char, i128)) -> Result<(), lock_runtime::LockError> {
    Ok(())
}

#[tokio::test]
async fn random_urls_never_panic() {
    let report = Report::start();
    let mut dice = dice();
    for n in 0..3000 {
        let rest = odd(&mut dice, 10);
        let url = match dice.one_in(3) {
            true => rest,
            false => format!("{}://{rest}", PARTS[dice.roll(8) as usize]),
        };
        let mut config = match n % 10 {
            0 => Config::quorum([url.clone(), odd(&mut dice, 6), odd(&mut dice, 6)]),
            _ => Config::new(&url),
        };
        config = config.connect_timeout(millis(1)).command_timeout(millis(1));
        if dice.one_in(4) {
            config = config.credentials(odd(&mut dice, 3), odd(&mut dice, 3));
        }
        if dice.one_in(4) {
            config = config.prefix(odd(&mut dice, 3)).ttl(time(&mut dice));
        }
        let connected = within(millis(5000), LockManager::connect(config)).await;
        let told = connected.map_or_else(|error| error.to_string(), |_| "connected".into());
        assert!(!told.is_empty(), "`{url}`");
    }
    report.end(&[]);
}

#[tokio::test]
async fn random_keys_and_durations_never_panic() {
    let report = Report::start();
    let mut dice = dice();
    lock_runtime::init("memory://").await.unwrap();
    let locks = lock_runtime::manager().unwrap();
    for _ in 0..3000 {
        let key = odd(&mut dice, 6);
        let lock = locks
            .lock(&key)
            .ttl(time(&mut dice))
            .max_hold(time(&mut dice));
        let taken = within(millis(5000), lock.wait(time(&mut dice)).acquire()).await;
        match taken {
            Ok(guard) => {
                assert_eq!(guard.key(), key);
                let _ = guard.ensure_valid_for(time(&mut dice));
                let _ = guard.release().await;
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        let b = f64::from_bits(dice.roll(u64::MAX));
        let c = char::from_u32(dice.roll(0x11_0000) as u32).unwrap_or('?');
        let _ = within(millis(5000), annotated(&key, b, (c, i128::MIN))).await;
    }
    report.end(&[]);
}
