//! A service for orders, on axum. Any number of instances may share one database and one Redis; each
//! order is shipped once.
//!
//! ```text
//! export LOCK_URL=redis://127.0.0.1/
//! cargo run --features full --example axum_orders -- --port 8080    # in one terminal
//! cargo run --features full --example axum_orders -- --port 8081    # in another
//! curl -d '{"item": "teapot"}' -H 'content-type: application/json' localhost:8080/orders
//! curl -X POST localhost:8080/orders/1/ship & curl -X POST localhost:8081/orders/1/ship
//! curl localhost:8080/metrics
//! xdg-open http://localhost:8080/locks    # who holds what
//! ```

#[path = "orders/http.rs"]
mod http;
#[path = "orders/metrics.rs"]
mod metrics;
mod orders;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, debug_handler};
use http::{Problem, REQUESTS};
use lock_admin::{Admin, Recorder};
use lock_runtime::{LockError, distributed_lock};
use metrics_exporter_prometheus::PrometheusHandle;
use orders::{NewOrder, Options, Order, OrderError, Orders, asked_to_stop};
use tokio::net::TcpListener;

#[debug_handler]
async fn create(
    State(orders): State<Orders>,
    Json(order): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), OrderError> {
    let order = orders.create(order).await?;
    Ok((StatusCode::CREATED, Json(order)))
}

#[debug_handler]
async fn find(
    State(orders): State<Orders>,
    Path(id): Path<i64>,
) -> Result<Json<Order>, OrderError> {
    orders.find(id).await.map(Json)
}

#[debug_handler]
#[distributed_lock(key = "order:<id>", ttl = "10s", wait = "5s")]
async fn ship(
    State(orders): State<Orders>,
    Path(id): Path<i64>,
) -> Result<Json<Order>, OrderError> {
    orders.ship(id).await.map(Json)
}

/// For a readiness probe, which keeps requests away while locks can't be acquired.
async fn ready() -> Result<(), LockError> {
    lock_runtime::manager()?.ping().await
}

/// For a liveness probe. It asks no other server: a restart would not bring that back.
async fn live() {}

async fn scrape(exporter: PrometheusHandle) -> impl IntoResponse {
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], exporter.render())
}

impl IntoResponse for OrderError {
    fn into_response(self) -> Response {
        if let OrderError::Lock(error) = self {
            return error.into_response();
        }
        let problem = Problem::from_error(&self);
        let status = StatusCode::from_u16(problem.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (
            status,
            [(CONTENT_TYPE, Problem::CONTENT_TYPE)],
            Json(problem),
        )
            .into_response()
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::from_args("axum_orders", REQUESTS)?;
    // Before the first lock.
    let exporter = metrics::install()?;
    let recorder = Recorder::new();
    lock_runtime::init(options.lock.on_event(recorder.handler())).await?;
    let admin = Admin::new(lock_runtime::manager()?.clone()).recorder(recorder);
    let orders = orders::open(&options.database).await?;

    let service = Router::new()
        .route("/orders", post(create))
        .route("/orders/{id}", get(find))
        .route("/orders/{id}/ship", post(ship))
        .route("/ready", get(ready))
        .route("/live", get(live))
        .route("/metrics", get(move || scrape(exporter)))
        // A real service authenticates people first.
        .nest_service("/locks", admin.axum())
        .with_state(orders);
    let listener = TcpListener::bind((options.listen, options.port)).await?;
    println!("listening on http://{}", listener.local_addr()?);

    axum::serve(listener, service)
        .with_graceful_shutdown(asked_to_stop())
        .await?;
    // After the last request, so that its locks are released before the process ends.
    lock_runtime::shutdown().await;
    println!("stopped");
    Ok(())
}
