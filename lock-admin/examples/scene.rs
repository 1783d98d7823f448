//! A shop with locks in all states, to look at: `cargo run -p lock-admin --features axum --example scene`.
//!
//! `LOCK_URL` names a server; several of these processes then make one shop. `SCENE` is `busy`, `stuck` (a
//! lock is held for good, and another is lost), `empty`, or a number of locks that are held for good. `PORT`
//! is that of the page.

use lock_admin::{Admin, Recorder};
use lock_runtime::{Config, LockError, Report, distributed_lock};
use std::env;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::sleep;

#[distributed_lock(key = "order:<id>", wait = "20s")]
async fn ship(id: u64, takes: Duration) -> Result<(), LockError> {
    sleep(takes).await;
    Ok(())
}

#[distributed_lock(key = "stock:<sku>", wait = "forever", ttl = "10s")]
async fn reserve(sku: &str, takes: Duration) -> Result<(), LockError> {
    sleep(takes).await;
    Ok(())
}

#[distributed_lock(key = "report:<name>", wait = "0s", on_busy = Ok(()))]
async fn report(name: &str) -> Result<(), LockError> {
    sleep(Duration::from_secs(47)).await;
    Ok(())
}

#[distributed_lock(key = "payments:gateway", wait = "forever", ttl = "10s")]
async fn pay(takes: Duration) -> Result<(), LockError> {
    sleep(takes).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let value = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let scene = value("SCENE", "busy");
    let recorder = Recorder::new();
    let config = Config::new(value("LOCK_URL", "memory://"))
        .service(value("SERVICE", "orders"))
        .version(value("VERSION", "2.3.1"))
        .report(Report::Live)
        .on_event(recorder.handler());
    lock_runtime::init(config).await?;
    let admin = Admin::new(lock_runtime::manager()?.clone()).recorder(recorder);
    let admin = admin.allow_revoke(|_| Some("ann".to_owned()));

    let held: u64 = scene.parse().unwrap_or(0);
    for n in 0..held {
        let key = format!("held:{}:{n}", std::process::id());
        let lock = lock_runtime::manager()?
            .lock(key)
            .template("held:<process>:<n>");
        tokio::spawn(lock.run(async |_| std::future::pending::<()>().await));
    }
    let works = scene == "busy" || scene == "stuck";
    for n in 0..if works { 6u64 } else { 0 } {
        tokio::spawn(async move {
            let mut random = u64::from(std::process::id()) * 7 + n;
            loop {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let (r, ms) = ((random >> 33) % 97, (random >> 40) % 3_000);
                let takes = Duration::from_millis(ms + 200);
                let _ = match n {
                    0..=2 => ship(4_000 + r, takes * 4).await,
                    3 => reserve(["A-113", "B-042", "C-700"][r as usize % 3], takes).await,
                    4 => report(["daily", "tax", "weekly"][r as usize % 3]).await,
                    _ => pay(takes / 2).await,
                };
                sleep(takes / 2).await;
            }
        });
    }
    if scene == "stuck" {
        tokio::spawn(pay(Duration::from_secs(86_400)));
        // A body that overruns its limit loses its lock.
        let lock = lock_runtime::manager()?.lock("invoice:2207");
        let lock = lock
            .max_hold(Duration::from_secs(40))
            .ttl(Duration::from_secs(9));
        tokio::spawn(lock.run(async |_| std::future::pending::<()>().await));
    }

    let app = axum::Router::new().nest_service("/locks", admin.axum());
    let port: u16 = value("PORT", "0").parse()?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let at = listener.local_addr()?;
    // The URL is what this program is for.
    #[expect(clippy::print_stdout)]
    {
        println!("http://{at}/locks");
    }
    Ok(axum::serve(listener, app).await?)
}
