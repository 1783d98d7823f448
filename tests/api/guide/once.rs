use lock_runtime::testing::Locks;
use lock_runtime::{LockError, LockManager, distributed_lock};
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::sleep;

struct Shop {
    locks: LockManager,
    charged: Mutex<HashSet<u64>>, // in the database
}

impl Shop {
    fn new(locks: LockManager) -> Shop {
        Shop {
            locks,
            charged: Mutex::default(),
        }
    }

    /// Charges an order once, however often the client repeats its request. Returns `true` if it did.
    #[distributed_lock(key = "order:<id>", manager = self.locks)]
    async fn charge(&self, id: u64) -> Result<bool, LockError> {
        if self.charged.lock().unwrap().contains(&id) {
            return Ok(false);
        }
        sleep(Duration::from_secs(2)).await; // the bank
        Ok(self.charged.lock().unwrap().insert(id))
    }

    /// Sends invoices, once an hour, although the timers of all replicas call it.
    #[distributed_lock(
        key = "invoices",
        wait = "0s",
        min_hold = "55m",
        on_busy = Ok(false),
        manager = self.locks
    )]
    async fn send_invoices(&self) -> Result<bool, LockError> {
        Ok(true)
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_request_charges_once() {
    let locks = Locks::new();
    let shop = Shop::new(locks.manager());
    let (first, repeated) = tokio::join!(shop.charge(42), shop.charge(42));
    assert_eq!((first.unwrap(), repeated.unwrap()), (true, false));
}

#[tokio::test(start_paused = true)]
async fn invoices_are_sent_once_an_hour() {
    let replica = || Shop::new(Locks::with("memory://invoices").manager());
    let replicas = [replica(), replica()];
    for _ in 0..24 {
        let mut sent = 0;
        for replica in &replicas {
            sent += usize::from(replica.send_invoices().await.unwrap());
            sleep(Duration::from_secs(60)).await; // no two timers fire at once
        }
        assert_eq!(sent, 1);
        sleep(Duration::from_secs(58 * 60)).await;
    }
}
