//! Prepares the statements of a connection that is not shared: its server parses and plans them once.

use crate::engine::postgres::sql::schema::Schema;
use crate::engine::postgres::wire::statements::OFTEN;
use crate::util::join_all::join_all;
use std::collections::HashMap;
use tokio_postgres::{Client, Error, Statement};

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
