//! The attribute combined with others, above and below.

use lock_runtime::{LockError, distributed_lock};
use tracing::instrument;

use super::{body, locks, under};

type Outcome<T> = Result<T, LockError>;

#[instrument]
#[distributed_lock(key = "instrument_above:{id}")]
async fn instrument_above(id: u64) -> Outcome<u64> {
    body("instrument_above:1").await;
    Ok(id)
}

#[distributed_lock(key = "instrument_below:{id}")]
#[instrument(err, skip(id))]
async fn instrument_below(id: u64) -> Outcome<u64> {
    body("instrument_below:1").await;
    Ok(id)
}

/// What no span can record.
struct Unseen;

#[distributed_lock(key = "patterns_below")]
#[instrument(fields(twice = 2 * id))]
async fn patterns_below((id, _): (u64, Unseen), _: Unseen) -> Outcome<u64> {
    body("patterns_below").await;
    Ok(id)
}

struct Shop;

#[async_trait::async_trait]
trait Agent {
    async fn above(&self, id: u64) -> Outcome<u64>;
    async fn below(&self, id: u64) -> Outcome<u64>;
}

#[async_trait::async_trait]
impl Agent for Shop {
    #[instrument(skip(self))]
    #[distributed_lock(key = "agent_above:{id}")]
    async fn above(&self, id: u64) -> Outcome<u64> {
        body("agent_above:1").await;
        Ok(id)
    }

    #[distributed_lock(key = "agent_below:{id}")]
    #[instrument(skip(self))]
    async fn below(&self, id: u64) -> Outcome<u64> {
        body("agent_below:1").await;
        Ok(id)
    }
}

#[distributed_lock(key = "upper:{id}")]
#[distributed_lock(key = "lower:{id}")]
async fn twice(id: u64) -> Outcome<u64> {
    body("upper:1").await;
    body("lower:1").await;
    Ok(id)
}

#[must_use = "it reports the result"]
#[distributed_lock(key = "must_use_above:{id}")]
async fn must_use_above(id: u64) -> Outcome<u64> {
    body("must_use_above:1").await;
    Ok(id)
}

#[distributed_lock(key = "must_use_below:{id}")]
#[must_use = "it reports the result"]
#[inline]
async fn must_use_below(id: u64) -> Outcome<u64> {
    body("must_use_below:1").await;
    Ok(id)
}

#[utoipa::path(get, path = "/documented/{id}", params(("id" = u64, Path)))]
#[distributed_lock(key = "documented_above:{id}")]
async fn documented_above(id: u64) -> Outcome<u64> {
    body("documented_above:1").await;
    Ok(id)
}

#[distributed_lock(key = "documented_below:{id}")]
#[utoipa::path(post, path = "/documented/{id}", params(("id" = u64, Path)))]
async fn documented_below(id: u64) -> Outcome<u64> {
    body("documented_below:1").await;
    Ok(id)
}

#[derive(utoipa::OpenApi)]
#[openapi(paths(documented_above, documented_below))]
struct Api;

#[distributed_lock(key = "program")]
#[tokio::main(flavor = "current_thread")]
async fn program() -> Outcome<()> {
    body("program").await;
    Ok(())
}

#[distributed_lock(key = "tested", manager = locks().await)]
#[tokio::test]
async fn annotated_test_runs_under_its_lock() -> Outcome<()> {
    body("tested").await;
    Ok(())
}

#[tokio::test]
async fn instrument_is_accepted_above_and_below() -> Outcome<()> {
    assert_eq!(under("instrument_above:1", instrument_above(1)).await?, 1);
    assert_eq!(under("instrument_below:1", instrument_below(1)).await?, 1);
    let below = patterns_below((1, Unseen), Unseen);
    assert_eq!(under("patterns_below", below).await?, 1);
    assert_eq!(under("agent_above:1", Shop.above(1)).await?, 1);
    assert_eq!(under("agent_below:1", Shop.below(1)).await?, 1);
    Ok(())
}

#[tokio::test]
async fn attribute_is_accepted_twice() -> Outcome<()> {
    assert_eq!(under("upper:1", under("lower:1", twice(1))).await?, 1);
    Ok(())
}

#[tokio::test]
async fn must_use_is_accepted_above_and_below() -> Outcome<()> {
    assert_eq!(under("must_use_above:1", must_use_above(1)).await?, 1);
    assert_eq!(under("must_use_below:1", must_use_below(1)).await?, 1);
    Ok(())
}

#[tokio::test]
async fn utoipa_path_is_accepted_above_and_below() -> Outcome<()> {
    assert_eq!(under("documented_above:1", documented_above(1)).await?, 1);
    assert_eq!(under("documented_below:1", documented_below(1)).await?, 1);
    let paths = <Api as utoipa::OpenApi>::openapi().paths;
    let path = &paths.paths["/documented/{id}"];
    assert!(path.get.is_some() && path.post.is_some());
    Ok(())
}

#[tokio::test]
async fn tokio_main_is_accepted_below() -> Outcome<()> {
    let program = async { tokio::task::spawn_blocking(program).await.unwrap() };
    under("program", program).await
}
