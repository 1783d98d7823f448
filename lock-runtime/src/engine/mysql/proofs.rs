//! Proofs in a table of their own, whose rows transactions of users lock.

use crate::engine::mysql::sql::CREATE_PROOFS;
use crate::engine::mysql::store::MySqlStore;
use crate::engine::mysql::wire::error::ServerError;
use crate::engine::store::database::Proofs;
use crate::own_store::{StoreError, StoreFuture};
use std::fmt::Write;
use std::sync::Arc;

const NOT_SOLE: &str = "a lock behind a proxy, or on several servers that accept writes, can't be proven in a \
                        transaction; use a fencing token";

impl MySqlStore {
    /// Fails if a transaction has the row. A deletion alone would wait for that, and all other requests
    /// behind it.
    async fn end_row(&self, name: &str, number: u64) -> Result<(), StoreError> {
        let (table, row) = (self.table(), Self::row(name, number));
        self.run(format!(
            "SELECT 1 FROM {table} WHERE {row} FOR UPDATE NOWAIT"
        ))
        .await?;
        self.run(format!("DELETE FROM {table} WHERE {row}")).await?;
        Ok(())
    }

    /// Returns the table, with its database: a transaction may use another one.
    fn table(&self) -> String {
        let database = self.database.replace('`', "``");
        format!("`{database}`.distributed_lock_proofs")
    }

    fn row(name: &str, number: u64) -> String {
        format!("name = {} AND number = {number}", literal(name))
    }
}

impl Proofs for MySqlStore {
    fn refuses(&self) -> Option<&'static str> {
        let present = self.requests.present();
        present.is_some_and(|it| !it.is_sole).then_some(NOT_SOLE)
    }

    fn make<'a>(&'a self, name: &'a str, number: u64) -> StoreFuture<'a, ()> {
        let (table, literal) = (self.table(), literal(name));
        Box::pin(async move {
            if !self.connection().await?.is_sole {
                return Err(StoreError::denied(NOT_SOLE));
            }
            // A server or a user that can't end it must not make it.
            match self.end_row(name, number).await {
                Err(error) if self.creates && is(&error, ServerError::is_no_table) => {
                    self.run(CREATE_PROOFS.to_owned()).await?;
                }
                ended => ended?,
            }
            self.run(format!("INSERT INTO {table} VALUES ({literal}, {number})"))
                .await?;
            Ok(())
        })
    }

    fn is_there<'a>(&'a self, name: &'a str, number: u64) -> StoreFuture<'a, bool> {
        let row = [(Arc::from(name), number)];
        Box::pin(async move {
            match self.run(self.statement(&row)).await {
                Ok(_) => Ok(true),
                Err(error) if is(&error, ServerError::is_out_of_range) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    fn end<'a>(&'a self, name: &'a str, number: u64) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            match self.end_row(name, number).await {
                Ok(()) => Ok(true),
                Err(error) if is(&error, ServerError::is_locked) => Ok(false),
                Err(error) if is(&error, ServerError::is_no_table) => Ok(true),
                Err(error) => Err(error),
            }
        })
    }

    /// Each row is found by its key alone, so that no other one is locked. The exponential of 1,000 is an
    /// error.
    fn statement(&self, proofs: &[(Arc<str>, u64)]) -> String {
        let table = self.table();
        let mut sum = String::new();
        for (name, number) in proofs {
            let row = Self::row(name, *number);
            let plus = if sum.is_empty() { "" } else { " + " };
            let _ = write!(
                sum,
                "{plus}(SELECT COUNT(*) FROM {table} WHERE {row} LOCK IN SHARE MODE)"
            );
        }
        format!("SELECT EXP(IF({sum} = {}, 0, 1000))", proofs.len())
    }
}

fn is(error: &StoreError, kind: impl Fn(&ServerError) -> bool) -> bool {
    error.reason().downcast_ref().is_some_and(kind)
}

/// Returns the literal of a text, whatever is in it.
fn literal(text: &str) -> String {
    let mut literal = "x'".to_owned();
    for byte in text.as_bytes() {
        let _ = write!(literal, "{byte:02x}");
    }
    literal + "'"
}
