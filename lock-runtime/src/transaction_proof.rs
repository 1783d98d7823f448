//! The proof of a lock within a transaction.

/// A statement for a transaction of your own on the database that keeps the lock, from
/// [`LockGuard::transaction_proof`](crate::LockGuard::transaction_proof).
///
/// In MySQL and MariaDB it has no parameters: `sqlx::query(proof.statement()).execute(&mut *transaction)`.
///
/// In PostgreSQL it calls a function of the locks' schema with two arguments: [`names`](Self::names), an
/// array of text, and [`numbers`](Self::numbers), an array of `bigint`. They are opaque. Any driver can run
/// it:
///
/// ```
/// # fn with_tokio_postgres(proof: &lock_runtime::TransactionProof) {
/// let statement: &str = proof.statement(); // `SELECT "distributed_lock".ensure($1, $2)`
/// let names: &[String] = proof.names();
/// let numbers: &[i64] = proof.numbers();
/// // tokio-postgres: transaction.query_one(statement, &[&names, &numbers]).await?;
/// // sqlx: sqlx::query(statement).bind(names).bind(numbers).execute(&mut *transaction).await?;
/// # }
/// ```
///
/// The statement fails, with SQLSTATE `DL001` in PostgreSQL and with error 1690 in MySQL, unless the lock, or
/// each of several, is still held since the guard acquired it. Otherwise no caller whom this holder excludes
/// gets the lock before the transaction has ended, even if the lease ends or the holder releases the lock
/// meanwhile.
#[must_use = "the lock is proven when the statement runs in your transaction"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionProof {
    statement: String,
    names: Vec<String>,
    numbers: Vec<i64>,
}

impl TransactionProof {
    pub(crate) fn new(
        statement: String,
        names: Vec<String>,
        numbers: Vec<i64>,
    ) -> TransactionProof {
        TransactionProof {
            statement,
            names,
            numbers,
        }
    }

    /// Returns the statement, in PostgreSQL with the parameters `$1` for the names and `$2` for the numbers.
    #[must_use]
    pub fn statement(&self) -> &str {
        &self.statement
    }

    /// Returns the names under which the locks are stored, made from prefix and key; for the statement of
    /// PostgreSQL alone, and else empty.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of the holder of each lock, in the order of the names; likewise.
    #[must_use]
    pub fn numbers(&self) -> &[i64] {
        &self.numbers
    }
}
