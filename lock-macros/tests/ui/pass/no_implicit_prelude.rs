#![no_implicit_prelude]

mod core {}
mod std {}
mod lock_runtime {}

#[allow(unused_macros)]
macro_rules! format {
    ($($anything:tt)*) => {
        compile_error!("not the user's `format!`")
    };
}

#[allow(dead_code)]
struct Result;

#[::lock_runtime::distributed_lock(
    key = "order:<id>:<id.count_ones()>",
    ttl = "30s",
    on_busy = ::core::result::Result::Ok(0),
    or_else = ::core::result::Result::Err,
    guard = lock
)]
async fn template(id: u64) -> ::core::result::Result<u64, ::lock_runtime::LockError> {
    let _ = lock;
    ::core::result::Result::Ok(id)
}

#[::lock_runtime::distributed_lock(key = "order:{id}")]
async fn plain(id: u64) -> ::core::result::Result<u64, ::lock_runtime::LockError> {
    ::core::result::Result::Ok(id)
}

#[::lock_runtime::distributed_lock(key = id)]
async fn value(id: u64) -> ::core::result::Result<u64, ::lock_runtime::LockError> {
    ::core::result::Result::Ok(id)
}

fn main() {
    let _ = (template(1), plain(1), value(1));
}
