//! What locks in PostgreSQL are compared with.

use super::{Contender, Retry};
use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_postgres::PostgresLockProvider;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgAdvisoryLock, PgAdvisoryLockGuard, PgPool, PgPoolOptions};
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls, Statement};

/// The connections of contenders that need one for each lock.
const POOL: u32 = 16;

pub async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Two durable updates of one row, instead of an acquisition and a release.
pub struct Updates {
    client: Client,
    update: Statement,
}

impl Contender for Updates {
    type Hold = i64;

    async fn connect(url: &str, _: Retry) -> Updates {
        let client = client(url).await;
        let table = "CREATE TABLE IF NOT EXISTS updates (id bigint PRIMARY KEY, n bigint NOT NULL);
                     INSERT INTO updates SELECT id, 0 FROM generate_series(0, 1023) id
                         ON CONFLICT DO NOTHING";
        client.batch_execute(table).await.unwrap();
        let update = "UPDATE updates SET n = n + 1 WHERE id = $1";
        let update = client.prepare(update).await.unwrap();
        Updates { client, update }
    }

    async fn acquire(&self, key: &str) -> i64 {
        let number = key
            .rsplit('-')
            .next()
            .and_then(|number| number.parse().ok());
        let id: i64 = number.unwrap_or_default();
        self.update(id).await;
        id
    }

    async fn release(&self, id: i64) {
        self.update(id).await;
    }
}

impl Updates {
    async fn update(&self, id: i64) {
        let rows = self.client.execute(&self.update, &[&id]).await.unwrap();
        assert_eq!(rows, 1);
    }
}

/// Session advisory locks on one connection, one statement after the other.
pub struct Advisory {
    client: Mutex<Client>,
    statements: [Statement; 2],
}

impl Contender for Advisory {
    type Hold = String;

    async fn connect(url: &str, _: Retry) -> Advisory {
        let client = client(url).await;
        let lock = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))";
        let unlock = "SELECT pg_advisory_unlock(hashtextextended($1, 0))";
        let statements = [
            client.prepare(lock).await.unwrap(),
            client.prepare(unlock).await.unwrap(),
        ];
        Advisory {
            client: Mutex::new(client),
            statements,
        }
    }

    async fn acquire(&self, key: &str) -> String {
        self.ask(0, key).await;
        key.to_owned()
    }

    async fn release(&self, key: String) {
        self.ask(1, &key).await;
    }
}

impl Advisory {
    async fn ask(&self, statement: usize, key: &str) {
        let client = self.client.lock().await;
        let statement = &self.statements[statement];
        let row = client.query_one(statement, &[&key]).await.unwrap();
        assert!(row.get::<_, bool>(0));
    }
}

/// The advisory lock of sqlx, on a pool.
pub struct Sqlx(PgPool);

impl Contender for Sqlx {
    type Hold = PgAdvisoryLockGuard<'static, PoolConnection<sqlx::Postgres>>;

    async fn connect(url: &str, _: Retry) -> Sqlx {
        let pool = PgPoolOptions::new().max_connections(POOL);
        Sqlx(pool.connect(url).await.unwrap())
    }

    async fn acquire(&self, key: &str) -> Self::Hold {
        // A lock of this crate borrows its key for as long as it is held.
        let lock: &'static PgAdvisoryLock = Box::leak(Box::new(PgAdvisoryLock::new(key)));
        lock.acquire(self.0.acquire().await.unwrap()).await.unwrap()
    }

    async fn release(&self, hold: Self::Hold) {
        hold.release_now().await.unwrap();
    }
}

/// The crate `distributed-lock`, which takes advisory locks, on a pool.
pub struct Advised(PostgresLockProvider);

impl Contender for Advised {
    type Hold = <<PostgresLockProvider as LockProvider>::Lock as DistributedLock>::Handle;

    async fn connect(url: &str, _: Retry) -> Advised {
        let pool = PgPoolOptions::new().max_connections(POOL);
        let pool = pool.connect(url).await.unwrap();
        let provider = PostgresLockProvider::builder().pool(pool).build().await;
        Advised(provider.unwrap())
    }

    async fn acquire(&self, key: &str) -> Self::Hold {
        self.0.create_lock(key).acquire(None).await.unwrap()
    }

    async fn release(&self, hold: Self::Hold) {
        hold.release().await.unwrap();
    }
}
