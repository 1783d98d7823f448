//! What a migration tool needs.

/// The statement that makes the table of locks, for a migration tool. It can be run again, while clients go
/// on, and needs the database of the URL to be the present one.
///
/// ```
/// assert!(lock_runtime::mysql::TABLE.starts_with("CREATE TABLE IF NOT EXISTS"));
/// ```
pub const TABLE: &str = crate::engine::mysql::sql::CREATE;

/// The statement that makes the table of proofs, likewise; it is needed for
/// [`LockGuard::transaction_proof`](crate::LockGuard::transaction_proof) alone.
///
/// ```
/// assert!(lock_runtime::mysql::TABLE_OF_PROOFS.starts_with("CREATE TABLE IF NOT EXISTS"));
/// ```
pub const TABLE_OF_PROOFS: &str = crate::engine::mysql::sql::CREATE_PROOFS;
