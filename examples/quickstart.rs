//! A short tour of the lock.
//!
//! ```text
//! cargo run --example quickstart
//! LOCK_URL=redis://127.0.0.1/ cargo run --example quickstart
//! ```
//!
//! The first command needs only Rust: its locks exist in this process. The second acquires them on a
//! Redis server; run it in two terminals at once, and the processes take turns as the tasks do.

use lock_runtime::{Config, LockError, distributed_lock};
use std::error::Error;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const WORK: Duration = Duration::from_millis(150);

/// The lock is acquired before the first line of the body, and released after the last one.
#[distributed_lock(key = "order:<id>", ttl = "10s", wait = "5s")]
async fn pack(name: &str, id: u32) -> Result<(), LockError> {
    say(name, format!("packs order {id}"));
    sleep(WORK).await;
    Ok(())
}

#[distributed_lock(key = "order:<id>", wait = "50ms")]
async fn pack_soon(name: &str, id: u32) -> Result<(), LockError> {
    say(name, format!("packs order {id}"));
    Ok(())
}

/// `on_busy` is the return value if the lock is not acquired in time.
#[distributed_lock(key = "order:<id>", wait = "0s", on_busy = Ok("leaves it to the other"))]
async fn pack_now(id: u32) -> Result<&'static str, LockError> {
    Ok("packs it")
}

/// The error type can be any that implements `From<LockError>`.
#[distributed_lock(key = "order:<id>")]
async fn pack_and_fail(name: &str, id: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
    say(name, format!("packs order {id}"));
    Err("no boxes left".into())
}

#[distributed_lock(key = "order:<id>")]
async fn pack_and_panic(name: &str, id: u32) -> Result<(), LockError> {
    say(name, format!("packs order {id}"));
    panic!("the roof fell in");
}

/// `guard` binds the lock's guard to a variable of the body.
#[distributed_lock(key = "order:<id>", ttl = "10s", guard = lock)]
async fn inspect(name: &str, id: u32) -> Result<u64, LockError> {
    let token = lock.fencing_token().await?;
    let (key, left) = (lock.key(), lock.remaining().as_secs_f32());
    say(name, format!("holds `{key}`, which has {left:.1} s left"));
    Ok(token)
}

async fn show() -> Result<(), LockError> {
    title("Tasks that want the same lock take turns; other locks are not in their way");
    let packed = tokio::join!(
        pack("ann", 1),
        pack("bob", 1),
        pack("cem", 1),
        pack("dot", 2)
    );
    packed.0.and(packed.1).and(packed.2).and(packed.3)?;

    title("A wait has a limit");
    let bob = async {
        sleep(WORK / 10).await;
        if let Err(LockError::Busy { key, waited, .. }) = pack_soon("bob", 1).await {
            let waited = waited.as_millis();
            say("bob", format!("gives up on `{key}` after {waited} ms"));
        }
    };
    let cem = async {
        sleep(WORK / 5).await;
        pack_now(1).await.map(|choice| say("cem", choice))
    };
    let (packed, (), chosen) = tokio::join!(pack("ann", 1), bob, cem);
    packed.and(chosen)?;

    title("The lock is released on every way out: an error, a panic, a dropped future");
    if let Err(error) = pack_and_fail("ann", 1).await {
        say("ann", format!("fails: {error}"));
    }
    if let Err(panic) = tokio::spawn(pack_and_panic("bob", 1)).await {
        let what = panic.into_panic();
        say(
            "bob",
            format!("panics: {}", what.downcast_ref().unwrap_or(&"?")),
        );
    }
    if timeout(WORK / 2, pack("cem", 1)).await.is_err() {
        say("cem", "is canceled half-way");
    }
    pack("dot", 1).await?;

    title("A hold has a number, greater than all before it, that a database can check");
    for name in ["ann", "bob"] {
        let token = inspect(name, 1).await?;
        say(name, format!("had the fencing token {token}"));
    }
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    // The tour prints the panic itself.
    std::panic::set_hook(Box::new(|_| {}));
    let url = std::env::var("LOCK_URL").unwrap_or_else(|_| "memory://".to_owned());
    let result = match lock_runtime::init(Config::new(url).prefix("quickstart:")).await {
        Ok(()) => show().await,
        Err(error) => Err(error),
    };
    lock_runtime::shutdown().await;
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

fn title(text: &str) {
    println!("\n{text}");
}

fn say(name: &str, what: impl std::fmt::Display) {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    println!("{:>7} ms  {name}  {what}", START.elapsed().as_millis());
}
