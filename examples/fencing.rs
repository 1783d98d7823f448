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
use rusqlite::Connection;
use std::fmt::Display;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A price, stored twice: once with a column for the fencing token, once without.
struct Prices(Mutex<Connection>);

impl Prices {
    fn open() -> rusqlite::Result<Prices> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(
            "CREATE TABLE fenced (price INTEGER NOT NULL, fence INTEGER NOT NULL);
             INSERT INTO fenced VALUES (100, 0);
             CREATE TABLE unfenced (price INTEGER NOT NULL);
             INSERT INTO unfenced VALUES (100);",
        )?;
        Ok(Prices(Mutex::new(connection)))
    }

    /// Returns `true` if the write was accepted. One statement checks and writes, so that it is atomic.
    fn set_fenced(&self, price: i64, token: u64) -> Result<bool> {
        let update = "UPDATE fenced SET price = ?1, fence = ?2 WHERE fence <= ?2";
        let rows = self
            .connection()
            .execute(update, (price, i64::try_from(token)?))?;
        Ok(rows == 1)
    }

    fn set_unfenced(&self, price: i64) -> Result<()> {
        self.connection()
            .execute("UPDATE unfenced SET price = ?1", [price])?;
        Ok(())
    }

    fn read(&self, table: &str) -> Result<i64> {
        let select = format!("SELECT price FROM {table}");
        Ok(self.connection().query_row(&select, (), |row| row.get(0))?)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    prices.set_unfenced(price)?;
    let accepted = prices.set_fenced(price, token)?;
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
    prices.set_unfenced(price)?;
    let accepted = prices.set_fenced(price, token)?;
    say("second", verdict(accepted));
    Ok(())
}

fn verdict(accepted: bool) -> &'static str {
    match accepted {
        true => "is accepted by the table with the token's column",
        false => "is refused by the table with the token's column: it has seen a greater one",
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("LOCK_URL").unwrap_or_else(|_| "memory://".to_owned());
    lock_runtime::init(Config::new(url).prefix("fencing:")).await?;

    let prices = Arc::new(Prices::open()?);
    let (holds, held) = oneshot::channel();
    let first = tokio::spawn({
        let prices = prices.clone();
        async move { set_price_late(&prices, 80, holds).await }
    });
    held.await?;
    set_price(&prices, 120).await?;
    first.await??;

    let (fenced, unfenced) = (prices.read("fenced")?, prices.read("unfenced")?);
    println!("\nWith fencing the price is {fenced}, as it was written last.");
    println!("Without it would be {unfenced}, from a holder whose time was over.");
    lock_runtime::shutdown().await;
    Ok(())
}

fn say(name: &str, what: impl Display) {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    println!("{:>6} ms  {name:6}  {what}", START.elapsed().as_millis());
}
