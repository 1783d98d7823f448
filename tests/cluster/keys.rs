//! All keys of a lock map to its slot, as computed by the servers.

use std::collections::HashSet;

use tokio::task::JoinSet;

use super::shared;
use lock_test_support::manager::connected;
use lock_test_support::rng::Rng;
use lock_test_support::time::{PATIENCE, millis, patient};

#[allow(dead_code, reason = "the library's module, used in part")]
#[path = "../../lock-runtime/src/engine/redis/hash_slot.rs"]
pub mod hash_slot;
#[allow(dead_code, reason = "the library's module, used in part")]
#[path = "../../lock-runtime/src/engine/redis/keys.rs"]
mod lock_keys;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Returns a key made of parts that may matter for hashing. Never empty and never reserved.
fn random_key(rng: &mut Rng) -> String {
    let parts = [
        "{", "}", "{}", "}{", "{{", "}}", "order:", "42", "a", ":", " ", "é", "漢字", "🔒", "\0",
        "\r\n", "{x}", "{🔒}",
    ];
    let length = 1 + rng.below(8);
    let part = |_| parts[rng.below(parts.len() as u64) as usize];
    let key: String = (0..length).map(part).collect();
    if key.starts_with(':') {
        format!("x{key}")
    } else {
        key
    }
}

#[test]
fn servers_compute_the_same_slots() {
    let cluster = shared::cluster();
    let mut rng = Rng::random();
    for prefix in ["lock:", "", "{app}:", "}é{🔒}"] {
        let keys = lock_keys::Keys::new(prefix, true).unwrap();
        for _ in 0..250 {
            let lock = format!("{prefix}{}", random_key(&mut rng));
            let slot = cluster.slot(&lock);
            assert_eq!(hash_slot::slot_of(&lock), slot, "{lock:?}");
            let others = [
                keys.queue(&lock).to_string(),
                keys.waiters(&lock).to_string(),
                keys.tombstone(&lock, TOKEN),
                keys.fencing_counter(&lock),
                keys.absent_key(&lock).unwrap(),
            ];
            for name in others {
                assert_eq!(cluster.slot(&name), slot, "{name:?} beside {lock:?}");
            }
        }
    }
}

/// The cluster rejects a request whose keys are in different slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_key_can_be_locked_and_waited_for() {
    let cluster = shared::cluster();
    let locks = connected(patient(cluster.url())).await;
    let others = connected(patient(cluster.url())).await;
    let mut rng = Rng::random();
    let keys: HashSet<String> = (0..60).map(|_| random_key(&mut rng)).collect();
    let mut tasks = JoinSet::new();
    for key in keys {
        let (locks, others) = (locks.clone(), others.clone());
        tasks.spawn(async move {
            let held = locks.lock(&key).acquire().await.unwrap();
            let first = held.fencing_token().await.unwrap();
            let next = others.lock(&key).wait(PATIENCE).acquire();
            let release = async {
                tokio::time::sleep(millis(50)).await;
                held.release().await.unwrap();
            };
            let (next, ()) = tokio::join!(next, release);
            let next = next.unwrap();
            assert!(next.fencing_token().await.unwrap() > first, "{key:?}");
            drop(others.lock(&key).wait(millis(20)).acquire().await);
            next.release().await.unwrap();
        });
    }
    tasks.join_all().await;
    locks.shutdown().await;
    others.shutdown().await;
}
