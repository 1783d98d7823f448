//! What locks in MySQL and MariaDB are compared with.

use super::{Contender, Retry};
use sqlx::mysql::{MySql, MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Executor};
use std::time::Duration;
use tokio::sync::Mutex;

/// The connections of contenders that need one for each lock.
const POOL: u32 = 16;

pub async fn client(url: &str) -> MySqlConnection {
    MySqlConnection::connect(url).await.unwrap()
}

/// A row that is inserted, and then deleted, by prepared statements on one connection.
pub struct Rows(Mutex<MySqlConnection>);

impl Contender for Rows {
    type Hold = String;

    async fn connect(url: &str, _: Retry) -> Rows {
        let mut client = client(url).await;
        let table = "CREATE TABLE IF NOT EXISTS bare (name VARBINARY(1000) PRIMARY KEY, record BLOB NOT NULL)";
        client.execute(table).await.unwrap();
        Rows(Mutex::new(client))
    }

    async fn acquire(&self, key: &str) -> String {
        let mut client = self.0.lock().await;
        let insert = sqlx::query("INSERT INTO bare VALUES (?, ?)")
            .bind(key)
            .bind(&[0; 77][..]);
        insert.execute(&mut *client).await.unwrap();
        key.to_owned()
    }

    async fn release(&self, key: String) {
        let mut client = self.0.lock().await;
        let delete = sqlx::query("DELETE FROM bare WHERE name = ?").bind(key);
        delete.execute(&mut *client).await.unwrap();
    }
}

/// Named locks, which are bound to a session and survive nothing, on a pool.
pub struct Named(MySqlPool);

impl Contender for Named {
    type Hold = (PoolConnection<MySql>, String);

    async fn connect(url: &str, _: Retry) -> Named {
        let pool = MySqlPoolOptions::new().max_connections(POOL);
        Named(pool.connect(url).await.unwrap())
    }

    async fn acquire(&self, key: &str) -> Self::Hold {
        let mut client = self.0.acquire().await.unwrap();
        let lock = sqlx::query_scalar("SELECT GET_LOCK(?, 30)").bind(key);
        let got: i64 = lock.fetch_one(&mut *client).await.unwrap();
        assert_eq!(got, 1);
        (client, key.to_owned())
    }

    async fn release(&self, (mut client, key): Self::Hold) {
        let release = sqlx::query("DO RELEASE_LOCK(?)").bind(key);
        release.execute(&mut *client).await.unwrap();
    }
}

/// A row that says until when it is locked, by the statements of ShedLock, which are tried again as often as
/// Spring's registry of locks does. It renews nothing, and grants in no order.
pub struct Polled {
    client: Mutex<MySqlConnection>,
    own: String,
}

const INTERVAL: Duration = Duration::from_millis(100);

impl Contender for Polled {
    type Hold = String;

    async fn connect(url: &str, _: Retry) -> Polled {
        let mut client = client(url).await;
        let table = "CREATE TABLE IF NOT EXISTS shedlock (name VARCHAR(64) PRIMARY KEY, \
                     lock_until TIMESTAMP(3) NOT NULL, locked_by VARCHAR(255) NOT NULL)";
        client.execute(table).await.unwrap();
        let own = sqlx::query_scalar("SELECT UUID()");
        let own = own.fetch_one(&mut client).await.unwrap();
        Polled {
            client: Mutex::new(client),
            own,
        }
    }

    async fn acquire(&self, key: &str) -> String {
        let mut client = self.client.lock().await;
        let insert = "INSERT IGNORE INTO shedlock VALUES (?, UTC_TIMESTAMP(3), '')";
        let insert = sqlx::query(insert).bind(key);
        insert.execute(&mut *client).await.unwrap();
        loop {
            let update = "UPDATE shedlock SET lock_until = UTC_TIMESTAMP(3) + INTERVAL 30 SECOND, \
                          locked_by = ? WHERE name = ? AND lock_until <= UTC_TIMESTAMP(3)";
            let update = sqlx::query(update).bind(&self.own).bind(key);
            let updated = update.execute(&mut *client).await.unwrap();
            if updated.rows_affected() == 1 {
                return key.to_owned();
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn release(&self, key: String) {
        let mut client = self.client.lock().await;
        let update =
            "UPDATE shedlock SET lock_until = UTC_TIMESTAMP(3) WHERE name = ? AND locked_by = ?";
        let update = sqlx::query(update).bind(key).bind(&self.own);
        update.execute(&mut *client).await.unwrap();
    }
}
