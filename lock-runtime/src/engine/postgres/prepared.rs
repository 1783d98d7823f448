//! The statements that a server parses and plans once for a connection that is not shared.

use crate::engine::postgres::schema::Schema;
use crate::util::join_all::join_all;
use std::collections::HashMap;
use tokio_postgres::{Client, Error, Statement};

pub(crate) const ACQUIRE: &str =
    "SELECT * FROM distributed_lock.acquire_1($1, $2, $3, $4, $5, $6, $7)";
pub(crate) const ACQUIRE_ONE: &str =
    "SELECT distributed_lock.acquire_one_1($1, $2, $3, $4, $5, $6)";
pub(crate) const WAIT: &str = "SELECT * FROM distributed_lock.wait_1($1, $2, $3, $4, $5, $6, $7)";
pub(crate) const RELEASE: &str = "SELECT * FROM distributed_lock.release_1($1, $2, $3)";
pub(crate) const RELEASE_ONE: &str = "SELECT distributed_lock.release_one_1($1, $2)";
pub(crate) const RENEW: &str = "SELECT distributed_lock.renew_1($1, $2, $3, $4)";
pub(crate) const TELL: &str = "SELECT distributed_lock.tell_1($1)";

/// What is prepared: all that is sent often. All of it, since statements are sent in an order.
const OFTEN: [&str; 7] = [
    ACQUIRE,
    ACQUIRE_ONE,
    WAIT,
    RELEASE,
    RELEASE_ONE,
    RENEW,
    TELL,
];

/// The statements of a connection, by their text; none behind a pooler.
#[derive(Default)]
pub(crate) struct Prepared(HashMap<&'static str, Statement>);

impl Prepared {
    /// Prepares the statements, and makes the settings of requests those of the connection.
    pub(crate) async fn new(client: &Client, schema: &Schema) -> Result<Prepared, Error> {
        let set = schema.sql("SELECT distributed_lock.set_1(false)");
        client.batch_execute(&set).await?;
        let prepared = join_all(OFTEN.map(async |text| {
            let statement = client.prepare(&schema.sql(text)).await?;
            Ok((text, statement))
        }));
        let prepared: Result<HashMap<_, _>, Error> = prepared.await.into_iter().collect();
        prepared.map(Prepared)
    }

    pub(crate) fn get(&self, text: &str) -> Option<&Statement> {
        self.0.get(text)
    }
}
