//! A password that changes again and again, under held and contended locks, while connections are killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_runtime::{Config, LockEvent, LockManager};

use super::{SECRET, USER, Vault, add_user, postgres, redis};
use lock_test_support::cluster::Cluster;
use lock_test_support::exclusion::Exclusion;
use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::sentinel::Sentinels;
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, millis, patient, soon};
use tokio::task::{JoinSet, spawn_blocking};

const ROUNDS: usize = 8;
const HELD: usize = 8;
const CONTENDED: usize = 4;

/// The locks are renewed in the meantime. On a busy machine, a new connection takes seconds.
const TTL: Duration = Duration::from_secs(30);

/// What a server knows of passwords.
pub trait Account: Send + Sync + 'static {
    /// Replaces the password. `keeps_old` asks for the old one to work, too, if the server can do that.
    fn set_password(&self, password: &str, keeps_old: bool);

    /// Closes all connections of the user. Returns how many.
    fn kill_connections(&self) -> usize;
}

/// Rotates passwords: no lock is lost, and none is refused. A waiter may lose a lock that it has just been
/// granted, since a grant is short, and a new connection may take longer.
pub async fn rotate(account: impl Account, config: Config) {
    let (account, vault) = (Arc::new(account), Vault::new());
    let losses = Arc::new(AtomicUsize::new(0));
    let counted = losses.clone();
    let config = vault.config(patient(config)).on_event(move |event| {
        if let LockEvent::Lost { key, .. } = event
            && key.starts_with("held:")
        {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert!(!format!("{config:?}").contains(SECRET));
    let managers = [
        connected(config.clone()).await,
        connected(config.clone()).await,
    ];
    let mut held = Vec::new();
    for n in 0..HELD {
        let lock = managers[n % 2].lock(format!("held:{n}"));
        held.push(lock.ttl(TTL).acquire().await.unwrap());
    }
    let ends = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for key in 0..CONTENDED {
        let exclusion = Arc::new(Exclusion::default());
        for locks in &managers {
            let (locks, exclusion, ends) = (locks.clone(), exclusion.clone(), ends.clone());
            callers.spawn(call_on(locks, format!("contended:{key}"), exclusion, ends));
        }
    }
    let mut killed = 0;
    for round in 1..=ROUNDS {
        let password = format!("{SECRET}-{round}");
        let (server, vault) = (account.clone(), vault.clone());
        // In every second round the server is ahead, so that connections are made with a wrong password at
        // first.
        let is_ahead = round % 2 == 0;
        let rotated = spawn_blocking(move || {
            server.set_password(&password, !is_ahead);
            let mut killed = 0;
            if is_ahead {
                killed += server.kill_connections();
                std::thread::sleep(millis(100));
            }
            vault.store(&password);
            server.set_password(&password, false);
            killed + server.kill_connections()
        });
        killed += rotated.await.unwrap();
        tokio::time::sleep(millis(300)).await;
        let fresh = managers[round % 2].lock(format!("fresh:{round}"));
        let fresh = fresh.wait(PATIENCE).acquire().await.unwrap();
        fresh.release().await.unwrap();
    }
    ends.store(true, Ordering::SeqCst);
    let callers = soon(callers.join_all()).await;
    for guard in held {
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }
    for locks in managers {
        locks.shutdown().await;
    }
    let acquired: usize = callers.iter().sum();
    let (asked, given) = (vault.asked(), vault.given.lock().unwrap().len());
    println!(
        "{ROUNDS} passwords, {given} of them used; {asked} connections, {killed} killed; {HELD} locks held throughout, \
         {acquired} acquired under contention"
    );
    assert_eq!(losses.load(Ordering::SeqCst), 0);
    assert!(killed >= ROUNDS && asked > killed && given > ROUNDS / 2);
    assert!(callers.iter().all(|acquired| *acquired > 0), "{callers:?}");
}

/// Acquires the lock again and again, alone. Returns how often.
async fn call_on(
    locks: LockManager,
    key: String,
    exclusion: Arc<Exclusion>,
    ends: Arc<AtomicBool>,
) -> usize {
    let mut acquired = 0;
    while !ends.load(Ordering::SeqCst) {
        let lock = locks.lock(&key).ttl(TTL).wait(PATIENCE);
        let guard = lock.acquire().await.unwrap();
        let holding = exclusion.enter(&key, 1, Instant::now() + guard.remaining());
        tokio::time::sleep(millis(3)).await;
        drop(holding);
        // It is repeated if there is no connection.
        if let Err(error) = guard.release().await {
            assert!(error.is_unavailable() || error.is_lost(), "{error}");
        }
        acquired += 1;
    }
    acquired
}

/// Redis servers that know the user, and whatever must live as long as they.
struct Redis<S>(S);

impl<S: Send + Sync + 'static> Account for Redis<S>
where
    for<'a> &'a S: IntoIterator<Item = &'a Server>,
{
    fn set_password(&self, password: &str, keeps_old: bool) {
        let old = if keeps_old { "" } else { "resetpass" };
        for server in &self.0 {
            server.query::<()>(&format!("ACL SETUSER {USER} {old} >{password}"));
        }
    }

    fn kill_connections(&self) -> usize {
        let kill = format!("CLIENT KILL USER {USER}");
        let killed = self
            .0
            .into_iter()
            .map(|server| server.query::<usize>(&kill));
        killed.sum()
    }
}

/// Redis servers of any topology.
struct Of<T>(T, fn(&T) -> &[Server]);

impl<'a, T> IntoIterator for &'a Of<T> {
    type Item = &'a Server;
    type IntoIter = std::slice::Iter<'a, Server>;

    fn into_iter(self) -> Self::IntoIter {
        (self.1)(&self.0).iter()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn password_of_redis_changes() {
    let server = redis();
    let config = Config::new(server.url());
    rotate(Redis([server]), config).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn password_of_redis_behind_sentinels_changes() {
    let all = Sentinels::start();
    all.servers().iter().for_each(add_user);
    let config = Config::new(all.url());
    rotate(Redis(Of(all, Sentinels::servers)), config).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn password_of_a_cluster_changes() {
    let cluster = spawn_blocking(Cluster::start).await.unwrap();
    cluster.nodes().iter().for_each(add_user);
    let config = Config::new(cluster.url());
    rotate(Redis(Of(cluster, Cluster::nodes)), config).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn password_of_a_quorum_changes() {
    let servers = [(); 3].map(|()| Server::start());
    servers.iter().for_each(add_user);
    let config = Config::quorum(servers.iter().map(Server::url));
    rotate(Redis(servers), config).await;
}

impl Account for Postgres {
    fn set_password(&self, password: &str, _: bool) {
        self.execute(&format!("ALTER ROLE {USER} PASSWORD '{password}'"));
    }

    fn kill_connections(&self) -> usize {
        self.terminate_connections()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn password_of_postgres_changes() {
    let server = postgres();
    let config = Config::new(server.url_for(USER));
    rotate(server, config).await;
}
