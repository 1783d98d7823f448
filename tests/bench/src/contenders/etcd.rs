//! What locks in etcd are compared with.

use super::{Contender, Retry, TTL};
use etcd_client::{Client, LockOptions};

pub async fn client(url: &str) -> Client {
    let address = url.strip_prefix("etcd://").unwrap();
    Client::connect([address], None).await.unwrap()
}

/// A key that is written, and then deleted.
pub struct Puts(Client);

impl Contender for Puts {
    type Hold = String;

    async fn connect(url: &str, _: Retry) -> Puts {
        Puts(client(url).await)
    }

    async fn acquire(&self, key: &str) -> String {
        self.0.clone().put(key, "", None).await.unwrap();
        key.to_owned()
    }

    async fn release(&self, key: String) {
        let deleted = self.0.clone().delete(key, None).await.unwrap();
        assert_eq!(deleted.deleted(), 1);
    }
}

/// The server's own locks, on one lease.
pub struct LockCalls {
    client: Client,
    lease: i64,
}

impl Contender for LockCalls {
    type Hold = Vec<u8>;

    async fn connect(url: &str, _: Retry) -> LockCalls {
        let mut client = client(url).await;
        // It is not kept alive: no turn is as long.
        let ttl = 100 * TTL.as_secs().cast_signed();
        let lease = client.lease_grant(ttl, None).await.unwrap().id();
        LockCalls { client, lease }
    }

    async fn acquire(&self, key: &str) -> Vec<u8> {
        let options = LockOptions::new().with_lease(self.lease);
        let lock = self.client.clone().lock(key, Some(options)).await.unwrap();
        lock.key().to_vec()
    }

    async fn release(&self, key: Vec<u8>) {
        self.client.clone().unlock(key).await.unwrap();
    }
}
