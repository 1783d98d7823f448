//! A process that ends in an ordinary way, while it holds locks, waits for one, and acquires others: see
//! `process_end.rs`. Its arguments: the way, a prefix for its keys, its number, and the URLs of the servers.

use std::future::pending;
use std::process::exit;
use std::time::Duration;

use lock_runtime::{Config, LockError, LockManager, ReleaseMode, distributed_lock};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot::{self, Sender};

const LONG: Duration = Duration::from_secs(25);

struct Arguments {
    way: String,
    prefix: String,
    number: u64,
    urls: Vec<String>,
}

fn arguments() -> Arguments {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().expect("an argument is missing");
    Arguments {
        way: next(),
        prefix: next(),
        number: next().parse().expect("not a number"),
        urls: arguments.collect(),
    }
}

#[distributed_lock(key = "<prefix>:attribute", manager = locks)]
async fn stay(locks: LockManager, prefix: String, inside: Sender<()>) -> Result<(), LockError> {
    let _ = inside.send(());
    pending().await
}

/// Returns while bodies run, a call waits, and others begin.
async fn work(arguments: &Arguments) -> LockManager {
    let Arguments {
        way,
        prefix,
        number,
        urls,
    } = arguments;
    let config = match &urls[..] {
        [url] => Config::new(url.clone()),
        urls => Config::quorum(urls.to_vec()),
    };
    let config = config
        .command_timeout(LONG)
        .connect_timeout(LONG)
        .wait(LONG);
    let locks = LockManager::connect(config).await.expect("no connection");
    let key = |name: &str| format!("{prefix}:{name}");

    let (inside, entered) = oneshot::channel();
    tokio::spawn(stay(locks.clone(), prefix.clone(), inside));
    entered.await.expect("the body runs");
    for lock in [locks.lock(key("run")), locks.lock(key("read")).read()] {
        let (inside, entered) = oneshot::channel();
        tokio::spawn(lock.run(async |_| {
            let _ = inside.send(());
            pending::<()>().await;
        }));
        entered.await.expect("the body runs");
    }

    // Another process holds that lock.
    tokio::spawn(locks.lock(key("held")).acquire());
    // This process holds it.
    tokio::spawn(locks.lock(key("run")).acquire());
    for release in [ReleaseMode::Confirmed, ReleaseMode::Background] {
        let lock = locks.lock(key("again")).release_mode(release);
        tokio::spawn(async move { while lock.clone().run(async |_| ()).await.is_ok() {} });
    }
    // Locks that stay with the process, where it hears recalls: one that is used until the end, and one that
    // is not.
    let lazy = |name| locks.lock(key(name)).release_mode(ReleaseMode::Lazy);
    for _ in 0..20 {
        lazy("idle").run(async |_| ()).await.expect("it is free");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let lock = lazy("lazy");
    tokio::spawn(async move { while lock.clone().run(async |_| ()).await.is_ok() {} });
    // Only the main thread knows that the process ends.
    if number % 2 > 0 && way != "joins_a_thread" {
        // Like the global manager, it is not dropped.
        std::mem::forget(locks.clone());
    }
    if number % 4 > 0 {
        tokio::time::sleep(Duration::from_millis(number % 4 * 7)).await;
    }
    for n in 0..4 {
        let lock = locks.lock(key(&format!("new:{n}")));
        tokio::spawn(lock.run(async |_| pending::<()>().await));
    }
    if number % 2 > 0 {
        tokio::task::yield_now().await;
    }
    locks
}

#[tokio::main]
async fn returns(arguments: &Arguments) {
    work(arguments).await;
}

#[tokio::main]
async fn fails(arguments: &Arguments) -> Result<(), String> {
    work(arguments).await;
    Err("as it should".to_owned())
}

#[tokio::main]
async fn panics(arguments: &Arguments) {
    work(arguments).await;
    panic!("as it should");
}

#[tokio::main(flavor = "current_thread")]
async fn returns_on_one_thread(arguments: &Arguments) {
    work(arguments).await;
}

#[tokio::main]
async fn shuts_down(arguments: &Arguments) {
    let locks = work(arguments).await;
    locks.shutdown_within(Duration::from_millis(10)).await;
}

/// The manager connects on another thread than that of `main`.
fn runtime_that(arguments: &Arguments) -> Runtime {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("no runtime");
    runtime.block_on(work(arguments));
    runtime
}

fn main() -> Result<(), String> {
    let arguments = arguments();
    std::panic::set_hook(Box::new(|_| {}));
    match &*arguments.way {
        "returns" => returns(&arguments),
        "fails" => return fails(&arguments),
        "panics" => panics(&arguments),
        "returns_on_one_thread" => returns_on_one_thread(&arguments),
        "shuts_down" => shuts_down(&arguments),
        "exits_after_its_runtime" => {
            returns(&arguments);
            exit(0);
        }
        "drops_its_runtime" => drop(runtime_that(&arguments)),
        "shuts_its_runtime_down" => runtime_that(&arguments).shutdown_timeout(LONG),
        "abandons_its_runtime" => runtime_that(&arguments).shutdown_background(),
        "joins_a_thread" => {
            let thread = std::thread::spawn(move || returns_on_one_thread(&arguments));
            thread.join().expect("it does not panic");
        }
        way => panic!("no way `{way}`"),
    }
    Ok(())
}
