//! Opens the database in a file.

use crate::engine::sqlite::clock::{Boot, began};
use crate::engine::sqlite::error::is_busy;
use crate::engine::sqlite::file::{File, Files};
use crate::engine::sqlite::file_system::network_of;
use crate::own_store::StoreError;
use crate::util::clock::boot_time;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Result};
use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// What a file of this library says in the places of its header: `lock`, and the version of the tables.
const APPLICATION: i32 = 0x6c6f_636b;
const VERSION: i32 = 1;

const TABLES: &str = "
    CREATE TABLE lock (name TEXT NOT NULL PRIMARY KEY, record BLOB NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE boot (id TEXT NOT NULL PRIMARY KEY, began INTEGER NOT NULL) STRICT, WITHOUT ROWID;";

/// The pauses while another process writes, which takes some 50 µs: SQLite's own become as long as 100 ms.
const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(2);
const SOON: Duration = Duration::from_millis(20);
const REMEMBERED: Duration = Duration::from_secs(1);

/// A file that is open.
pub(crate) struct Database<'a> {
    pub(crate) file: &'a File,
    pub(crate) connection: Connection,
    files: Files,
    /// The time of day at which this boot began, in microseconds.
    began: Option<u64>,
}

impl<'a> Database<'a> {
    /// `began`: what an earlier file has said of this boot. A new one goes on with it.
    pub(crate) fn open(
        file: &'a File,
        began: &mut Option<u64>,
    ) -> std::result::Result<Database<'a>, StoreError> {
        let path = &file.path;
        if let Some(network) = network_of(path) {
            return Err(StoreError::denied(format!(
                "`{}` is on a file system that machines may share ({network}); name a file on a local disk",
                path.display()
            )));
        }
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, file.create);
        let refused = |error| file.refused(&error);
        let mut connection = Connection::open_with_flags(path, flags).map_err(refused)?;
        // It does not wait for two processes that want the same.
        connection.busy_timeout(Duration::ZERO).map_err(refused)?;
        Patience::begin(file.patience);
        let mut tries = 0;
        let prepared = loop {
            match prepare(&connection) {
                Err(error) if is_busy(&error) && pause(tries) => tries += 1,
                prepared => break prepared.map_err(refused)?,
            }
        };
        connection.busy_handler(Some(pause)).map_err(refused)?;
        if let Err(problem) = prepared {
            return Err(StoreError::denied(format!(
                "`{}` {problem}",
                path.display()
            )));
        }
        // A reader who may not write goes by what it observes.
        let found = Boot::present().and_then(|boot| began_at(&connection, &boot, *began).ok());
        *began = found.or(*began);
        Ok(Database {
            file,
            connection,
            files: Files::of(path),
            began: found,
        })
    }

    /// Returns the time of day by the clock of the machine, which goes on if the wall clock is set.
    pub(crate) fn time(&self) -> Option<Duration> {
        self.began
            .map(|began| Duration::from_micros(began) + boot_time())
    }

    /// Returns `true` if this is not the file at its path any more: others would acquire locks in that one.
    pub(crate) fn is_replaced(&self) -> bool {
        self.files.are_replaced()
    }
}

/// How long a request waits for another process. SQLite calls a function without surroundings.
struct Patience {
    longest: Duration,
    begun: Instant,
    limit: Duration,
    gave_up: Option<Instant>,
}

thread_local! {
    /// Each file has a thread of its own.
    static PATIENCE: Cell<Option<Patience>> = const { Cell::new(None) };
}

impl Patience {
    fn begin(longest: Duration) {
        PATIENCE.set(Some(Patience {
            longest,
            begun: Instant::now(),
            limit: longest,
            gave_up: None,
        }));
    }

    /// Pauses once more. Returns `false` when the pauses have lasted for that time. It then gives up sooner
    /// for a while, so that callers learn the reason before they leave.
    fn pause(&mut self, pauses: i32) -> bool {
        if pauses == 0 {
            let is_known = self.gave_up.is_some_and(|at| at.elapsed() < REMEMBERED);
            self.begun = Instant::now();
            self.limit = if is_known { SOON } else { self.longest };
        }
        thread::sleep((SHORTEST * (1 << pauses.clamp(0, 5))).min(LONGEST));
        let goes_on = self.begun.elapsed() < self.limit;
        if !goes_on {
            self.gave_up = Some(Instant::now());
        }
        goes_on
    }
}

fn pause(pauses: i32) -> bool {
    let mut patience = PATIENCE.take();
    let goes_on = patience.as_mut().is_some_and(|it| it.pause(pauses));
    PATIENCE.set(patience);
    goes_on
}

/// Makes the tables in a new file. Returns what is wrong with one of another program, which is left as it is.
fn prepare(connection: &Connection) -> Result<std::result::Result<(), &'static str>> {
    // One statement sees one state: another process may make the tables right now.
    let header = || {
        let header = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
            FROM pragma_application_id, pragma_user_version";
        connection.query_row(header, (), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
    };
    match header()? {
        (APPLICATION, VERSION, _) | (0, 0, 0) => {}
        (APPLICATION, _, _) => {
            return Ok(Err(
                "was made by a later version of lock-runtime; update this service",
            ));
        }
        _ => {
            return Ok(Err(
                "is the database of another program; name a file for locks alone",
            ));
        }
    }
    // Without it, readers and the writer would wait for each other, and each commit for the disk.
    let mode = "PRAGMA journal_mode = WAL";
    let mode = connection.query_row(mode, (), |row| row.get::<_, String>(0))?;
    if mode != "wal" {
        return Ok(Err(
            "is on a file system on which processes share no memory; name a file on a local disk",
        ));
    }
    // The log is flushed only when it is copied to the file. A process that is killed loses nothing, and a
    // power loss ends the holders whose locks it makes forgotten. Fencing tokens go on by the clock.
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    let is_new = || Result::Ok(header()?.0 == 0);
    if !is_new()? {
        return Ok(Ok(()));
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    // Another process may have been first.
    let made = is_new().and_then(|is_new| match is_new {
        true => connection.execute_batch(&format!(
            "{TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT"
        )),
        false => connection.execute_batch("COMMIT"),
    });
    if made.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    made.map(Ok)
}

/// Returns when the present boot began, in microseconds since 1970: as the wall clock showed it to the first
/// process of this boot, but not before an earlier boot.
fn began_at(connection: &Connection, boot: &Boot, known: Option<u64>) -> Result<u64> {
    let select = || {
        let began = "SELECT began FROM boot WHERE id = ?1";
        let began = connection.query_row(began, [&boot.id], |row| row.get::<_, i64>(0));
        began.optional()
    };
    if let Some(began) = select()? {
        return Ok(began.max(0) as u64);
    }
    let insert = "INSERT INTO boot SELECT ?1, max(?2, coalesce(max(began), 0)) FROM boot WHERE true
        ON CONFLICT DO NOTHING";
    let by_wall_clock = || began(boot_time()).as_micros() as u64;
    let began = known.unwrap_or_else(by_wall_clock) as i64;
    connection.execute(insert, (&boot.id, began))?;
    connection.execute("DELETE FROM boot WHERE id <> ?1", [&boot.id])?;
    Ok(select()?.unwrap_or_default().max(0) as u64)
}
