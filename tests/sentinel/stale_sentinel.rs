//! A Sentinel that was cut off from the others names another master, which works.

use std::time::Duration;

use lock_runtime::{LockError, LockManager, LostCause};

use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::sentinel::{NAME, Sentinels};
use lock_test_support::server::Server;
use lock_test_support::time::{eventually, millis, soon};

/// Longer than the test: no renewal is due.
const LONG: Duration = Duration::from_secs(600);

/// Two Sentinels behind proxies, and a stale one.
struct Fixture {
    all: Sentinels,
    proxies: Vec<Proxy>,
    former: Server,
    stale: Proxy,
    _sentinel: Server,
}

impl Fixture {
    fn start(epoch: u64) -> Self {
        let all = Sentinels::start();
        let former = Server::start();
        let settings = format!(
            "sentinel monitor {NAME} 127.0.0.1 {} 2\nsentinel config-epoch {NAME} {epoch}\n",
            former.port()
        );
        let sentinel = Server::sentinel(None, &settings, |_, _| Vec::new());
        Self {
            stale: Proxy::recording(sentinel.port()),
            _sentinel: sentinel,
            proxies: all.sentinel_ports().take(2).map(Proxy::to).collect(),
            former,
            all,
        }
    }

    fn stale_first(&self) -> String {
        let [one, other] = [0, 1].map(|at| self.proxies[at].port());
        let stale = self.stale.port();
        format!("redis-sentinel://127.0.0.1:{stale},127.0.0.1:{one},127.0.0.1:{other}/{NAME}")
    }

    async fn uses_the_present_master(&self, locks: &LockManager) {
        let guard = locks.lock("door").acquire().await.unwrap();
        assert!(self.all.server(self.all.master()).exists("lock:door"));
        assert!(!self.former.exists("lock:door"));
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn fresh_process_follows_what_most_sentinels_name() {
    let fixture = Fixture::start(0);
    fixture
        .proxies
        .iter()
        .for_each(|proxy| proxy.delay_replies(millis(10)));
    for _ in 0..20 {
        let locks = connected(fixture.stale_first()).await;
        fixture.uses_the_present_master(&locks).await;
        locks.shutdown().await;
    }
}

#[tokio::test]
async fn sentinel_whose_epoch_is_too_great_leads_no_process_away() {
    let fixture = Fixture::start(99);
    let locks = connected(fixture.stale_first()).await;
    fixture.uses_the_present_master(&locks).await;
    let polls = || fixture.stale.sent("GET-MASTER-ADDR-BY-NAME");
    let before = polls();
    eventually("it is polled again and again", || polls() > before + 2);
    fixture.uses_the_present_master(&locks).await;
}

/// Only the stale Sentinel can be reached at first. When the others can, locks are checked at once.
#[tokio::test]
async fn locks_of_a_former_master_are_lost_at_once() {
    let fixture = Fixture::start(0);
    fixture.proxies.iter().for_each(Proxy::black_hole);
    let locks = connected(fixture.stale_first()).await;
    let guard = locks.lock("row").ttl(LONG).acquire().await.unwrap();
    assert!(fixture.former.exists("lock:row"));
    fixture.proxies.iter().for_each(Proxy::heal);
    let loss = soon(guard.lost()).await;
    assert!(
        matches!(
            loss,
            LockError::Lost {
                cause: LostCause::NotOwner,
                ..
            }
        ),
        "{loss}"
    );
    fixture.uses_the_present_master(&locks).await;
    fixture.former.query::<u64>("DEL lock:row");
}
