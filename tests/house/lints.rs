//! The expansion triggers no lint, and hides no lint about the user's own code. Clippy checks this file with
//! the rest.

#![deny(
    warnings,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    keyword_idents,
    let_underscore,
    nonstandard_style,
    unused,
    absolute_paths_not_starting_with_crate,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    meta_variable_misuse,
    missing_abi,
    redundant_lifetimes,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unnameable_types,
    unreachable_pub,
    unsafe_code,
    unused_import_braces,
    unused_lifetimes,
    unused_qualifications,
    unused_results,
    variant_size_differences
)]

use std::fmt::Display;
use std::pin::Pin;
use std::time::Duration;

use lock_runtime::{LockError, LockManager, distributed_lock};

const TTL: Duration = Duration::from_secs(30);

#[distributed_lock(key = "nightly")]
async fn constant() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{id}:{id:04}", ttl = "30s", wait = "1h")]
async fn plain(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<order.0>:<name>:<name.len():04>:<TTL.as_secs()>", ttl = TTL, wait = TTL * 2)]
async fn template(order: (u64, u64), name: &str) -> Result<u64, LockError> {
    let late = order.1 + 1;
    Ok(late + u64::try_from(name.len()).unwrap_or_default())
}

#[distributed_lock(
    key = format!("order:{id}"),
    ttl = "60s",
    max_hold = "5m",
    renew = false,
    on_lost = "continue",
    on_busy = None,
    or_else = |error| Some(error.to_string()),
    guard = lock,
    manager = manager,
    crate = ::lock_runtime
)]
async fn everything(manager: &LockManager, id: u64) -> Option<String> {
    Some(format!("{id} {}", lock.key()))
}

#[distributed_lock(key = "none", wait = "0s", or_else = drop)]
async fn nothing() {}

#[distributed_lock(key = "forever", wait = "0s", or_else = |error| panic!("{error}"))]
async fn forever() -> ! {
    loop {
        tokio::task::yield_now().await;
    }
}

#[distributed_lock(key = "panics", wait = "0s", on_busy = panic!("busy"))]
async fn panics() -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "returns:{id}", wait = "0s", on_busy = return Ok(id))]
async fn returns(id: u64) -> Result<u64, LockError> {
    Ok(id + 1)
}

#[distributed_lock(key = "panics", wait = "0s", on_busy = panic!("busy"), or_else = |error| panic!("{error}"))]
async fn panics_always() -> ! {
    std::future::pending().await
}

#[distributed_lock(key = "exits", wait = "0s", on_busy = std::process::exit(1), or_else = |error| panic!("{error}"))]
async fn exits() -> u64 {
    1
}

#[distributed_lock(key = "awaits:{id}", wait = "0s", on_busy = { tokio::task::yield_now().await; Ok(id) })]
async fn awaits(id: u64) -> Result<u64, LockError> {
    Ok(id + 1)
}

#[distributed_lock(key = "question:{id}", wait = "0s", on_busy = Ok(u64::from(checked(id)?)))]
async fn question(id: u64) -> Result<u64, LockError> {
    Ok(id + 1)
}

fn checked(id: u64) -> Result<u32, LockError> {
    u32::try_from(id).map_err(|_| LockError::NotInitialized)
}

#[distributed_lock(key = "diverging", wait = "0s", on_busy = unreachable!())]
fn diverging() -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>> {
    Box::pin(async move { Ok(1) })
}

#[distributed_lock(key = "opaque:<value>")]
async fn opaque(mut value: u32) -> Result<impl Display + use<>, LockError> {
    while value < 10 {
        value += 1;
    }
    Ok(value)
}

#[distributed_lock(key = "future:{id}")]
fn future(id: u64) -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>> {
    Box::pin(async move { Ok(id) })
}

#[distributed_lock(key = "sum:".to_owned() + id, ttl = TTL + TTL)]
async fn sum(id: &str) -> Result<usize, LockError> {
    Ok(id.len())
}

#[distributed_lock(key = "todo", wait = "0s")]
async fn unwritten() -> Result<(), LockError> {
    todo!()
}

