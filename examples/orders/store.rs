//! Orders in a SQLite file, which several instances of the service may have open.

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
    /// The tracking numbers of its parcels. More than one would be one too many.
    pub parcels: Vec<i64>,
}

#[derive(Clone)]
pub struct Orders {
    connection: Arc<Mutex<Connection>>,
}

impl Orders {
    pub fn open(path: &Path) -> Result<Orders> {
        let connection = Connection::open(path)?;
        // Other instances write to the same file: wait for them, and let readers go on meanwhile.
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

    /// Reads, has it carried away, writes. Nothing in here keeps two callers from finding the order
    /// unshipped at the same time: they hold the order's lock.
    pub async fn ship(&self, id: i64) -> Result<Order, OrderError> {
        let order = self.find(id).await?;
        if order.shipped {
            return Err(OrderError::Shipped(id));
        }
        // There is a parcel if an earlier call got no further: its client hung up, or it crashed.
        if order.parcels.is_empty() {
            self.hand_to_carrier(id).await?;
        }
        self.blocking(move |db| db.execute("UPDATE orders SET shipped = 1 WHERE id = ?1", [id]))
            .await?;
        self.find(id).await
    }

    /// Stands for a call to somebody else's service, which is slow and sends a van each time.
    async fn hand_to_carrier(&self, id: i64) -> Result<(), OrderError> {
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.blocking(move |db| db.execute("INSERT INTO parcels (order_id) VALUES (?1)", [id]))
            .await?;
        Ok(())
    }

    /// SQLite's calls block, so they have threads of their own.
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
