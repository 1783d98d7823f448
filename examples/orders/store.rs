//! Orders in a file, which several instances of the service may open. A real service has a database.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::error::OrderError;

#[derive(Deserialize)]
pub struct NewOrder {
    pub item: String,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Order {
    pub id: i64,
    pub item: String,
    pub shipped: bool,
    /// The tracking numbers of its parcels. There must be at most one.
    pub parcels: Vec<i64>,
}

#[derive(Default, Serialize, Deserialize)]
struct Table {
    orders: BTreeMap<i64, Order>,
    last_parcel: i64,
}

#[derive(Clone)]
pub struct Orders {
    path: Arc<Path>,
}

impl Orders {
    pub fn open(path: &Path) -> io::Result<Orders> {
        change(path, |_| ())?;
        Ok(Orders { path: path.into() })
    }

    pub async fn create(&self, order: NewOrder) -> Result<Order, OrderError> {
        let insert = |table: &mut Table| {
            let id = 1 + table.orders.keys().last().copied().unwrap_or_default();
            let order = Order {
                id,
                item: order.item,
                shipped: false,
                parcels: Vec::new(),
            };
            table.orders.insert(id, order.clone());
            order
        };
        self.blocking(|path| change(path, insert)).await
    }

    pub async fn find(&self, id: i64) -> Result<Order, OrderError> {
        let table = self.blocking(read).await?;
        let order = table.orders.get(&id);
        order.cloned().ok_or(OrderError::Unknown(id))
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
        self.update(id, |order, _| order.shipped = true).await
    }

    /// Simulates a call to an external service that is slow, and sends a parcel with every call.
    async fn hand_to_carrier(&self, id: i64) -> Result<(), OrderError> {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let send = |order: &mut Order, last_parcel: &mut i64| {
            *last_parcel += 1;
            order.parcels.push(*last_parcel);
        };
        self.update(id, send).await?;
        Ok(())
    }

    async fn update(
        &self,
        id: i64,
        update: impl FnOnce(&mut Order, &mut i64) + Send + 'static,
    ) -> Result<Order, OrderError> {
        let update = move |table: &mut Table| {
            let order = table.orders.get_mut(&id)?;
            update(order, &mut table.last_parcel);
            Some(order.clone())
        };
        let updated = self.blocking(|path| change(path, update)).await?;
        updated.ok_or(OrderError::Unknown(id))
    }

    /// Runs a query on a thread of its own, since files block.
    async fn blocking<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, OrderError> {
        let path = self.path.clone();
        Ok(tokio::task::spawn_blocking(move || query(&path)).await??)
    }
}

/// Returns what the last change left.
fn read(path: &Path) -> io::Result<Table> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Table::default()),
        Err(error) => Err(error),
    }
}

/// Changes the file. The changes of all instances come one after the other, and a crash leaves the file as it
/// was.
fn change<T>(path: &Path, change: impl FnOnce(&mut Table) -> T) -> io::Result<T> {
    let lock = File::create(path.with_extension("lock"))?;
    lock.lock()?;
    let mut table = read(path)?;
    let answer = change(&mut table);
    let changed = path.with_extension("changed");
    fs::write(&changed, serde_json::to_vec(&table)?)?;
    fs::rename(changed, path)?;
    Ok(answer)
}
