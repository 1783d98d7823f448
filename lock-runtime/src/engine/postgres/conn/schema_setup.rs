//! Checks that the schema is there and that the role may use it, and makes or upgrades it if it may.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::sql::schema::{Schema, VERSION};
use crate::engine::postgres::wire::error::connecting;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

/// Fails unless the schema is there, in the version that this client needs or a later one, and the role may use it. With
/// `create`, makes it if it is not, or upgrades an earlier one.
pub(crate) async fn set_up(
    client: &Client,
    schema: &Schema,
    create: bool,
) -> Result<(), EngineError> {
    let found = find(client, schema).await?;
    if found < Some(VERSION) {
        let refusal = Refusal::new(schema, found);
        if !create {
            return Err(refusal.since_it_is_off());
        }
        make(client, schema, &refusal).await?;
    }
    check_rights(client, schema).await
}

/// Returns the version that is there.
async fn find(client: &Client, schema: &Schema) -> Result<Option<u32>, EngineError> {
    let query = include_str!("../sql/version.sql");
    let name = (&schema.quoted() as _, Type::TEXT);
    let row = client.query_typed_one(query, &[name]).await;
    let (of_schema, of_table, is_used): (Option<String>, Option<String>, bool) = row
        .and_then(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
        .map_err(|error| connecting(&error))?;
    let first = version(of_schema);
    if first.is_none() && is_used {
        return Err(rejected(format!(
            "the schema `{}` has tables of something else; name another schema: `?schema=`",
            schema.name()
        )));
    }
    Ok(first.map(|first| version(of_table).map_or(first, |last| last.max(first))))
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
/// its statement ends.
async fn make(client: &Client, schema: &Schema, refusal: &Refusal) -> Result<(), EngineError> {
    let begin = schema.sql(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '2s'; \
         SELECT pg_advisory_xact_lock(hashtextextended('distributed_lock schema', 0))",
    );
    let begun = client.batch_execute(&begin).await;
    begun.map_err(|error| refusal.caused_by(&error))?;
    // Another client may have made it meanwhile, in another version, or as another role.
    let definition = match find(client, schema).await? < Some(VERSION) {
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

async fn check_rights(client: &Client, schema: &Schema) -> Result<(), EngineError> {
    let query = include_str!("../sql/missing_rights.sql");
    let name = (&schema.quoted() as _, Type::TEXT);
    let row = client.query_typed_one(query, &[name]).await;
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

fn rejected(reason: String) -> EngineError {
    EngineError::new(EngineErrorKind::Rejected, reason)
}
