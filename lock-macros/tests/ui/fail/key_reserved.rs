use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = ":order")]
async fn constant() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = ":<id>")]
async fn template(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = ":{id}")]
async fn plain(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = ["order:<id>", (":<id>")])]
async fn list(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

macro_rules! method {
    ($name:ident, $key:expr) => {
        #[distributed_lock(key = $key)]
        async fn $name() -> Result<(), LockError> {
            Ok(())
        }
    };
}

method!(metavariable, ":order");

fn main() {}
