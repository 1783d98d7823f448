//! Servers that reply with invalid data or store it, and users with invalid input: never a panic, never a
//! hang, and always a meaningful error.
//!
//! `LOCK_FUZZ=100000` sets the total number of false replies, and of rounds with stored nonsense;
//! `LOCK_SEED=…` repeats a run.

mod client;
mod hostile_input;
mod lying_proxy;
mod malformed_replies;
mod nonsense;
mod report;
mod scripts;
mod stored_nonsense;

use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{Config, LockManager};
use lock_test_support::manager::connected;
use lock_test_support::rng::Rng;
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, eventually, millis};
use lying_proxy::Liar;
use report::Report;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn rng() -> Rng {
    number("LOCK_SEED").map_or_else(Rng::random, Rng::with)
}

/// Runs users against servers of one topology whose proxies falsify replies.
async fn lied_to(
    percent: u64,
    members: usize,
    config: impl Fn(&[Arc<Liar>]) -> Config,
) -> Arc<Report> {
    let lies = number("LOCK_FUZZ").unwrap_or(2000) / 4;
    let mut rng = rng();
    let report = Report::start();
    let servers: Vec<Server> = (0..members).map(|_| Server::start()).collect();
    let mut liars = Vec::new();
    for server in &servers {
        liars.push(Liar::start(server.port(), rng.split()).await);
    }
    let sent = || liars.iter().map(|liar| liar.lies()).sum::<u64>();
    let config = config(&liars)
        .connect_timeout(millis(400))
        .command_timeout(millis(60))
        .ttl(client::TTL);
    let honestly = || connected(config.clone().connect_timeout(PATIENCE));
    let everybody = |percent| liars.iter().for_each(|liar| liar.lie(percent));
    while sent() < lies {
        everybody(0);
        let before = honestly().await;
        everybody(percent);
        // This manager gets false replies from the beginning.
        let connected = report
            .call("connect", millis(400), LockManager::connect(config.clone()))
            .await;
        let round = sent() + (lies / 4).clamp(500, 2500);
        let managers = [Some(before.clone()), connected].into_iter().flatten();
        let mut users = Vec::new();
        for (n, locks) in managers.cycle().take(12).enumerate() {
            let user = client::User {
                locks,
                rng: rng.split(),
                report: report.clone(),
                replicas: u32::from(members == 1 && n == 11),
                has_permits: members == 1,
                checks: None,
            };
            users.push(tokio::spawn(user.live()));
        }
        let in_time = tokio::time::Instant::now() + PATIENCE;
        while sent() < round.min(lies) && tokio::time::Instant::now() < in_time {
            tokio::time::sleep(millis(5)).await;
        }
        users.iter().for_each(|user| user.abort());
        for user in users {
            assert!(user.await.is_err_and(|end| end.is_cancelled()));
        }
        if rng.one_in(2) {
            let shutdown = async {
                before.shutdown().await;
                Ok(())
            };
            report.call("shutdown", Duration::ZERO, shutdown).await;
        } else {
            // With honest replies, the manager that was lied to can acquire its locks again.
            everybody(0);
            client::is_well(&before).await;
        }
    }
    everybody(0);
    client::is_well(&honestly().await).await;
    let lies: Vec<_> = liars.iter().map(|liar| &liar.sent).collect();
    report.end(&lies);
    servers.iter().for_each(clean);
    report
}

/// Asserts that no lock outlives its TTL. A queue entry may, if its owner got a false reply: it counts as
/// dead after a while, and expires.
fn clean(server: &Server) {
    let locks = || server.query::<Vec<String>>("KEYS lock:hot-*");
    eventually("all locks have expired", || locks().is_empty());
    let left: Vec<String> = server.query("KEYS lock:::*");
    for key in left.iter().filter(|key| !key.contains("::fence")) {
        let ends: i64 = server.query(&format!("PTTL {key}"));
        // Reports last for three minutes, all else for less.
        assert!(
            ends != -1 && ends <= 180_000,
            "`{key}` expires in {ends} ms"
        );
    }
    server.query::<()>("FLUSHALL");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standalone() {
    lied_to(40, 1, |liars| {
        Config::new(format!("redis://127.0.0.1:{}", liars[0].port))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel() {
    let url = |liars: &[Arc<Liar>]| format!("redis-sentinel://127.0.0.1:{}/main", liars[0].port);
    lied_to(30, 1, |liars| Config::new(url(liars))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster() {
    let url = |liars: &[Arc<Liar>]| format!("redis-cluster://127.0.0.1:{}", liars[0].port);
    lied_to(30, 1, |liars| Config::new(url(liars))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum() {
    let url = |liar: &Arc<Liar>| format!("redis://127.0.0.1:{}", liar.port);
    lied_to(30, 3, |liars| Config::quorum(liars.iter().map(url))).await;
}

/// Every reply is false, from the first one on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connect_survives_only_false_replies() {
    let report = Report::start();
    let server = Server::start();
    let liar = Liar::start(server.port(), rng()).await;
    liar.lie(100);
    let at = format!("127.0.0.1:{}", liar.port);
    for url in [
        format!("redis://{at}"),
        format!("redis-sentinel://{at}/main"),
        format!("redis-cluster://{at}"),
    ] {
        for _ in 0..20 {
            let config = Config::new(&url).connect_timeout(millis(50));
            let connecting = LockManager::connect(config);
            report.call("connect", millis(50), connecting).await;
        }
    }
    report.end(&[&liar.sent]);
}
