//! What a database has besides the records: settings, and transactions of users, which rely on proofs of
//! holders: a row for each, which a transaction locks.

use crate::own_store::StoreFuture;
use crate::warning::WarningKind;
use std::sync::Arc;

/// What was found, and what that endangers.
pub(crate) type Finding = (WarningKind, String);

/// A store in a database.
pub(crate) trait Database: Proofs {
    /// Returns what endangers locks.
    fn findings(&self) -> StoreFuture<'_, Vec<Finding>>;
}

pub(crate) trait Proofs: Send + Sync {
    /// Returns the reason if it can prove nothing at present.
    fn refuses(&self) -> Option<&'static str>;

    /// Makes a proof with a number that was never used. Fails if it could not be ended.
    fn make<'a>(&'a self, name: &'a str, number: u64) -> StoreFuture<'a, ()>;

    /// Returns `true` if a proof has not ended.
    fn is_there<'a>(&'a self, name: &'a str, number: u64) -> StoreFuture<'a, bool>;

    /// Ends a proof, unless a transaction has it. Returns `true` if it has ended.
    fn end<'a>(&'a self, name: &'a str, number: u64) -> StoreFuture<'a, bool>;

    /// Returns the statement by which a transaction takes these proofs, and fails unless all are there.
    fn statement(&self, proofs: &[(Arc<str>, u64)]) -> String;
}
