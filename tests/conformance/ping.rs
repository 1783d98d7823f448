//! A ping succeeds while locks can be acquired, and fails in time while they can't.

use lock_runtime::LockError;

use super::faults::Fault;
use super::fixture::{COMMAND_TIMEOUT, Fixture};
use lock_test_support::manager::{pings_fail, pings_take, until_pinged};
use lock_test_support::proxy::Proxy;
use lock_test_support::servers::Servers;

pub async fn ping_follows_the_network(fixture: Fixture) {
    fixture.locks().ping().await.unwrap();
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    for fault in [Proxy::cut, Proxy::black_hole, Proxy::hold_replies] {
        until_pinged(&locks).await;
        network.each(fault);
        pings_fail(&locks, COMMAND_TIMEOUT).await;
        network.each(Proxy::heal);
    }
    until_pinged(&locks).await;
    locks.shutdown().await;
}

pub async fn ping_follows_the_servers(fixture: Fixture) {
    let Some(alone) = fixture.alone().await else {
        return;
    };
    for fault in [Fault::Freeze, Fault::Crash] {
        until_pinged(&alone.locks).await;
        alone.suffer(fault).await;
        pings_take(&alone.locks).await;
        alone.recover(fault).await;
    }
    until_pinged(&alone.locks).await;
    alone.close().await;
}

pub async fn ping_needs_a_majority_of_the_members(fixture: Fixture) {
    let Some(alone) = fixture.alone().await else {
        return;
    };
    let members = alone.with_servers(|servers| servers.ports().len()).await;
    for dead in 0..members / 2 {
        alone.with_servers(move |servers| servers.kill(dead)).await;
        until_pinged(&alone.locks).await;
    }
    let last = members / 2;
    alone.with_servers(move |servers| servers.kill(last)).await;
    pings_take(&alone.locks).await;
    alone
        .with_servers(move |servers| servers.restart(last))
        .await;
    until_pinged(&alone.locks).await;
    let others = move |servers: &mut dyn Servers| (0..last).for_each(|dead| servers.restart(dead));
    alone.with_servers(others).await;
    alone.close().await;
}

pub async fn ping_after_shutdown_says_so(fixture: Fixture) {
    let locks = fixture.another().await;
    locks.ping().await.unwrap();
    locks.shutdown().await;
    let error = locks.ping().await.unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    assert_eq!(error.key(), None);
}