macro_rules! locked {
    ($name:ident($id:ident), $key:expr, $lock:ident, $body:block) => {
        #[distributed_lock(key = $key, guard = $lock)]
        async fn $name($id: u64) -> Result<u64, LockError> {
            $body
        }
    };
}

locked!(generated(id), "generated:<id>", lock, {
    Ok(id + u64::from(lock.is_valid()))
});
locked!(computed(id), 1 + id, lock, {
    Ok(id + u64::from(lock.is_valid()))
});

struct Shop {
    tenant: String,
    locks: LockManager,
}

impl Shop {
    #[distributed_lock(key = "shop:{self.tenant}", manager = self.locks)]
    async fn rename(&mut self, tenant: String) -> Result<&str, LockError> {
        self.tenant = tenant;
        Ok(&self.tenant)
    }

    #[distributed_lock(key = "shop:<id>", guard = guard)]
    async fn checked<'a>(&'a self, id: &str) -> Result<&'a str, LockError> {
        guard.ensure_valid_for(Duration::from_millis(1))?;
        if id.is_empty() {
            return Ok("");
        }
        Ok(self.tenant.as_str())
    }
}

// Lints about the user's code still fire.

#[distributed_lock(key = "never")]
#[expect(dead_code)]
async fn never_called() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "argument")]
#[expect(unused_variables)]
async fn argument(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "guard", guard = lock)]
#[expect(unused_variables)]
async fn unused_guard() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "mutable:{id}")]
#[expect(unused_mut)]
async fn mutable(mut id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "must_use:{id}")]
#[expect(unused_must_use)]
async fn must_use(id: u64) -> Result<(), LockError> {
    id.checked_add(1).ok_or(());
    Ok(())
}

#[distributed_lock(key = "unreachable:{id}")]
#[expect(unreachable_code)]
async fn unreachable(id: u64) -> Result<u64, LockError> {
    return Ok(id);
    Ok(id + 1)
}

#[distributed_lock(key = "parentheses:{id}")]
#[expect(unused_parens)]
async fn parentheses(id: u64) -> Result<u64, LockError> {
    let next = (id + 1);
    Ok(next)
}

#[distributed_lock(key = "comparison:{id}")]
#[expect(clippy::bool_comparison, reason = "clippy sees the body too")]
async fn comparison(id: u64) -> Result<bool, LockError> {
    Ok((id == 1) == true)
}

#[tokio::test]
async fn annotated_functions_run_under_strict_lints() -> Result<(), LockError> {
    lock_runtime::init("memory://").await?;
    let locks = LockManager::connect("memory://").await?;
    constant().await?;
    assert_eq!(plain(1).await?, 1);
    assert_eq!(template((1, 2), "abc").await?, 6);
    assert_eq!(everything(&locks, 1).await.as_deref(), Some("1 order:1"));
    nothing().await;
    assert!(
        tokio::time::timeout(Duration::from_millis(10), forever())
            .await
            .is_err()
    );
    assert_eq!(panics().await?, 1);
    assert_eq!(returns(1).await?, 2);
    assert!(
        tokio::time::timeout(Duration::from_millis(10), panics_always())
            .await
            .is_err()
    );
    assert_eq!(exits().await, 1);
    assert_eq!(awaits(1).await?, 2);
    assert_eq!(question(1).await?, 2);
    assert_eq!(diverging().await?, 1);
    assert_eq!(opaque(1).await?.to_string(), "10");
    assert_eq!(future(1).await?, 1);
    assert_eq!(sum("1").await?, 1);
    drop(unwritten());
    assert_eq!(generated(1).await?, 2);
    assert_eq!(computed(1).await?, 2);
    let mut shop = Shop {
        tenant: String::new(),
        locks,
    };
    assert_eq!(shop.rename("t".to_owned()).await?, "t");
    assert_eq!(shop.checked("1").await?, "t");
    argument(1).await?;
    unused_guard().await?;
    assert_eq!(mutable(1).await?, 1);
    must_use(1).await?;
    assert_eq!(unreachable(1).await?, 1);
    assert_eq!(parentheses(1).await?, 2);
    assert!(comparison(1).await?);
    Ok(())
}
