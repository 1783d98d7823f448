//! Connecting takes as long as the connect timeout allows, whatever the command timeout is.

use std::time::{Duration, Instant};

use lock_runtime::{Config, LockManager};

use super::fixture::{Fixture, config_of};
use lock_test_support::manager::refusal_of;
use lock_test_support::proxy::Proxy;
use lock_test_support::servers::Network;
use lock_test_support::time::{NOISE, PATIENCE, millis, soon};

const COMMAND_TIMEOUT: Duration = millis(300);
/// There and back it takes longer than the command timeout.
const ONE_WAY: Duration = millis(200);

/// Returns a path of its own to the servers, if the topology has one.
fn path(fixture: &Fixture) -> Option<(Network, Config)> {
    let network = fixture.network()?;
    let config = config_of(network.urls.clone()).connect_timeout(PATIENCE * 2);
    let config = config.wait(PATIENCE).command_timeout(COMMAND_TIMEOUT);
    Some((network, config))
}

pub async fn manager_connects_over_a_slow_path(fixture: Fixture) {
    let Some((network, config)) = path(&fixture) else {
        return;
    };
    network.each(|proxy| proxy.delay(ONE_WAY));
    let locks = soon(LockManager::connect(config)).await;
    let (locks, row) = (locks.unwrap(), fixture.key("row"));
    // It can be used no more than before, and says why.
    let error = locks.lock(&*row).try_acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let text = format!("{error} {error:?}");
    // A majority may be asked in vain before the first member gives up.
    let says_why = ["raise `command_timeout`", "no reply yet"];
    assert!(says_why.iter().any(|it| text.contains(it)), "{text}");
    network.each(Proxy::heal);
    drop(soon(locks.lock(&*row).acquire()).await.unwrap());
    fixture.until_free(&row).await;
    soon(locks.shutdown()).await;
}

pub async fn connecting_waits_for_servers_that_answer_late(fixture: Fixture) {
    let Some((network, config)) = path(&fixture) else {
        return;
    };
    network.each(Proxy::black_hole);
    let connecting = tokio::spawn(LockManager::connect(config));
    // Which of the two speaks first depends on the protocol.
    let reached = |proxy: &Proxy| proxy.held() + proxy.held_replies();
    network.until_more_than(0, reached).await;
    // Time passes, and there is no event of it.
    tokio::time::sleep(COMMAND_TIMEOUT * 2).await;
    assert!(!connecting.is_finished());
    network.each(Proxy::heal);
    let locks = soon(connecting).await.unwrap().unwrap();
    locks.shutdown().await;
}

pub async fn connecting_in_vain_lasts_for_the_connect_timeout(fixture: Fixture) {
    let Some((network, config)) = path(&fixture) else {
        return;
    };
    network.each(Proxy::black_hole);
    let (begun, timeout) = (Instant::now(), millis(2500));
    let (error, text) = refusal_of(config.connect_timeout(timeout), "secret").await;
    let took = begun.elapsed();
    assert!(
        took > timeout * 4 / 5 && took <= timeout + NOISE,
        "{took:?}"
    );
    assert!(error.is_unavailable(), "{text}");
    for proxy in &network.proxies {
        assert!(text.contains(&proxy.port().to_string()), "{text}");
    }
}
