//! A constant, a static or a unit struct with the name of the expansion's variables does not become a
//! pattern in it.

#![deny(warnings)]
#![allow(non_camel_case_types, non_upper_case_globals)]

use lock_runtime::{LockError, LockManager, distributed_lock};

mod constants {
    use super::*;

    const __distributed_lock: u8 = 0;
    const __lock: u8 = 0;
    const __lock_manager: u8 = 0;
    const __lock_held: u8 = 0;
    const __lock_error: u8 = 0;
    const __lock_output: u8 = 0;

    #[distributed_lock(
        key = "order:<id>",
        on_busy = Ok(u64::from(__lock_held)),
        or_else = |error| Err(error),
        guard = lock,
        manager = locks
    )]
    pub async fn ship(locks: &LockManager, id: u64) -> Result<u64, LockError> {
        let all = __lock + __lock_manager + __lock_error + __lock_output;
        Ok(id + lock.key().len() as u64 + u64::from(all))
    }

    #[distributed_lock(key = "order:<id>")]
    pub async fn bill<const __distributed_lock: usize>(id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    struct Shop(LockManager);

    impl Shop {
        #[distributed_lock(key = "order:<id>", manager = self.0)]
        async fn pack(&self, id: u64) -> Result<u64, LockError> {
            Ok(id)
        }
    }

    pub fn all(locks: LockManager) {
        let _ = (ship(&locks, 1), bill::<1>(1), __distributed_lock);
        drop(Shop(locks.clone()).pack(1));
    }
}

mod statics {
    use super::*;

    static __distributed_lock: u8 = 0;
    static __lock: u8 = 0;
    static __lock_manager: u8 = 0;
    static __lock_held: u8 = 0;
    static __lock_error: u8 = 0;
    static __lock_output: u8 = 0;

    #[distributed_lock(key = "order:<id>", on_busy = Ok(0), manager = locks)]
    pub async fn ship(locks: &LockManager, id: u64) -> Result<u64, LockError> {
        let all = __lock + __lock_manager + __lock_held + __lock_error + __lock_output;
        Ok(id + u64::from(all))
    }

    pub fn all(locks: &LockManager) {
        let _ = (ship(locks, 1), __distributed_lock);
    }
}

mod structs {
    use super::*;

    struct __distributed_lock;
    struct __lock;
    struct __lock_manager;
    struct __lock_held;
    struct __lock_error;
    struct __lock_output;

    #[distributed_lock(key = "order:<id>", on_busy = Ok(0))]
    pub async fn ship(id: u64) -> Result<u64, LockError> {
        let _ = (__lock, __lock_manager, __lock_held, __lock_error, __lock_output);
        Ok(id)
    }

    pub fn all() {
        let _ = (ship(1), __distributed_lock);
    }
}

fn main() {
    let locks = LockManager::connect("memory://");
    let _ = async {
        let locks = locks.await.unwrap();
        constants::all(locks.clone());
        statics::all(&locks);
        structs::all();
    };
}
