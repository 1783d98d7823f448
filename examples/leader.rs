//! One leader among any number of replicas.
//!
//! ```text
//! export LOCK_URL=redis://127.0.0.1/
//! cargo run --features full --example leader a    # in one terminal
//! cargo run --features full --example leader b    # in another
//! ```
//!
//! Stop the leader with ctrl-c, and the next replica leads at once. Kill it, or pause it with
//! `kill -STOP`, and the next one leads after the `ttl`. A leader that resumes after a pause is deposed
//! before its next step, and its term is smaller than its successor's: what it sent before the pause can
//! be recognized as late.

use lock_runtime::{Config, LockError};
use std::convert::Infallible;
use std::fmt::Display;
use std::pin::pin;
use std::time::Duration;
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(1);

/// The leader's work, which never ends by itself. It is dropped when the lease is lost.
async fn lead(name: &str, term: u64) -> Infallible {
    say(name, format!("leads in term {term}"));
    loop {
        sleep(TTL / 10).await;
        // … work that carries the term …
    }
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let name = std::env::args().nth(1);
    let name = name.unwrap_or_else(|| std::process::id().to_string());
    lock_runtime::init(Config::from_env()?.prefix("leader:")).await?;
    let locks = lock_runtime::manager()?;
    // One future for all terms: a signal that arrives between two of them counts, too.
    let mut stop = pin!(asked_to_stop());
    say(&name, "is ready");
    loop {
        let lock = locks.lock("scheduler").ttl(TTL).wait(Duration::MAX);
        let term = lock.run(async |lock| -> Result<Infallible, LockError> {
            let term = lock.fencing_token().await?;
            Ok(lead(&name, term).await)
        });
        tokio::select! {
            ended = term => match ended.and_then(|ended| ended) {
                Err(error) if error.is_lost() => say(&name, format!("is deposed: {error}")),
                Err(error) => {
                    say(&name, format!("cannot lead: {error}"));
                    sleep(TTL).await;
                }
            },
            // Dropping the term releases the lock, or leaves the queue.
            () = &mut stop => break,
        }
    }
    say(&name, "stops");
    lock_runtime::shutdown().await;
    Ok(())
}

async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

fn say(name: &str, what: impl Display) {
    println!("{name}  {what}");
}
