//! A holder that was paused for too long resumes and writes, and the database rejects the write.
//!
//! ```text
//! cargo run --features full --example fencing
//! LOCK_URL=redis://127.0.0.1/ cargo run --features full --example fencing
//! ```
//!
//! No lock can stop a process that is paused between its last check of the clock and its write: by
//! a stalled disk, a suspended machine, an overloaded host. To be safe from that, a program sends the
//! hold's fencing token with each write, and the resource rejects a write whose token is smaller than
//! the greatest one it has seen.

use anyhow::Result;
use lock_runtime::{Config, distributed_lock};
use std::fmt::Display;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A price, stored twice: once with the fencing token of its last write, once without. It stands for a
/// database.
struct Prices {
    fenced: Mutex<Fenced>,
    unfenced: AtomicI64,
}

struct Fenced {
    price: i64,
    fence: u64,
}

impl Prices {
    fn new(price: i64) -> Prices {
        Prices {
            fenced: Mutex::new(Fenced { price, fence: 0 }),
            unfenced: AtomicI64::new(price),
        }
    }

    /// Returns `true` if the write was accepted. One step checks and writes; in SQL:
    /// `UPDATE price SET price = $1, fence = $2 WHERE fence <= $2`.
    fn set_fenced(&self, price: i64, token: u64) -> bool {
        let mut row = self.fenced();
        let accepted = row.fence <= token;
        if accepted {
            *row = Fenced {
                price,
                fence: token,
            };
        }
        accepted
    }

    fn set_unfenced(&self, price: i64) {
        self.unfenced.store(price, SeqCst);
    }

    fn fenced(&self) -> MutexGuard<'_, Fenced> {
        self.fenced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A paused process does not renew its locks, and does not notice their loss. The options of this
/// function simulate that.
#[distributed_lock(
    key = "price:teapot",
    ttl = "300ms",
    renew = false,
    on_lost = "continue",
    guard = lock
)]
async fn set_price_late(prices: &Prices, price: i64, holds: oneshot::Sender<()>) -> Result<()> {
    let token = lock.fencing_token().await?;
    say(
        "first",
        format!("has the lock and the token {token}, and is about to write {price}"),
    );
    let _ = holds.send(());

    say("first", "is paused");
    thread::sleep(Duration::from_millis(600));
    say("first", "wakes up, knows nothing of it, and writes");

    prices.set_unfenced(price);
    let accepted = prices.set_fenced(price, token);
    say("first", verdict(accepted));
    say(
        "first",
        format!("asks its guard, too late: valid = {}", lock.is_valid()),
    );
    Ok(())
}

#[distributed_lock(key = "price:teapot", wait = "2s", guard = lock)]
async fn set_price(prices: &Prices, price: i64) -> Result<()> {
    let token = lock.fencing_token().await?;
    say(
        "second",
        format!("has the lock and the token {token}, and writes {price}"),
    );
    prices.set_unfenced(price);
    let accepted = prices.set_fenced(price, token);
    say("second", verdict(accepted));
    Ok(())
}

fn verdict(accepted: bool) -> &'static str {
    match accepted {
        true => "is accepted where the token is stored",
        false => "is refused where the token is stored: it has seen a greater one",
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("LOCK_URL").unwrap_or_else(|_| "memory://".to_owned());
    lock_runtime::init(Config::new(url).prefix("fencing:")).await?;

    let prices = Arc::new(Prices::new(100));
    let (holds, held) = oneshot::channel();
    let first = tokio::spawn({
        let prices = prices.clone();
        async move { set_price_late(&prices, 80, holds).await }
    });
    held.await?;
    set_price(&prices, 120).await?;
    first.await??;

    let (fenced, unfenced) = (prices.fenced().price, prices.unfenced.load(SeqCst));
    println!("\nWith fencing the price is {fenced}, as it was written last.");
    println!("Without it would be {unfenced}, from a holder whose time was over.");
    lock_runtime::shutdown().await;
    Ok(())
}

fn say(name: &str, what: impl Display) {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    println!("{:>6} ms  {name:6}  {what}", START.elapsed().as_millis());
}
