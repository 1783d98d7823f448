//! The lock manager: connects to the server and creates locks.

use crate::api::list::List;
use crate::api::lock::{Keys, Lock};
use crate::api::revoke::Revoke;
use crate::config::Config;
use crate::error::LockError;
use crate::lock::inner::{InnerSlot, Manager};
use crate::lock::inspect::{inspect, inspect_with_rivals};
use crate::lock::list;
use crate::lock::opening::{Late, open};
use crate::lock::ping::ping;
use crate::lock::processes::processes;
use crate::lock::shutdown::shut_down;
use crate::lock_info::LockInfo;
use crate::process::ProcessId;
use crate::process_info::ProcessInfo;
use crate::stats::Stats;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::util::thread_end;
use crate::warning::Warning;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// For how long [`LockManager::shutdown`] lets bodies finish.
const GRACE: Duration = Duration::from_secs(5);

/// A connection to one lock server, which creates its locks. Clones are cheap and share one manager.
///
/// Most services configure the global manager with [`init`](crate::init) and never use this type. Connect a
/// manager for a second server, or to pass it as a value instead of using a global one.
///
/// ```
/// use lock_runtime::{LockError, LockManager};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let locks = LockManager::connect("memory://").await?;
/// let guard = locks.lock("order:42").acquire().await?;
/// assert!(locks.lock("order:42").try_acquire().await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// Dropping the last clone and the last guard closes the connection.
#[derive(Clone)]
pub struct LockManager {
    pub(crate) inner: Arc<Manager>,
}

impl LockManager {
    /// Connects to the lock server of a URL or a [`Config`]. Cancel safe: dropping the future abandons the
    /// attempt.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidConfig`] if the configuration is invalid, or the server rejects the credentials;
    /// [`LockError::InvalidOption`] if the default ttl is out of range; [`LockError::Unavailable`] if there
    /// is no connection within the connect timeout, except with [`Config::start_disconnected`];
    /// [`LockError::UnsafeServer`] if the server check returns warnings and [`Config::refuse_unsafe_servers`]
    /// is set.
    pub async fn connect(config: impl Into<Config>) -> Result<LockManager, LockError> {
        let config = config.into();
        config.validate()?;
        thread_end::watch();
        let io = IoThread::start().map_err(|error| LockError::Unavailable {
            key: None,
            server: "the I/O thread".into(),
            source: Arc::new(error),
        })?;
        let (slot, process) = (InnerSlot::default(), ProcessId::random());
        let start = |opened| Manager::start(io, Clock::System, process, opened, &config);
        let inner = match open(&config, io, Clock::System, process, &slot).await {
            Ok(opened) => {
                let inner = start(opened);
                slot.fill(&inner);
                inner
            }
            Err(error) => {
                let late = Late::after(error, &config, io)?;
                let inner = start((late.engine.clone(), late.server.clone()));
                late.open_later(&inner, config);
                inner
            }
        };
        Ok(LockManager { inner })
    }

    /// Returns the identity of this manager, which a call of another process finds in the error when it finds
    /// a lock held: see [`Holder::Process`](crate::Holder). It is also written in the tokens on the server.
    ///
    /// ```
    /// # use lock_runtime::LockManager;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// let locks = LockManager::connect("memory://").await?;
    /// println!("locks as process {}", locks.process_id()); // such as 7be01c5
    /// # Ok(())
    /// # }
    /// ```
    pub fn process_id(&self) -> ProcessId {
        self.inner.context.process
    }

