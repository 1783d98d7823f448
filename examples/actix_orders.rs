//! A service for orders, on actix-web. Any number of instances may share one database and one Redis;
//! each order is shipped once.
//!
//! ```text
//! export LOCK_URL=redis://127.0.0.1/
//! cargo run --features full --example actix_orders -- --port 8080    # in one terminal
//! cargo run --features full --example actix_orders -- --port 8081    # in another
//! curl -d '{"item": "teapot"}' -H 'content-type: application/json' localhost:8080/orders
//! curl -X POST localhost:8080/orders/1/ship & curl -X POST localhost:8081/orders/1/ship
//! curl localhost:8080/metrics
//! ```

#[path = "orders/http.rs"]
mod http;
#[path = "orders/metrics.rs"]
mod metrics;
mod orders;

use actix_web::http::StatusCode;
use actix_web::web::{Data, Json, Path};
use actix_web::{App, HttpResponse, HttpServer, ResponseError, get, post};
use http::{Problem, REQUESTS};
use lock_runtime::{LockError, distributed_lock};
use metrics_exporter_prometheus::PrometheusHandle;
use orders::{NewOrder, Options, Order, OrderError, Orders, asked_to_stop};

#[post("/orders")]
async fn create(orders: Data<Orders>, order: Json<NewOrder>) -> Result<HttpResponse, OrderError> {
    let order = orders.create(order.into_inner()).await?;
    Ok(HttpResponse::Created().json(order))
}

#[get("/orders/{id}")]
async fn find(orders: Data<Orders>, id: Path<i64>) -> Result<Json<Order>, OrderError> {
    orders.find(*id).await.map(Json)
}

#[post("/orders/{id}/ship")]
#[distributed_lock(key = "order:<id>", ttl = "10s", wait = "5s")]
async fn ship(orders: Data<Orders>, id: Path<i64>) -> Result<Json<Order>, OrderError> {
    orders.ship(*id).await.map(Json)
}

/// For a readiness probe, which keeps requests away while locks can't be acquired.
#[get("/ready")]
async fn ready() -> Result<HttpResponse, LockError> {
    lock_runtime::manager()?.ping().await?;
    Ok(HttpResponse::Ok().finish())
}

/// For a liveness probe. It asks no other server: a restart would not bring that back.
#[get("/live")]
async fn live() -> HttpResponse {
    HttpResponse::Ok().finish()
}

#[get("/metrics")]
async fn scrape(exporter: Data<PrometheusHandle>) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    response.content_type(metrics::CONTENT_TYPE);
    response.body(exporter.render())
}

impl ResponseError for OrderError {
    fn error_response(&self) -> HttpResponse {
        if let OrderError::Lock(error) = self {
            return error.error_response();
        }
        let problem = Problem::from_error(self);
        let status = StatusCode::from_u16(problem.status);
        HttpResponse::build(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
            .content_type(Problem::CONTENT_TYPE)
            .json(problem)
    }
}

#[actix_web::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::from_args("actix_orders", REQUESTS)?;
    // Before the first lock.
    let exporter = Data::new(metrics::install()?);
    lock_runtime::init(options.lock).await?;
    let orders = Data::new(orders::open(&options.database).await?);

    let service = move || {
        App::new()
            .app_data(orders.clone())
            .app_data(exporter.clone())
            .service(create)
            .service(find)
            .service(ship)
            .service(ready)
            .service(live)
            .service(scrape)
    };
    let server = HttpServer::new(service)
        .shutdown_signal(asked_to_stop())
        .shutdown_timeout(10)
        .bind((options.listen, options.port))?;
    for address in server.addrs() {
        println!("listening on http://{address}");
    }

    server.run().await?;
    // After the last request, so that its locks are released before the process ends.
    lock_runtime::shutdown().await;
    println!("stopped");
    Ok(())
}
