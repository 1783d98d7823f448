use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use lock_runtime::testing::{Fault, Locks};
use lock_runtime::{LockError, LostCause, distributed_lock};
use std::time::Duration;

#[distributed_lock(key = "order:<id>")]
async fn ship(Path(id): Path<u64>) -> Result<String, LockError> {
    tokio::time::sleep(Duration::from_secs(60)).await; // the carrier
    Ok(format!("order {id} shipped"))
}

async fn status() -> StatusCode {
    ship(Path(42)).await.into_response().status()
}

#[tokio::test(start_paused = true)]
async fn order_that_another_replica_ships_is_busy() {
    let locks = Locks::new();
    let _default = locks.set_default();
    let _other = locks.hold_elsewhere("order:42").await;
    assert_eq!(status().await, StatusCode::LOCKED);
}

#[tokio::test(start_paused = true)]
async fn lost_lock_ends_the_call() {
    let locks = Locks::new();
    let _default = locks.set_default();
    let call = tokio::spawn(status());
    locks.wait_until_held("order:42").await;
    locks.lose("order:42", LostCause::Expired);
    assert_eq!(call.await.unwrap(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test(start_paused = true)]
async fn outage_is_reported_and_ends() {
    let locks = Locks::new();
    let _default = locks.set_default();
    locks.fail_with(Fault::Down);
    assert_eq!(status().await, StatusCode::SERVICE_UNAVAILABLE);
    locks.repair();
    assert_eq!(status().await, StatusCode::OK);
}
