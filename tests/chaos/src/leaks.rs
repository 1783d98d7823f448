//! Checks that nothing is left behind when a schedule is over.

use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockManager};

use crate::deployment::Deployment;
use crate::fault::{Fault, Kind};
use crate::instructions::config;
use crate::worker::connect;
use lock_test_support::time::{comes_true, millis};

const LONG: Duration = millis(90_000);

/// Acquires each lock once, which skips queue entries of killed processes, and returns the keys that are
/// still left.
pub fn left(deployment: &mut dyn Deployment) -> Vec<String> {
    if deployment.limits().servers == 0 {
        return Vec::new();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let mut left = runtime.unwrap().block_on(sweep(deployment));
    if left.is_empty() {
        return left;
    }
    for server in 0..deployment.limits().servers {
        deployment.servers_mut().clear(server);
    }
    left.sort();
    left
}

/// Returns the keys that are left on a single server although no process was killed. Otherwise leftovers are
/// permitted: they may belong to a killed process, or to a server that the others do not know.
pub fn uncleared(deployment: &dyn Deployment, faults: &[Fault]) -> Vec<String> {
    let killed = faults.iter().any(|fault| fault.kind == Kind::WorkerKilled);
    if killed || deployment.limits().servers != 1 {
        return Vec::new();
    }
    let mut left = Vec::new();
    comes_true(|| {
        left = deployment.servers().leftovers();
        left.is_empty()
    });
    let reported = |key| format!("`{key}`, though no process was killed");
    left.into_iter().map(reported).collect()
}

/// Returns the connections that workers still have after their end, while their processes still run.
pub fn connected(deployment: &dyn Deployment) -> Vec<String> {
    let servers = 0..deployment.limits().servers;
    let clients = |server| deployment.servers().clients(server);
    let mut left = Vec::new();
    comes_true(|| {
        left = servers.clone().flat_map(clients).collect();
        left.is_empty()
    });
    left
}

async fn sweep(deployment: &dyn Deployment) -> Vec<String> {
    let start = Instant::now();
    let config = config(&deployment.urls(0));
    let Ok(locks) = tokio::time::timeout(LONG, connect(&config)).await else {
        return vec![format!("no connection within {LONG:?}")];
    };
    let left = loop {
        for key in 0..deployment.limits().keys {
            while let Err(error) = pass_over(&locks, key).await {
                if start.elapsed() > LONG {
                    return vec![format!("key {key}: {error}")];
                }
            }
        }
        let left = deployment.servers().leftovers();
        if left.is_empty() || start.elapsed() > LONG {
            break left;
        }
        tokio::time::sleep(millis(200)).await;
    };
    locks.shutdown().await;
    left
}

async fn pass_over(locks: &LockManager, key: u32) -> Result<(), LockError> {
    let lock = locks.lock(format!("door:{key}")).wait(LONG);
    // A release that is not confirmed in time is retried; the caller checks for leftovers anyway.
    drop(lock.acquire().await?.release().await);
    Ok(())
}
