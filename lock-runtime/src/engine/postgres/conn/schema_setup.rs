//! Checks that the schema is there and that the role may use it, and makes or upgrades it if it may.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::sql::schema::{LEAST, Schema, VERSION};
use crate::engine::postgres::wire::error::connecting;
use crate::engine::postgres::wire::values::Parameters;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

/// Fails unless the schema is there, in the least version that locks need or a later one. With `create`, makes it if it is not, or upgrades an earlier one if the role may.
pub(crate) async fn set_up(
    client: &Client,
    schema: &Schema,
    create: bool,
) -> Result<(), EngineError> {
    let found = find(client, schema).await?;
    let refusal = Refusal::new(schema, found.version);
    if found.version < Some(LEAST) {
        if !create {
            return Err(refusal.since_it_is_off());
        }
        make(client, schema, "2s", &refusal).await?;
    } else if found.version < Some(VERSION)
        && create
        && found.may_create
        && make(client, schema, "100ms", &refusal).await.is_err()
    {
        // Locks do without the upgrade.
        let undone = client.batch_execute("ROLLBACK").await;
        undone.map_err(|error| connecting(&error))?;
    }
    Ok(())
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

struct Found {
    version: Option<u32>,
    /// The role may make functions in the schema.
    may_create: bool,
}

async fn find(client: &Client, schema: &Schema) -> Result<Found, EngineError> {
    let query = include_str!("../sql/version.sql");
    let name = (&schema.quoted() as _, Type::TEXT);
    let row = client.query_typed_one(query, &[name]).await;
    let read = row.and_then(|row| {
        Ok((
            version(row.try_get("of_schema")?),
            version(row.try_get("of_table")?),
            row.try_get("is_used")?,
            row.try_get("may_create")?,
        ))
    });
    let (first, last, is_used, may_create) = read.map_err(|error| connecting(&error))?;
    if first.is_none() && is_used {
        return Err(rejected(format!(
            "the schema `{}` has tables of something else; name another schema: `?schema=`",
            schema.name()
        )));
    }
    Ok(Found {
        version: first.max(first.and(last)),
        may_create,
    })
}

/// Returns the version in a comment.
fn version(comment: Option<String>) -> Option<u32> {
    let comment = comment?;
    comment
        .strip_prefix("distributed locks, version ")?
        .parse()
        .ok()
}

/// In one transaction: two clients that define a function at once would fail. A client that has gone is noticed only when
/// its statement ends. `patience`: how long it waits for others.
async fn make(
    client: &Client,
    schema: &Schema,
    patience: &str,
    refusal: &Refusal,
) -> Result<(), EngineError> {
    let begin = schema.sql(&format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '{patience}'; \
         SELECT pg_advisory_xact_lock(hashtextextended('distributed_lock schema', 0))"
    ));
    let begun = client.batch_execute(&begin).await;
    begun.map_err(|error| refusal.caused_by(&error))?;
    // Another client may have made it meanwhile, in another version, or as another role.
    let definition = match find(client, schema).await?.version < Some(VERSION) {
        true => schema.definition(),
        false => String::new(),
    };
    let made = client.batch_execute(&(definition + "COMMIT")).await;
    made.map_err(|error| refusal.caused_by(&error))
}

/// The error of a schema that can't be made or upgraded, without its cause.
struct Refusal {
    failure: String,
    remedy: String,
}

impl Refusal {
    /// `found`: the version that is there.
    fn new(schema: &Schema, found: Option<u32>) -> Refusal {
        let name = schema.name();
        let failure = match found {
            None => format!("the schema `{name}` of locks can't be made"),
            Some(found) => format!(
                "the schema `{name}` of locks has version {found}, and can't be upgraded to {VERSION}, which this \
                 client needs"
            ),
        };
        let role = match found {
            None => "a role that may",
            Some(_) => "the owner of the schema; clients of earlier versions go on",
        };
        let remedy = format!(
            "run the statements that `lock_runtime::postgres::schema(\"{name}\")` returns as {role}"
        );
        Refusal { failure, remedy }
    }

    fn since_it_is_off(&self) -> EngineError {
        let Refusal { failure, remedy } = self;
        rejected(format!("{failure}, since `create_schema` is off; {remedy}"))
    }

    fn caused_by(&self, error: &Error) -> EngineError {
        let Refusal { failure, remedy } = self;
        let error = connecting(error);
        EngineError::new(error.kind, format!("{failure}: {error}; {remedy}"))
    }
}

/// Returns the rights that the role lacks of those that locks need; or of those with which processes tell of themselves,
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
