//! Random keys, durations and URLs.

use std::time::Duration;

use lock_runtime::{Config, LockManager, distributed_lock};

use crate::report::Report;
use crate::rng;
use lock_test_support::rng::Rng;
use lock_test_support::time::{millis, soon};

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

fn odd(rng: &mut Rng, most: u64) -> String {
    let parts = rng.below(most + 1);
    (0..parts)
        .map(|_| PARTS[rng.below(PARTS.len() as u64) as usize])
        .collect()
}

fn time(rng: &mut Rng) -> Duration {
    match rng.below(6) {
        0 => Duration::ZERO,
        1 => Duration::MAX,
        2 => Duration::from_nanos(rng.below(1 << 30)),
        3 => Duration::from_secs(rng.below(1 << 50)),
        4 => Duration::new(u64::MAX - rng.below(3), 999_999_999),
        _ => millis(10 + rng.below(50)),
    }
}

#[distributed_lock(key = "<a>{{<b>}}:<c.0>", ttl = "1s", wait = "1ms")]
async fn annotated(a: &str, b: f64, c: (char, i128)) -> Result<(), lock_runtime::LockError> {
    Ok(())
}

#[tokio::test]
async fn random_urls_never_panic() {
    let report = Report::start();
    let mut rng = rng();
    for n in 0..3000 {
        let rest = odd(&mut rng, 10);
        let url = match rng.one_in(3) {
            true => rest,
            false => format!("{}://{rest}", PARTS[rng.below(8) as usize]),
        };
        let mut config = match n % 10 {
            0 => Config::quorum([url.clone(), odd(&mut rng, 6), odd(&mut rng, 6)]),
            _ => Config::new(&url),
        };
        config = config.connect_timeout(millis(1)).command_timeout(millis(1));
        if rng.one_in(4) {
            config = config.credentials(odd(&mut rng, 3), odd(&mut rng, 3));
        }
        if rng.one_in(4) {
            config = config.prefix(odd(&mut rng, 3)).ttl(time(&mut rng));
        }
        let connected = soon(LockManager::connect(config)).await;
        let reported = connected.map_or_else(|error| error.to_string(), |_| "connected".into());
        assert!(!reported.is_empty(), "`{url}`");
    }
    report.end(&[]);
}

#[tokio::test]
async fn random_keys_and_durations_never_panic() {
    let report = Report::start();
    let mut rng = rng();
    lock_runtime::init("memory://").await.unwrap();
    let locks = lock_runtime::manager().unwrap();
    for _ in 0..3000 {
        let key = odd(&mut rng, 6);
        let lock = locks
            .lock(&key)
            .ttl(time(&mut rng))
            .max_hold(time(&mut rng));
        let taken = soon(lock.wait(time(&mut rng)).acquire()).await;
        match taken {
            Ok(guard) => {
                assert_eq!(guard.key(), key);
                let _ = guard.ensure_valid_for(time(&mut rng));
                let _ = guard.release().await;
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        let b = f64::from_bits(rng.below(u64::MAX));
        let c = char::from_u32(rng.below(0x11_0000) as u32).unwrap_or('?');
        let _ = soon(annotated(&key, b, (c, i128::MIN))).await;
    }
    report.end(&[]);
}
