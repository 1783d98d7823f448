//! Functions that macros make, with parts of them coming from elsewhere.

use lock_runtime::{LockError, distributed_lock};

macro_rules! handlers {
    ($($name:ident($argument:ident: $type:ty) -> $output:ty, $key:literal, $ttl:expr, $body:block)*) => {
        $(
            #[distributed_lock(key = $key, ttl = $ttl, wait = "1s", guard = lock)]
            async fn $name($argument: $type) -> $output {
                let _ = lock;
                $body
            }
        )*
    };
}

handlers! {
    ship(id: u64) -> Result<u64, LockError>, "order:{id}", "30s", { let id = id; Ok(id) }
    bill(id: u64) -> Result<u64, LockError>, "order:<id>", std::time::Duration::from_secs(30), { let id = id; Ok(id) }
    pack(id: &str) -> Result<&str, LockError>, "order:<id.len()>", "1m", { let id = id; Ok(id) }
}

macro_rules! method {
    ($item:item) => {
        $item
    };
}

method! {
    #[distributed_lock(key = "order:<id>")]
    async fn send(id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {
    let _ = (ship(1), bill(1), pack("1"), send(1));
}
