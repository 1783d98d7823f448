//! The schema that holds the tables and the functions of locks.

use crate::process::ProcessId;

/// The version that the statements make, and that clients need.
pub(crate) const VERSION: u32 = 1;

/// The name of a schema: lowercase letters, digits and underscores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schema(String);

impl Default for Schema {
    fn default() -> Self {
        Schema("distributed_lock".to_owned())
    }
}

impl Schema {
    /// Returns `None` if the name is invalid.
    pub(crate) fn new(name: &str) -> Option<Schema> {
        let begins = |c: char| c.is_ascii_lowercase() || c == '_';
        let valid = name.len() <= 63
            && name.starts_with(begins)
            && name.chars().all(|c| begins(c) || c.is_ascii_digit());
        valid.then(|| Schema(name.to_owned()))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Returns SQL that is written for the default schema, for this one.
    pub(crate) fn sql(&self, template: &str) -> String {
        let mut parts = template.split("distributed_lock");
        let mut sql = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            // The beginning of a text is no identifier.
            match sql.ends_with('\'') {
                true => sql += &self.0,
                false => sql += &self.quoted(),
            }
            sql += part;
        }
        sql
    }

    /// Returns all statements that make the schema.
    pub(crate) fn definition(&self) -> String {
        self.sql(concat!(
            include_str!("schema.sql"),
            include_str!("operations.sql"),
            include_str!("requests.sql")
        ))
    }

    /// Returns the channel on which all processes are asked.
    pub(crate) fn asks(&self) -> String {
        // The server allows no more than 63 bytes.
        format!("{:.58}_asks", self.0)
    }

    /// Returns the channel on which a process hears that others wait for locks that it may keep.
    pub(crate) fn recalls(&self, process: ProcessId) -> String {
        format!("{:.47}_recalls_{process}", self.0)
    }

    /// Returns the name as an identifier.
    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_quotes() {
        for valid in ["distributed_lock", "_a1", "user"] {
            assert!(Schema::new(valid).is_some(), "{valid}");
        }
        for invalid in ["", "1a", "Locks", "a-b", "a\"b", "a'b", &"a".repeat(64)] {
            assert!(Schema::new(invalid).is_none(), "{invalid}");
        }
    }

    #[test]
    fn channels_are_short_enough() {
        let (schema, process) = (Schema::default(), ProcessId(0x7be_01c5));
        assert_eq!(schema.asks(), "distributed_lock_asks");
        assert_eq!(schema.recalls(process), "distributed_lock_recalls_7be01c5");
        let long = Schema::new(&"a".repeat(63)).unwrap();
        for (channel, end) in [
            (long.asks(), "a_asks"),
            (long.recalls(process), "a_recalls_7be01c5"),
        ] {
            assert!(channel.len() == 63 && channel.ends_with(end), "{channel}");
        }
    }

    #[test]
    fn definition_is_of_that_schema_alone() {
        let schema = Schema("shop".to_owned()).definition();
        assert!(schema.contains("CREATE TABLE IF NOT EXISTS \"shop\".held"));
        assert!(!schema.contains("distributed_lock"));
        assert!(schema.contains(&format!("IS 'distributed locks, version {VERSION}'")));
        assert!(schema.contains("('shop listens ' || first.channel, 0)"));
    }
}
