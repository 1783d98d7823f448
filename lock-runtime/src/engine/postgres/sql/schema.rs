//! The schema that holds the tables and the functions of locks.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::wire::error::connecting;
use tokio_postgres::{Client, Error, types::Type};

/// The version that this client needs.
const VERSION: u32 = 2;

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
            include_str!("requests.sql")
        ))
    }

    /// Checks that the schema is there, in the version that this client knows or a later one, and that the role may use it.
    /// Makes it if it is not, or upgrades an earlier one, if `create`.
    pub(crate) async fn prepare(&self, client: &Client, create: bool) -> Result<(), EngineError> {
        let found = self.find(client).await?;
        if found < Some(VERSION) {
            self.make(client, create, found).await?;
        }
        self.check_rights(client).await
    }

    /// Returns the version that is there.
    async fn find(&self, client: &Client) -> Result<Option<u32>, EngineError> {
        let query = "SELECT obj_description(schema, 'pg_namespace'), \
                            (SELECT obj_description(oid, 'pg_class') FROM pg_class \
                                WHERE relnamespace = schema AND relname = 'waiting'), \
                            EXISTS (SELECT FROM pg_class WHERE relnamespace = schema) \
                     FROM (SELECT to_regnamespace($1)::oid AS schema) s";
        let row = client
            .query_typed_one(query, &[(&self.quoted(), Type::TEXT)])
            .await;
        let (of_schema, of_table, is_used): (Option<String>, Option<String>, bool) = row
            .and_then(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
            .map_err(|error| connecting(&error))?;
        let first = version(of_schema);
        if first.is_none() && is_used {
            return Err(rejected(format!(
                "the schema `{}` has tables of something else; name another schema: `?schema=`",
                self.name()
            )));
        }
        Ok(first.map(|first| version(of_table).map_or(first, |last| last.max(first))))
    }

    /// `found`: the version that is there.
    async fn make(
        &self,
        client: &Client,
        create: bool,
        found: Option<u32>,
    ) -> Result<(), EngineError> {
        let name = self.name();
        let statements =
            format!("run the statements that `lock_runtime::postgres::schema(\"{name}\")` returns");
        let (what, remedy) = match found {
            None => (
                format!("the schema `{name}` of locks can't be made"),
                format!("{statements} as a role that may"),
            ),
            Some(found) => (
                format!(
                    "the schema `{name}` of locks has version {found}, and can't be upgraded to {VERSION}, which \
                     this client needs"
                ),
                format!(
                    "{statements} as the owner of the schema; clients of earlier versions go on"
                ),
            ),
        };
        if !create {
            let words = format!("{what}, since `create_schema` is off; {remedy}");
            return Err(rejected(words));
        }
        let impossible = |error: &Error| {
            let error = connecting(error);
            EngineError::new(error.kind, format!("{what}: {error}; {remedy}"))
        };
        // One transaction: two clients that define a function at once would fail. A client that has gone is noticed
        // only when its statement ends.
        let begin = self.sql(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '2s'; \
             SELECT pg_advisory_xact_lock(hashtextextended('distributed_lock schema', 0))",
        );
        let begun = client.batch_execute(&begin).await;
        begun.map_err(|error| impossible(&error))?;
        // Another client may have made it meanwhile, in another version, or as another role.
        let definition = match self.find(client).await? < Some(VERSION) {
            true => self.definition(),
            false => String::new(),
        };
        let made = client.batch_execute(&(definition + "COMMIT")).await;
        made.map_err(|error| impossible(&error))
    }

    async fn check_rights(&self, client: &Client) -> Result<(), EngineError> {
        let query = "WITH objects AS (
                SELECT c.oid, c.relkind, c.relname FROM pg_class c
                    WHERE c.relnamespace = to_regnamespace($1)::oid AND c.relname IN ('held', 'waiting', 'fence')
            ), needed(what, has) AS (
                SELECT 'USAGE ON SCHEMA ' || $1, has_schema_privilege(to_regnamespace($1)::oid, 'USAGE')
                UNION ALL SELECT p || ' ON TABLE ' || $1 || '.' || o.relname, has_table_privilege(o.oid, p)
                    FROM objects o, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p WHERE o.relkind = 'r'
                UNION ALL SELECT p || ' ON SEQUENCE ' || $1 || '.' || o.relname, has_sequence_privilege(o.oid, p)
                    FROM objects o, unnest(ARRAY['SELECT', 'UPDATE']) p WHERE o.relkind = 'S'
                UNION ALL SELECT 'EXECUTE ON FUNCTION ' || f.oid::regproc::text, has_function_privilege(f.oid, 'EXECUTE')
                    FROM pg_proc f WHERE f.pronamespace = to_regnamespace($1)::oid
            ) SELECT string_agg(what, ', ') FROM needed WHERE NOT has";
        let row = client
            .query_typed_one(query, &[(&self.quoted(), Type::TEXT)])
            .await;
        let missing: Option<String> = row
            .and_then(|row| row.try_get(0))
            .map_err(|error| connecting(&error))?;
        match missing {
            Some(missing) => Err(rejected(format!(
                "the role lacks rights that locks need; grant it {missing}"
            ))),
            None => Ok(()),
        }
    }

    fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

/// Returns the version that a comment tells.
fn version(comment: Option<String>) -> Option<u32> {
    let comment = comment?;
    comment
        .strip_prefix("distributed locks, version ")?
        .parse()
        .ok()
}

fn rejected(reason: String) -> EngineError {
    EngineError::new(EngineErrorKind::Rejected, reason)
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
    fn definition_is_of_that_schema_alone() {
        let schema = Schema("shop".to_owned()).definition();
        assert!(schema.contains("CREATE TABLE IF NOT EXISTS \"shop\".held"));
        assert!(!schema.contains("distributed_lock"));
        let comment = |version| format!("IS 'distributed locks, version {version}'");
        assert!(schema.contains(&comment(1)) && schema.contains(&comment(VERSION)));
        assert!(schema.contains("('shop listens ' || first.channel, 0)"));
    }
}
