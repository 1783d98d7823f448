//! Finds settings of the server that endanger locks.

use crate::engine::inspection::Inspection;
use crate::engine::postgres::address::Target;
use crate::engine::postgres::conn::connect::Connection;
use crate::engine::postgres::conn::trial::try_waiting;
use crate::engine::postgres::wire::error::{connecting, is_read_only};
use crate::engine::postgres::wire::values::unexpected;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, timeout_at};
use crate::warning::{Warning, WarningKind};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Error, Row};

/// Locks turn `synchronous_commit` on for themselves, and so does this before it counts standbys.
const QUERY: &str = "
    WITH before AS MATERIALIZED (SELECT current_setting('synchronous_commit') AS synchronous_commit),
        locks AS MATERIALIZED (SELECT set_config('synchronous_commit',
            CASE synchronous_commit WHEN 'off' THEN 'on' ELSE synchronous_commit END, true) FROM before)
    SELECT current_setting('fsync') AS fsync,
        current_setting('full_page_writes') AS full_page_writes,
        synchronous_commit,
        current_setting('autovacuum') AS autovacuum,
        (SELECT count(*) FROM pg_stat_replication) AS standbys,
        coalesce((SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::bigint FROM pg_stat_activity
            WHERE coalesce(backend_xmin, backend_xid) IS NOT NULL AND datname = current_database()
            AND backend_type <> 'autovacuum worker'), 0) AS oldest,
        distributed_lock.replicas_1() AS replicas
    FROM before, locks";

/// How many seconds a transaction may be open before it matters.
const LONG: i64 = 3600;

/// Inspects the server within the timeout, on the I/O thread.
pub(crate) async fn inspect(
    io: IoThread,
    target: Arc<Target>,
    timeout: Duration,
    replicas: u32,
) -> Inspection {
    let server = target.to_string();
    let inspection = io.spawn(inspect_on(io, target, timeout, replicas));
    inspection.await.unwrap_or_else(|_| {
        let mut failed = Inspection::default();
        let error = unexpected("what the check can't read");
        failed.add_unreachable(&server.into(), &error);
        failed
    })
}

async fn inspect_on(
    io: IoThread,
    target: Arc<Target>,
    timeout: Duration,
    replicas: u32,
) -> Inspection {
    let mut found = Inspection::default();
    let server: Arc<str> = target.to_string().into();
    let deadline = deadline_in(timeout);
    let connection = Connection::open(io, &target.server, &target, timeout, Box::new(drop)).await;
    let mut add = |kind, finding: String| found.warnings.push(Warning::new(&server, kind, finding));
    let connection = match connection {
        Ok(connection) => connection,
        Err(error) => {
            match is_read_only(&error) {
                true => add(WarningKind::ConnectedToReplica, error.to_string()),
                false => found.add_unreachable(&server, &error),
            }
            return found;
        }
    };
    let query = target.schema.sql(QUERY);
    let row = connection.client.query_typed_one(&query, &[]);
    let not_read = |why: String| format!("its settings can't be read ({why})");
    let late = || format!("it did not answer within {timeout:?}");
    match timeout_at(deadline, row).await {
        Ok(row) => match row.and_then(|row| warnings(&row, replicas)) {
            Ok(warnings) => warnings
                .into_iter()
                .for_each(|(kind, finding)| add(kind, finding)),
            Err(error) => add(
                WarningKind::NotChecked,
                not_read(connecting(&error).to_string()),
            ),
        },
        Err(_) => {
            add(WarningKind::NotChecked, not_read(late()));
            return found;
        }
    }
    let tried = try_waiting(&connection.client, &target.schema);
    match timeout_at(deadline, tried).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => add(WarningKind::NoQueue, error.to_string()),
        Err(_) => add(
            WarningKind::NotChecked,
            format!("it is unknown whether callers can wait ({})", late()),
        ),
    }
    if !connection.backend.is_own {
        add(
            WarningKind::Pooler,
            "it is reached through a connection pooler".to_owned(),
        );
    }
    found
}

fn warnings(row: &Row, replicas: u32) -> Result<Vec<(WarningKind, String)>, Error> {
    let mut warnings = Vec::new();
    for setting in ["fsync", "full_page_writes"] {
        if row.try_get::<_, &str>(setting)? == "off" {
            warnings.push((WarningKind::NotFlushed, format!("`{setting}` is off")));
        }
    }
    let commit: &str = row.try_get("synchronous_commit")?;
    if commit == "off" {
        warnings.push((
            WarningKind::NotFlushed,
            "`synchronous_commit` is off for this role; locks turn it on for themselves, and what \
             they protect may be lost"
                .to_owned(),
        ));
    }
    let standbys: i64 = row.try_get("standbys")?;
    let acknowledge: i32 = row.try_get("replicas")?;
    if standbys > 0 && acknowledge == 0 {
        warnings.push((
            WarningKind::AsynchronousStandby,
            match commit {
                "local" => {
                    "`synchronous_commit` is `local` for this role, which waits for no standby"
                        .to_owned()
                }
                _ => format!("none of its {standbys} standbys is synchronous"),
            },
        ));
    }
    if i64::from(replicas) > i64::from(acknowledge) {
        warnings.push((
            WarningKind::AsynchronousStandby,
            format!("`synchronous_standby_names` asks for {acknowledge} standbys, and `replicas` for {replicas}"),
        ));
    }
    if row.try_get::<_, &str>("autovacuum")? == "off" {
        warnings.push((WarningKind::DeadRows, "`autovacuum` is off".to_owned()));
    }
    let oldest: i64 = row.try_get("oldest")?;
    if oldest > LONG {
        warnings.push((
            WarningKind::DeadRows,
            format!("a transaction is open since {} minutes", oldest / 60),
        ));
    }
    Ok(warnings)
}
