use super::Space;
use crate::config::Config;
use crate::engine::error::EngineErrorKind;
use crate::engine::tests::peer::{Peer, reading, soon};
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::warning::WarningKind;
use lock_test_support::servers::Pooled;
use lock_test_support::time::millis;
use std::sync::Arc;

/// What the guide gives to a service, except for the rights of operators.
const LOCKS_ALONE: &str = "
    CREATE ROLE clerk_of_distributed_lock LOGIN;
    GRANT USAGE ON SCHEMA distributed_lock TO clerk_of_distributed_lock;
    GRANT SELECT, INSERT, UPDATE, DELETE ON distributed_lock.held, distributed_lock.waiting
        TO clerk_of_distributed_lock;
    GRANT SELECT ON distributed_lock.taken TO clerk_of_distributed_lock;
    GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA distributed_lock TO clerk_of_distributed_lock";

impl Space {
    /// Makes a role that may use locks alone, and returns its configuration.
    fn make_clerk(&self) -> Config {
        self.execute(LOCKS_ALONE);
        let clerk = self.sql("clerk_of_distributed_lock");
        self.config_at(&self.servers::<Pooled>().server.url_for(&clerk))
    }
}

pub(super) async fn role_without_the_rights_of_operators_has_locks(space: Space) {
    let owner = space.peer().await;
    let mut clerk = Peer::connect(space.make_clerk()).await;
    let held = clerk.hold("row").await;
    let reported = clerk.engine.report(clerk.id, "report".into(), soon()).await;
    let found = clerk.engine.reports(None, reading()).await;
    let taken = clerk.engine.take(&held.name, "x", 0, soon()).await;
    for (error, table) in [
        (reported.unwrap_err(), "process"),
        (found.unwrap_err(), "process"),
        (taken.unwrap_err(), "taken"),
    ] {
        assert_eq!(error.kind, EngineErrorKind::Rejected);
        let words = format!("permission denied for table {table}");
        assert!(error.to_string().contains(&words), "{error}");
    }
    let waits = clerk.wait("row").await;
    assert!(clerk.release(&held).await);
    let granted = clerk.until_granted(&waits).await;
    assert!(clerk.release(&granted).await);

    let inspection = clerk.engine.inspect(millis(3000), 0).await;
    let kinds: Vec<_> = inspection.warnings.iter().map(|it| it.kind()).collect();
    assert_eq!(kinds, [WarningKind::Permission]);
    let finding = inspection.warnings[0].finding();
    for missing in ["INSERT ON TABLE", "process", "taken"] {
        assert!(finding.contains(missing), "{finding}");
    }
    let inspection = owner.engine.inspect(millis(3000), 0).await;
    assert!(inspection.warnings.is_empty());
}

pub(super) async fn right_that_locks_need_is_named(space: Space) {
    let _owner = space.peer().await;
    let config = space.make_clerk();
    space.execute("REVOKE SELECT ON distributed_lock.taken FROM clerk_of_distributed_lock");
    let (io, id) = (IoThread::start().unwrap(), ProcessId::random());
    let opened = config.open(io, Clock::System, id, Arc::new(drop)).await;
    let words = format!("{:?}", opened.err().unwrap());
    assert!(
        words.contains("that locks need; grant it SELECT ON TABLE"),
        "{words}"
    );
    assert!(words.contains("taken"), "{words}");
}
