//! What a migration tool needs.

use crate::engine::postgres::sql::schema::Schema;
use crate::error::LockError;

/// Returns the SQL statements that make the schema of that name, in which locks are kept, for a migration
/// tool. They can be run again, while clients go on.
///
/// The name that a URL without `?schema=` uses is `distributed_lock`.
///
/// ```
/// let statements = lock_runtime::postgres::schema("distributed_lock")?;
/// assert!(statements.contains("CREATE TABLE"));
/// # Ok::<(), lock_runtime::LockError>(())
/// ```
///
/// # Errors
///
/// [`LockError::InvalidConfig`] unless the name consists of at most 63 lowercase letters, digits and
/// underscores, and does not begin with a digit.
pub fn schema(name: &str) -> Result<String, LockError> {
    match Schema::new(name) {
        Some(schema) => Ok(schema.definition()),
        None => Err(LockError::InvalidConfig {
            reason: format!(
                "`{}` is no name of a schema for locks; use at most 63 lowercase letters, digits and underscores",
                name.chars().take(64).collect::<String>(),
            ),
            source: None,
        }),
    }
}
