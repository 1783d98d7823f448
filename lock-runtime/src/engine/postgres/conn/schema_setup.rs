//! Checks that the schema is there and that the role may use it, and makes it if it may.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::sql::schema::{Schema, VERSION};
use crate::engine::postgres::wire::error::connecting;
use crate::engine::postgres::wire::values::Parameters;
use crate::util::time::now;
use tokio::time::Instant;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

/// Fails unless the schema is there, in the version of this client. With `create`, makes it if it is missing,
/// or waits until another client has made it: until the deadline.
pub(crate) async fn set_up(
    client: &Client,
    schema: &Schema,
    create: bool,
    deadline: Instant,
) -> Result<(), EngineError> {
    if is_made(client, schema).await? {
        return Ok(());
    }
    match create {
        true => make(client, schema, deadline).await,
        false => Err(rejected(format!(
            "no service has used locks in this database, which has no schema `{}`; check that it is the right one, or run {} as \
             a role that may",
            schema.name(),
            statements(schema)
        ))),
    }
}

/// Fails unless the role may use the schema for locks.
pub(crate) async fn check_rights(client: &Client, schema: &Schema) -> Result<(), EngineError> {
    match missing_rights(client, schema, false).await? {
        Some(missing) => Err(rejected(format!(
            "the role lacks rights that locks need; grant it {missing}"
        ))),
        None => Ok(()),
    }
}

/// Returns `false` if the schema is missing. Fails if it has another version, or tables of something else.
async fn is_made(client: &Client, schema: &Schema) -> Result<bool, EngineError> {
    let query = include_str!("../sql/version.sql");
    let parameter = (&schema.quoted() as _, Type::TEXT);
    let row = client.query_typed_one(query, &[parameter]).await;
    let read = row.and_then(|row| Ok((row.try_get("comment")?, row.try_get("is_used")?)));
    let (comment, is_used): (Option<String>, bool) = read.map_err(|error| connecting(&error))?;
    let name = schema.name();
    match comment.as_deref().and_then(version) {
        Some(VERSION) => Ok(true),
        Some(found) => {
            let remedy = match found < VERSION {
                true => &format!("run {} as the owner of the schema", statements(schema)),
                false => "update this client, or name another schema: `?schema=`",
            };
            Err(rejected(format!(
                "the schema `{name}` of locks has version {found}, and this client needs {VERSION}; {remedy}"
            )))
        }
        None if is_used => Err(rejected(format!(
            "the schema `{name}` has tables of something else; name another schema: `?schema=`"
        ))),
        None => Ok(false),
    }
}

/// Returns the version in a comment.
fn version(comment: &str) -> Option<u32> {
    comment
        .strip_prefix("distributed locks, version ")?
        .parse()
        .ok()
}

/// In one transaction: two clients that define a function at once would fail. A client that has gone is
/// noticed only when its statement ends: before the deadline, so that the error says what it has waited for.
async fn make(client: &Client, schema: &Schema, deadline: Instant) -> Result<(), EngineError> {
    let failure = |error: &Error| {
        let error = connecting(error);
        EngineError::new(error.kind, unmade(schema, &error.to_string()))
    };
    let patience = deadline.saturating_duration_since(now()) * 9 / 10;
    let begin = schema.sql(&format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {}; \
         SELECT pg_advisory_xact_lock(hashtextextended('distributed_lock schema', 0))",
        patience.as_millis().clamp(1, 3_600_000),
    ));
    let begun = client.batch_execute(&begin).await;
    begun.map_err(|error| failure(&error))?;
    // Another client may have made it meanwhile, perhaps as another role.
    let definition = match is_made(client, schema).await? {
        true => String::new(),
        false => schema.definition(),
    };
    let made = client.batch_execute(&(definition + "COMMIT")).await;
    made.map_err(|error| failure(&error))
}

/// Returns why the schema was not made, and the remedy.
fn unmade(schema: &Schema, cause: &str) -> String {
    let (name, statements) = (schema.name(), statements(schema));
    format!(
        "the schema `{name}` of locks can't be made: {cause}; run {statements} as a role that may"
    )
}

fn statements(schema: &Schema) -> String {
    let name = schema.name();
    format!("the statements that `lock_runtime::postgres::schema(\"{name}\")` returns")
}

/// Returns the rights that the role lacks of those that locks need; or of those with which processes report,
/// and operators take locks.
pub(crate) async fn missing_rights(
    client: &Client,
    schema: &Schema,
    of_operators: bool,
) -> Result<Option<String>, EngineError> {
    let query = include_str!("../sql/missing_rights.sql");
    let parameters: &Parameters<'_> =
        &[(&schema.quoted(), Type::TEXT), (&of_operators, Type::BOOL)];
    let row = client.query_typed_one(query, parameters).await;
    row.and_then(|row| row.try_get(0))
        .map_err(|error| connecting(&error))
}

fn rejected(reason: String) -> EngineError {
    EngineError::new(EngineErrorKind::Rejected, reason)
}