    /// Returns the address of the server, or the addresses of several, without credentials: for people.
    ///
    /// ```
    /// # use lock_runtime::LockManager;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// let locks = LockManager::connect("memory://").await?;
    /// assert!(locks.server().contains("memory"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn server(&self) -> &str {
        self.inner.context.server()
    }

    /// Returns the least time between two [reports](crate::Config::report) of a process: 1 s, and 10 s on
    /// etcd and ZooKeeper, which keep what is overwritten. Who [asks](Self::ask_for_reports) more often
    /// learns nothing new.
    ///
    /// ```
    /// # use lock_runtime::LockManager;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// let locks = LockManager::connect("memory://").await?;
    /// assert_eq!(locks.report_interval(), std::time::Duration::from_secs(1));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn report_interval(&self) -> Duration {
        self.inner.context.engine.report_pace().least
    }

    /// Creates a [`Lock`] with this key. Sends nothing.
    pub fn lock(&self, key: impl Into<String>) -> Lock {
        Lock::new(Some(self.inner.clone()), None, Keys::One(key.into()))
    }

    /// Creates a [`Lock`] that is held when all of these keys are. Sends nothing.
    ///
    /// Every call acquires its keys in the same order, whatever the order here, so calls with common keys
    /// never wait for each other. `wait` bounds the whole call. A key that is named twice counts once. Each
    /// key is renewed on its own until it is released, so a call names at most 1000 keys. On every path on
    /// which the call or the guard ends, all keys are released; losing one of them loses the guard.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let guard = locks.lock_all(["account:2", "account:1"]).acquire().await?;
    /// assert!(guard.keys().eq(["account:1", "account:2"]));
    /// assert!(locks.lock("account:1").try_acquire().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_all<K: Into<String>>(&self, keys: impl IntoIterator<Item = K>) -> Lock {
        let keys = keys.into_iter().map(K::into).collect();
        Lock::new(Some(self.inner.clone()), None, Keys::All(keys))
    }

    /// Returns what this manager has done so far, and what it does now. Sends nothing.
    ///
    /// ```
    /// # use lock_runtime::LockManager;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let guard = locks.lock("order:42").acquire().await?;
    /// assert!(locks.lock("order:42").try_acquire().await?.is_none());
    /// let stats = locks.stats();
    /// assert_eq!((stats.held, stats.acquired, stats.taken), (1, 1, 1));
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Returns who holds the lock with that key, and who waits for it, by two requests that change nothing:
    /// one for the lock, and one for what the processes have [reported](crate::Config::report). Each takes no
    /// longer than the command timeout. Cancel safe.
    ///
    /// A lock of a client that does not use this library is shown with what identifies it. What is reported
    /// may be a minute old: [`ask_for_reports`](Self::ask_for_reports) before, if it matters.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// for holder in locks.inspect("order:42").await?.holders() {
    ///     let (process, place) = (holder.process_info(), holder.place());
    ///     println!("{process:?} has it since {:?}, in {place:?}", holder.since());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] before anything is sent; [`LockError::Unavailable`] if the server did not
    /// reply, or refuses to say.
    pub async fn inspect(&self, key: &str) -> Result<LockInfo, LockError> {
        inspect(&self.inner.context, key).await
    }

    /// Does the same, and reads the reports of all processes, as [`list`](Self::list) does: one of them may
    /// report to hold the lock that another holds, see [`LockInfo::rivals`]. Cancel safe.
    ///
    /// # Errors
    ///
    /// As for [`inspect`](Self::inspect).
    pub async fn inspect_with_rivals(&self, key: &str) -> Result<LockInfo, LockError> {
        inspect_with_rivals(&self.inner.context, key).await
    }

    /// Lists the locks in use whose keys begin with that text, with their holders and waiters, in the order
    /// of their keys; [1000 of them](List::limit) at the most. It changes nothing. Cancel safe.
    ///
    /// On Redis it finds what the processes have [reported](crate::Config::report): of each process the 64
    /// locks that it has held longest, and 64 of those that it waits for, as far as 16 KB have room for them,
    /// and no keys above 200 bytes. [`ProcessInfo::unlisted`](crate::ProcessInfo::unlisted) counts the
    /// others, and [`scan`](List::scan) finds them. The other servers find all at once.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let _guard = locks.lock("order:42").acquire().await?;
    /// let found = locks.list("order:").await?;
    /// assert_eq!(found[0].key(), "order:42");
    /// assert!(locks.list("stock:").await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] before anything is sent; [`LockError::Unavailable`] if the server did not
    /// reply, or refuses to say. If it has more reports or names than it sends within 10 s and the
    /// [`command_timeout`](crate::Config::command_timeout) of a request, the error says so.
    pub fn list(&self, prefix: impl Into<String>) -> List {
        List::new(self.inner.clone(), prefix.into())
    }

    /// Returns the processes that use locks, as they have [reported](crate::Config::report), 10,000 of them
    /// at the most. Cancel safe.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] if the server did not reply, or refuses to say, or as for
    /// [`list`](Self::list).
    pub async fn processes(&self) -> Result<Vec<ProcessInfo>, LockError> {
        processes(&self.inner.context).await
    }

    /// Asks all processes that listen to report now, and gives them 150 ms for it. A process listens once it
    /// has waited for a lock, or has held one until its renewal, or from the beginning with
    /// [`Report::Live`](crate::Report::Live). Cancel safe: once it has begun, the processes may report all
    /// the same.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] if the server did not reply, or refuses to ask them.
    pub async fn ask_for_reports(&self) -> Result<(), LockError> {
        list::ask_for_reports(&self.inner.context).await
    }

    /// Gets a lock back from whoever holds it: asks the process to give it up, and waits until it has.
    ///
    /// The body is canceled at its next await, its caller gets [`LockError::Lost`] with
    /// [`LostCause::Revoked`](crate::LostCause::Revoked), and the lock is released as on every other path:
    /// the next in the queue enters, and there are never two holders: until the body or the guard has ended,
    /// its lease is renewed. [`Revocation::Stopped`](crate::Revocation::Stopped) is the word of its process.
    /// If the process does not hear, or the body does not await anything, the lock stays held
    /// ([`Revocation::NotStopped`](crate::Revocation::NotStopped)), and the body returns its value; only
    /// [`force`](Revoke::force) takes a lock away. A process hears if it has waited for a lock, or has held
    /// one until its renewal, after a third of its ttl; behind a pooler of PostgreSQL only with `?listen=`.
    ///
    /// Dropping the future takes nothing back: what was sent by then is carried out, and its result is
    /// unknown. Then [`inspect`](Self::inspect) says who holds the lock.
    ///
    /// Whoever may write the lock on the server may revoke it. Both processes log it, with who and why. The
    /// [runbook](crate::guide::runbook) says when to ask, and when to use force.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager, LostCause, Revocation};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let stuck = tokio::spawn(locks.lock("order:42").run(async |_| std::future::pending::<()>().await));
    /// tokio::task::yield_now().await;
    ///
    /// let revoked = locks.revoke("order:42").by("ann").reason("stuck since the deploy").await?;
    /// assert!(matches!(revoked, Revocation::Stopped { .. }));
    /// let ended = stuck.await.expect("it does not panic");
    /// assert!(matches!(ended, Err(LockError::Lost { cause: LostCause::Revoked, .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] before anything is sent; [`LockError::InvalidOption`] if several share the
    /// lock and neither [`all`](Revoke::all) nor one of them is meant; [`LockError::Unavailable`] if the
    /// server did not reply, or refuses it.
    pub fn revoke(&self, key: impl Into<String>) -> Revoke {
        Revoke::new(self.inner.clone(), key.into())
    }

    /// Checks that locks can be acquired now, by a round trip to the server: in a quorum to a majority of the
    /// members, in a cluster to every master. It takes no longer than the command timeout, and leaves nothing
    /// on the server. Cancel safe.
    ///
    /// It is for readiness probes, which keep requests away from an instance while its locks fail. Don't use
    /// it for liveness probes: an outage of the lock server would then restart all instances. That repairs
    /// nothing, and ends their running bodies. The [deployment guide](crate::guide::deployment) shows both
    /// kinds of probes.
    ///
    /// | server | what it must reply to | the ping also fails if |
    /// | --- | --- | --- |
    /// | Redis | a write that changes nothing | it is a replica, has too few of them, is out of memory, or cannot write to its disk |
    /// | PostgreSQL | a write that changes nothing | it accepts only reads |
    /// | etcd | a read that a majority confirms | there is no leader |
    /// | ZooKeeper | a write to a node of this process | there is no leader |
    /// | `memory://` | | |
    ///
    /// It does not notice that the user lost permissions, that replicas acknowledge too late for
    /// [`replicas`](crate::Lock::replicas), that messages to waiters are lost, or that the disk of PostgreSQL
    /// or the space of etcd is full. Nor does it try again: a ping during a failover fails.
    ///
    /// ```
    /// # use lock_runtime::LockManager;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// locks.ping().await?;
    /// locks.shutdown().await;
    /// assert!(locks.ping().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`], whose source names the cause; [`LockError::ShuttingDown`] once the manager
    /// is being shut down.
    pub async fn ping(&self) -> Result<(), LockError> {
        ping(&self.inner.context).await
    }

    /// Inspects the lock server. Returns a warning for each setting that may lose locks with the manager's
    /// default ttl, or give them two holders; an empty vector if there is none.
    ///
    /// The check connects to every server of the deployment, and takes no longer than the connect timeout. A
    /// setting that cannot be read is a warning, too: [`WarningKind::NotChecked`](crate::WarningKind). A
    /// Redis user needs the permissions `+info +time +config|get`. Cancel safe.
    ///
    /// ```
    /// # use lock_runtime::LockManager;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// for warning in locks.check_servers().await {
    ///     eprintln!("{warning}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_servers(&self) -> Vec<Warning> {
        let context = &self.inner.context;
        let defaults = &context.defaults;
        let found = context.engine.inspect(defaults.ttl, defaults.replicas);
        found.await.warnings
    }

    /// Shuts the manager down, with 5 s for bodies to finish: see [`shutdown_within`](Self::shutdown_within).
    pub async fn shutdown(&self) {
        self.shutdown_within(GRACE).await;
    }

    /// Grants no more locks, lets the bodies that run finish within `grace`, cancels the others, and waits
    /// until all locks are released on the server. Call it last before the process ends, when all guards of
    /// the calling task are dropped.
    ///
    /// 1. Waiting calls, and later ones, fail with [`LockError::ShuttingDown`]. Bodies may finish, and guards
    ///    may be dropped, within `grace`; their leases are renewed, and nested calls with
    ///    [`reentrant`](crate::Lock::reentrant) run.
    /// 2. All other holds are lost, with [`LostCause::ShutDown`](crate::LostCause::ShutDown), and their
    ///    leases are no longer renewed. A body is canceled at its next await, and then its lock is released;
    ///    a guard that you hold releases its lock when it is dropped. A lock is never released under a body
    ///    that still runs, or a guard that still lives: if it stays (the body blocks its thread, has `on_lost
    ///    = "continue"`, or waits for this very shutdown), this waits until its lease has ended, at most for
    ///    its `ttl`.
    /// 3. The releases are repeated until the server has confirmed them, if it is unavailable at most for the
    ///    longest ttl among them and a command timeout.
    ///
    /// Thus it returns at once if no lock is held or being acquired, and after `grace`, twice the longest ttl
    /// and a command timeout at the latest. Of several calls at a time, the first whose `grace` is over
    /// cancels the bodies. Cancel safe: dropping the future only stops waiting. No lock is granted any more,
    /// the releases continue, and the bodies that were not canceled yet run on.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager, LostCause};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let lock = locks.lock("order:42");
    /// let endless = tokio::spawn(lock.run(async |_| std::future::pending::<()>().await));
    /// tokio::task::yield_now().await;
    ///
    /// locks.shutdown_within(Duration::from_millis(10)).await;
    /// let ended = endless.await.expect("it does not panic");
    /// assert!(matches!(ended, Err(LockError::Lost { cause: LostCause::ShutDown, .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Without it, an ordinary end of the process releases the locks, too: a runtime that ends drops the
    /// guards of its tasks, and the thread waits for the releases, for 2 s at most. That works on Linux with
    /// glibc and on macOS; not if [`std::process::exit`] ends the process while bodies run, or `main` returns
    /// before a thread that runs a runtime of its own has ended. The main thread also waits, for 0.5 s at
    /// most, until no lock is in use, if it has connected a manager. A crash, a signal without a handler, and
    /// Windows leave the locks until their ttl has passed.
    pub async fn shutdown_within(&self, grace: Duration) {
        shut_down(&self.inner, grace).await;
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager")
            .field("server", &self.inner.context.server())
            .field("prefix", &self.inner.context.prefix())
            .finish_non_exhaustive()
    }
}
