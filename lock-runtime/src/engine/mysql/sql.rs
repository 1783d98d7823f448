//! The statements, which MySQL and MariaDB understand alike.

/// The table of all locks of a database.
pub(crate) const CREATE: &str = "CREATE TABLE IF NOT EXISTS distributed_locks (\
     name VARBINARY(1000) NOT NULL PRIMARY KEY, record MEDIUMBLOB NOT NULL) \
     ENGINE = InnoDB ROW_FORMAT = DYNAMIC";

/// The table of the holders on which transactions may rely.
pub(crate) const CREATE_PROOFS: &str = "CREATE TABLE IF NOT EXISTS distributed_lock_proofs (\
     name VARBINARY(1000) NOT NULL, number BIGINT UNSIGNED NOT NULL, PRIMARY KEY (name, number)) \
     ENGINE = InnoDB ROW_FORMAT = DYNAMIC";

/// Fails if the table is not there.
pub(crate) const LOOK: &str = "SELECT name, record FROM distributed_locks LIMIT 0";

/// What each session begins with. A server may have other values for all of them: some would change what
/// the statements do, and others let one that is abandoned keep a row for minutes. On MariaDB none waits for
/// a row.
pub(crate) const BEGIN: [&str; 3] = [
    "SET NAMES binary",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, completion_type = 0, \
     innodb_lock_wait_timeout = 1 /*M!100300 - 1 */, lock_wait_timeout = 1, timestamp = DEFAULT \
     /*M!100101 , max_statement_time = 0 */ /*M!110402 , innodb_snapshot_isolation = 0 */ \
     /*!80000 , max_execution_time = 0 */",
];

/// Which server it is, and whether it accepts writes.
pub(crate) const SERVER: &str = "SELECT CONNECTION_ID(), @@global.read_only, @@global.innodb_read_only, \
     CONCAT(VERSION(), ' ', @@version_comment), CONCAT(@@hostname, ':', @@port), @@innodb_rollback_on_timeout";

/// Whether others accept writes, too; each is an error where there is no such variable. The first is that of
/// the session, since some servers have no other. A list of the variables would cost MySQL more than all else
/// that a session begins with.
pub(crate) const OTHERS: [&str; 2] = [
    "SELECT @@wsrep_on",
    "SELECT NOT @@global.group_replication_single_primary_mode",
];

/// The row with a name and a stamp, unless another client has it locked; MariaDB fails then.
macro_rules! where_free {
    () => {
        "WHERE /*!80000 name = (SELECT name FROM (SELECT name FROM distributed_locks WHERE */ \
         name = ? AND LEFT(record, 16) = ? /*!80000 LIMIT 1 FOR UPDATE SKIP LOCKED) free) */"
    };
}

/// Statements that are prepared. The stamp of a record is at its front. Whoever finds a row locked has lost
/// it to another client, and writes nothing: if the statements of a thousand clients wait for one row, the
/// server has no time for anything else.
#[derive(Clone, Copy)]
pub(crate) enum Prepared {
    Load,
    Insert,
    Update,
    Delete,
    Names,
}

impl Prepared {
    /// In the order of their declaration.
    pub(crate) const ALL: [Prepared; 5] = [
        Prepared::Load,
        Prepared::Insert,
        Prepared::Update,
        Prepared::Delete,
        Prepared::Names,
    ];

    pub(crate) fn text(self) -> &'static str {
        match self {
            // One row in any case, since it has the time.
            Prepared::Load => {
                "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), record \
                 FROM (SELECT 1) one LEFT JOIN distributed_locks ON name = ?"
            }
            Prepared::Insert => {
                // MySQL would wait for a row that is there, so it looks first: the third value is the name
                // once more. MariaDB does not wait, and inserts a third more rows per second without a look.
                "INSERT INTO distributed_locks (name, record) /*M! VALUES (?, COALESCE(?, ?)) */ \
                 /*!80000 SELECT ?, ? FROM DUAL \
                 WHERE NOT EXISTS (SELECT 1 FROM distributed_locks WHERE name = ?) */"
            }
            Prepared::Update => concat!("UPDATE distributed_locks SET record = ? ", where_free!()),
            Prepared::Delete => concat!("DELETE FROM distributed_locks ", where_free!()),
            Prepared::Names => {
                "SELECT name FROM distributed_locks WHERE name >= ? AND name < ? ORDER BY name LIMIT ?"
            }
        }
    }
}
