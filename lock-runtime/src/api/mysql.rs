//! What a migration tool needs.

/// The statement that makes the table of locks, for a migration tool. It can be run again, while clients go
/// on, and needs the database of the URL to be the present one.
///
/// ```
/// assert!(lock_runtime::mysql::TABLE.starts_with("CREATE TABLE IF NOT EXISTS"));
/// ```
pub const TABLE: &str = crate::engine::mysql::sql::CREATE;
