//! Finds settings of the server that endanger locks.

use crate::engine::inspection::Inspection;
use crate::engine::postgres::address::Address;
use crate::engine::postgres::conn::connect::Connection;
use crate::engine::postgres::conn::schema_setup::missing_rights;
use crate::engine::postgres::conn::trial::try_waiting;
use crate::engine::postgres::sql::schema::Schema;
use crate::engine::postgres::wire::error::{connecting, is_read_only};
use crate::engine::postgres::wire::values::unexpected;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, timeout_at};
use crate::warning::{Warning, WarningKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::{Error, Row};

/// Locks turn `synchronous_commit` on for themselves, and so does this before it counts standbys.
const SETTINGS: &str = include_str!("sql/settings.sql");

/// How many seconds a transaction may be open before it matters.
const LONG: i64 = 3600;

type Finding = (WarningKind, String);

/// Inspects the server within the timeout, on the I/O thread.
pub(crate) async fn inspect(
    io: IoThread,
    address: Arc<Address>,
    timeout: Duration,
    replicas: u32,
) -> Inspection {
    let server: Arc<str> = address.to_string().into();
    let inspection = io.spawn(inspect_here(io, address, timeout, replicas));
    inspection.await.unwrap_or_else(|_| {
        let mut failed = Inspection::default();
        let error = unexpected("settings that the check can't read");
        failed.add_unreachable(&server, &error);
        failed
    })
}

async fn inspect_here(
    io: IoThread,
    address: Arc<Address>,
    timeout: Duration,
    replicas: u32,
) -> Inspection {
    let mut inspection = Inspection::default();
    let server: Arc<str> = address.to_string().into();
    let deadline = deadline_in(timeout);
    let open = async {
        let login = address.credentials.get(io, deadline).await?;
        let (servers, address) = (&address.servers, (&*address, login));
        Connection::open(io, servers, address, deadline, Box::new(drop)).await
    };
    let findings = match open.await {
        Ok(connection) => {
            let check = Check {
                connection: &connection,
                schema: &address.schema,
                deadline,
                timeout,
            };
            check.findings(replicas).await
        }
        Err(error) if is_read_only(&error) => {
            vec![(WarningKind::ConnectedToReplica, error.to_string())]
        }
        Err(error) => {
            inspection.add_unreachable(&server, &error);
            return inspection;
        }
    };
    let warnings = findings
        .into_iter()
        .map(|(kind, finding)| Warning::new(&server, kind, finding));
    inspection.warnings.extend(warnings);
    inspection
}

struct Check<'a> {
    connection: &'a Connection,
    schema: &'a Schema,
    deadline: Instant,
    timeout: Duration,
}

impl Check<'_> {
    async fn findings(&self, replicas: u32) -> Vec<Finding> {
        let settings = self.settings(replicas).await;
        let mut findings = match settings {
            Ok(findings) => findings,
            Err(late) => return vec![late],
        };
        findings.extend(self.missing_rights().await);
        findings.extend(self.trial().await);
        if !self.connection.backend.is_own {
            let finding = "it is reached through a connection pooler".to_owned();
            findings.push((WarningKind::Pooler, finding));
        }
        findings
    }

    /// Returns the findings about the settings, or that the server replied too late.
    async fn settings(&self, replicas: u32) -> Result<Vec<Finding>, Finding> {
        let unread = |why: &str| {
            let finding = format!("its settings can't be read ({why})");
            (WarningKind::NotChecked, finding)
        };
        let query = self.schema.sql(SETTINGS);
        let row = self.connection.client.query_typed_one(&query, &[]);
        match timeout_at(self.deadline, row).await {
            Ok(row) => Ok(row
                .and_then(|row| of_settings(&row, replicas))
                .unwrap_or_else(|error| vec![unread(&connecting(&error).to_string())])),
            Err(_) => Err(unread(&self.late())),
        }
    }

    /// Returns the finding that processes can't report, or operators take no lock.
    async fn missing_rights(&self) -> Option<Finding> {
        let missing = missing_rights(&self.connection.client, self.schema, true);
        let missing = timeout_at(self.deadline, missing).await.ok()?.ok()??;
        let finding = format!("the role may store no report, or take no lock; grant it {missing}");
        Some((WarningKind::Permission, finding))
    }

    /// Returns the finding that no caller can wait.
    async fn trial(&self) -> Option<Finding> {
        let tried = try_waiting(&self.connection.client, self.schema);
        match timeout_at(self.deadline, tried).await {
            Ok(tried) => {
                let error = tried.err()?;
                Some((WarningKind::NoQueue, error.to_string()))
            }
            Err(_) => {
                let late = self.late();
                let finding = format!("it is unknown whether callers can wait ({late})");
                Some((WarningKind::NotChecked, finding))
            }
        }
    }

    fn late(&self) -> String {
        format!("it did not reply within {:?}", self.timeout)
    }
}

fn of_settings(row: &Row, replicas: u32) -> Result<Vec<Finding>, Error> {
    let mut findings = not_flushed(row)?;
    findings.extend(asynchronous_standbys(row, replicas)?);
    findings.extend(dead_rows(row)?);
    Ok(findings)
}

fn not_flushed(row: &Row) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    for setting in ["fsync", "full_page_writes"] {
        if row.try_get::<_, &str>(setting)? == "off" {
            findings.push((WarningKind::NotFlushed, format!("`{setting}` is off")));
        }
    }
    if row.try_get::<_, &str>("synchronous_commit")? == "off" {
        let finding = "`synchronous_commit` is off for this role; locks turn it on for themselves, and the \
                       writes that they protect may be lost";
        findings.push((WarningKind::NotFlushed, finding.to_owned()));
    }
    Ok(findings)
}

fn asynchronous_standbys(row: &Row, replicas: u32) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let standbys: i64 = row.try_get("standbys")?;
    let acknowledge: i32 = row.try_get("replicas")?;
    if standbys > 0 && acknowledge == 0 {
        let finding = match row.try_get("synchronous_commit")? {
            "local" => "`synchronous_commit` is `local` for this role, which waits for no standby"
                .to_owned(),
            _ => format!("none of its {standbys} standbys is synchronous"),
        };
        findings.push((WarningKind::AsynchronousStandby, finding));
    }
    if i64::from(replicas) > i64::from(acknowledge) {
        let finding = format!(
            "`synchronous_standby_names` asks for {acknowledge} standbys, and `replicas` for {replicas}"
        );
        findings.push((WarningKind::AsynchronousStandby, finding));
    }
    Ok(findings)
}

fn dead_rows(row: &Row) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    if row.try_get::<_, &str>("autovacuum")? == "off" {
        findings.push((WarningKind::DeadRows, "`autovacuum` is off".to_owned()));
    }
    let oldest: i64 = row.try_get("oldest")?;
    if oldest > LONG {
        let finding = format!("a transaction is open since {} minutes", oldest / 60);
        findings.push((WarningKind::DeadRows, finding));
    }
    Ok(findings)
}
