//! Orders in a SQLite file, which several instances of the service may open.

use rusqlite::{Connection, OptionalExtension, Result, Row};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::error::OrderError;

#[derive(Deserialize)]
pub struct NewOrder {
    pub item: String,
}

#[derive(Serialize)]
pub struct Order {
    pub id: i64,
    pub item: String,
    pub shipped: bool,
    /// The tracking numbers of its parcels. There must be at most one.
    pub parcels: Vec<i64>,
}

#[derive(Clone)]
pub struct Orders {
    connection: Arc<Mutex<Connection>>,
}

impl Orders {
    pub fn open(path: &Path) -> Result<Orders> {
        let connection = Connection::open(path)?;
        // Other instances write to the same file: writers wait for each other, readers do not.
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE IF NOT EXISTS orders (
                 id      INTEGER PRIMARY KEY,
                 item    TEXT NOT NULL,
                 shipped INTEGER NOT NULL DEFAULT 0
             );
             CREATE TABLE IF NOT EXISTS parcels (
                 tracking INTEGER PRIMARY KEY,
                 order_id INTEGER NOT NULL REFERENCES orders
             );",
        )?;
        let connection = Arc::new(Mutex::new(connection));
        Ok(Orders { connection })
    }

    pub async fn create(&self, order: NewOrder) -> Result<Order, OrderError> {
        let insert = "INSERT INTO orders (item) VALUES (?1) RETURNING id";
        let id = self
            .blocking(move |db| db.query_row(insert, [&order.item], |row| row.get(0)))
            .await?;
        self.find(id).await
    }

    pub async fn find(&self, id: i64) -> Result<Order, OrderError> {
        self.blocking(move |db| find(db, id))
            .await?
            .ok_or(OrderError::Unknown(id))
    }

    /// Ships an order that has not been shipped. Only the order's lock, which callers hold, prevents two
    /// of them from finding the order unshipped at the same time.
    pub async fn ship(&self, id: i64) -> Result<Order, OrderError> {
        let order = self.find(id).await?;
        if order.shipped {
            return Err(OrderError::Shipped(id));
        }
        // A parcel exists if an earlier call ended here: its client disconnected, or the process crashed.
        if order.parcels.is_empty() {
            self.hand_to_carrier(id).await?;
        }
        self.blocking(move |db| db.execute("UPDATE orders SET shipped = 1 WHERE id = ?1", [id]))
            .await?;
        self.find(id).await
    }

    /// Simulates a call to an external service that is slow, and sends a parcel with every call.
    async fn hand_to_carrier(&self, id: i64) -> Result<(), OrderError> {
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.blocking(move |db| db.execute("INSERT INTO parcels (order_id) VALUES (?1)", [id]))
            .await?;
        Ok(())
    }

    /// Runs a query on a thread of its own, since SQLite's calls block.
    async fn blocking<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T, OrderError> {
        let connection = self.connection.clone();
        let answer = tokio::task::spawn_blocking(move || {
            query(&connection.lock().unwrap_or_else(PoisonError::into_inner))
        });
        Ok(answer.await??)
    }
}

fn find(db: &Connection, id: i64) -> Result<Option<Order>> {
    let mut parcels = db.prepare("SELECT tracking FROM parcels WHERE order_id = ?1")?;
    let parcels = parcels
        .query_map([id], |row| row.get(0))?
        .collect::<Result<_>>()?;
    let order = |row: &Row| {
        Ok(Order {
            id,
            item: row.get(0)?,
            shipped: row.get(1)?,
            parcels,
        })
    };
    db.query_row(
        "SELECT item, shipped FROM orders WHERE id = ?1",
        [id],
        order,
    )
    .optional()
}
