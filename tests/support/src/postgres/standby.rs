//! Standbys, which receive what a server commits.

use super::Postgres;
use super::files::{ProgramUser, own};
use crate::time::eventually;

impl Postgres {
    /// Starts a standby of this server, which receives everything that is committed here.
    ///
    /// It is synchronous once [`wait_for_standby`](Self::wait_for_standby) was called.
    pub fn standby(&self) -> Self {
        self.standby_through(self.server_port())
    }

    /// Starts a standby that reaches this server at another port, for example that of a proxy.
    pub fn standby_through(&self, port: u16) -> Self {
        let mut standby = Self::prepare(&[]);
        standby.settings = self.settings.clone();
        let source = format!("host=127.0.0.1 port={port} user=postgres application_name=standby");
        standby.set("primary_conninfo", &source);
        standby.checked = false;
        let mut copy = ProgramUser::command("pg_basebackup");
        copy.arg("-D").arg(standby.data()).arg("-d").arg(format!(
            "host={} port={} user=postgres",
            self.directory.path().display(),
            self.server_port()
        ));
        copy.args(["--checkpoint=fast", "--no-sync", "--wal-method=stream"]);
        let copied = copy.output().unwrap();
        assert!(copied.status.success(), "pg_basebackup: {copied:?}");
        let marker = standby.data().join("standby.signal");
        std::fs::write(&marker, "").unwrap();
        own(&marker);
        standby.restart();
        standby
    }

    /// Lets commits wait until a standby has flushed them, and waits until there is one that is in time.
    pub fn wait_for_standby(&mut self) {
        self.alter("synchronous_standby_names", "*");
        eventually("the standby is synchronous", || {
            let sync =
                "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')";
            self.query::<usize>(sync) > 0
        });
    }

    /// Turns a standby into a server that accepts writes.
    pub fn promote(&mut self) {
        // Without waiting: a busy machine may need longer than a statement may take here.
        assert!(self.query::<String>("SELECT pg_promote(false)") == "t");
        eventually("the standby is promoted", || {
            let recovers = self.try_execute("SELECT pg_is_in_recovery()");
            recovers.is_ok_and(|rows| rows == [["f"]])
        });
        self.checked = true;
    }

    /// Waits until a standby has replayed all that was committed here.
    pub fn until_replayed_by(&self, standby: &Postgres) {
        // Releases are committed asynchronously: this commit is flushed, and they with it.
        self.query::<String>("SELECT pg_logical_emit_message(true, '', '')");
        let end: String = self.query("SELECT pg_current_wal_lsn()");
        let reached = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
        eventually("the standby has replayed all", || {
            standby.query::<String>(&reached) == "t"
        });
    }
}
