//! A service for orders on axum and PostgreSQL, which keeps its locks in the same database. Each order is
//! shipped once, even if an instance is paused for longer than its lease: the transaction that ships an order
//! checks its lock, and the database refuses the commit of a holder that is late.
//!
//! ```text
//! export LOCK_URL=postgres://postgres@127.0.0.1/postgres
//! cargo run --features full --example postgres_orders -- 8080    # in one terminal
//! cargo run --features full --example postgres_orders -- 8081    # in another
//! curl -d '{"item": "teapot"}' -H 'content-type: application/json' localhost:8080/orders
//! curl -X POST localhost:8080/orders/1/ship    # and pause this instance meanwhile: kill -STOP
//! curl -X POST localhost:8081/orders/1/ship    # ships the order; the other one answers 409 after kill -CONT
//! ```

use anyhow::Context;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router, debug_handler};
use lock_runtime::{Config, LockError, LockGuard, distributed_lock};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_postgres::{Client, NoTls};

/// The time that the carrier takes for a parcel.
const CARRIER: Duration = Duration::from_millis(1500);

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, item text NOT NULL, parcel bigint);
    CREATE SEQUENCE IF NOT EXISTS parcels";

#[derive(Clone)]
struct Orders {
    database: Arc<tokio_postgres::Config>,
}

#[derive(Deserialize)]
struct NewOrder {
    item: String,
}

#[derive(Serialize)]
struct Order {
    id: i64,
    item: String,
    parcel: Option<i64>,
}

impl Orders {
    /// Opens a connection. A real service would take one from a pool.
    async fn connect(&self) -> Result<Client, OrderError> {
        let (client, connection) = self.database.connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn create(&self, item: &str) -> Result<Order, OrderError> {
        let insert = "INSERT INTO orders (item) VALUES ($1) RETURNING id, item, parcel";
        let row = self.connect().await?.query_one(insert, &[&item]).await?;
        Ok(order(&row))
    }

    /// Ships an order that has not been shipped, in one transaction that begins with a check of the lock.
    async fn ship(&self, id: i64, lock: &LockGuard) -> Result<Order, OrderError> {
        let mut client = self.connect().await?;
        let select = "SELECT id, item, parcel FROM orders WHERE id = $1";
        let row = client.query_opt(select, &[&id]).await?;
        let found = order(&row.ok_or(OrderError::Unknown)?);
        if found.parcel.is_some() {
            return Err(OrderError::Shipped);
        }
        let proof = lock.transaction_proof().await?;
        println!("the carrier takes order {id}");
        tokio::time::sleep(CARRIER).await;

        let transaction = client.transaction().await?;
        let (names, numbers) = (proof.names(), proof.numbers());
        transaction
            .execute(proof.statement(), &[&names, &numbers])
            .await?;
        let update = "UPDATE orders SET parcel = nextval('parcels') WHERE id = $1 \
                      RETURNING id, item, parcel";
        let row = transaction.query_one(update, &[&id]).await?;
        transaction.commit().await?;
        Ok(order(&row))
    }
}

fn order(row: &tokio_postgres::Row) -> Order {
    Order {
        id: row.get("id"),
        item: row.get("item"),
        parcel: row.get("parcel"),
    }
}

#[debug_handler]
async fn create(
    State(orders): State<Orders>,
    Json(order): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), OrderError> {
    Ok((StatusCode::CREATED, Json(orders.create(&order.item).await?)))
}

/// The database decides whether a late holder may write, so the handler need not be canceled.
#[distributed_lock(key = "order:<id>", ttl = "2s", wait = "10s", on_lost = "continue", guard = lock)]
#[debug_handler]
async fn ship(
    State(orders): State<Orders>,
    Path(id): Path<i64>,
) -> Result<Json<Order>, OrderError> {
    orders.ship(id, lock).await.map(Json)
}

enum OrderError {
    Unknown,
    Shipped,
    /// The lock passed to another instance before the commit.
    Late,
    Lock(LockError),
    Database(tokio_postgres::Error),
}

impl From<LockError> for OrderError {
    fn from(error: LockError) -> OrderError {
        OrderError::Lock(error)
    }
}

impl From<tokio_postgres::Error> for OrderError {
    fn from(error: tokio_postgres::Error) -> OrderError {
        match error.code() {
            Some(code) if code.code() == "DL001" => OrderError::Late,
            _ => OrderError::Database(error),
        }
    }
}

impl IntoResponse for OrderError {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            OrderError::Lock(error) => return error.into_response(),
            OrderError::Unknown => (StatusCode::NOT_FOUND, "there is no such order"),
            OrderError::Shipped => (StatusCode::CONFLICT, "the order has been shipped"),
            OrderError::Late => (StatusCode::CONFLICT, "another request has taken over"),
            OrderError::Database(error) => {
                eprintln!("{error}");
                (StatusCode::INTERNAL_SERVER_ERROR, "something went wrong")
            }
        };
        (status, text).into_response()
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8080".to_owned());
    let port: u16 = port.parse().context("the port is a number up to 65535")?;
    lock_runtime::init(Config::from_env()?).await?;
    // The check of the lock needs the database that keeps it.
    let database = std::env::var("LOCK_URL")?.parse()?;
    let orders = Orders {
        database: Arc::new(database),
    };
    set_up(&orders).await?;

    let service = Router::new()
        .route("/orders", post(create))
        .route("/orders/{id}/ship", post(ship))
        .with_state(orders);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, service)
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    lock_runtime::shutdown().await;
    println!("stopped");
    Ok(())
}

/// Instances that start at the same time set the database up one after the other.
#[distributed_lock(key = "orders:setup")]
async fn set_up(orders: &Orders) -> anyhow::Result<()> {
    let client = orders
        .connect()
        .await
        .map_err(|_| anyhow::anyhow!("cannot connect"))?;
    Ok(client.batch_execute(TABLES).await?)
}
