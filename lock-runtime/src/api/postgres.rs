//! What a migration tool needs.

use crate::engine::postgres::schema::Schema;

/// Returns the SQL statements that make the schema of that name, in which locks are kept, for a migration tool. They can
/// be run again, and upgrade an earlier version, whose clients go on meanwhile.
///
/// The name that a URL without `?schema=` uses is `distributed_lock`. A name consists of lowercase letters, digits and
/// underscores; for any other name, the statements fail with an error that says so.
///
/// ```
/// let statements = lock_runtime::postgres::schema("distributed_lock");
/// assert!(statements.contains("CREATE TABLE"));
/// ```
#[must_use]
pub fn schema(name: &str) -> String {
    match Schema::new(name) {
        Some(schema) => schema.definition(),
        None => "DO $$ BEGIN RAISE EXCEPTION 'the name of a schema for locks consists of lowercase letters, \
                 digits and underscores'; END $$;\n"
            .to_owned(),
    }
}
