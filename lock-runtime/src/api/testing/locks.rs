//! The locks of a test.

use crate::api::guard::LockGuard;
use crate::api::manager::LockManager;
use crate::api::testing::faulty_engine::{Connection, Fault, FaultyEngine};
use crate::api::testing::scope::{DefaultGuard, Scoped};
use crate::config::{Config, Servers};
use crate::engine::event::EventHandler;
use crate::engine::memory::MemoryEngine;
use crate::engine::memory::store::Store;
use crate::engine::traits::Engine;
use crate::error::LostCause;
use crate::event::LockEvent;
use crate::lock::inner::{InnerSlot, Manager};
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::util::runtime_clock::RuntimeClock;
use crate::util::sync::Mutex;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The lock manager of a test: with locks of its own, failures on demand, and virtual time. It keeps its
/// locks in this process.
///
/// It is used like a [`LockManager`]; [`manager`](Self::manager) returns one for code that takes it. Clones
/// share one manager.
///
/// ```
/// use lock_runtime::testing::Locks;
/// use lock_runtime::{LockError, LockManager};
///
/// async fn restock(locks: LockManager) -> Result<u32, LockError> {
///     locks.lock("stock:7").run(async |_| 42).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let locks = Locks::new();
/// assert_eq!(restock(locks.manager()).await.unwrap(), 42);
///
/// let _other = locks.hold_elsewhere("stock:7").await;
/// assert!(locks.lock("stock:7").try_acquire().await.unwrap().is_none());
/// # }
/// ```
#[derive(Clone)]
pub struct Locks {
    manager: LockManager,
    /// The manager of another process, whose connection never fails.
    elsewhere: LockManager,
    memory: Arc<MemoryEngine>,
    connection: Arc<Connection>,
    history: Arc<Mutex<Vec<String>>>,
}

impl Locks {
    /// Creates a manager with default options, whose locks no other manager shares.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[must_use]
    #[track_caller]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Locks {
        Locks::with("memory://")
    }

    /// Creates a manager with the options of a service. The URL is `memory://`, or `memory://name` to share
    /// the locks with others of that name.
    ///
    /// ```
    /// use lock_runtime::Config;
    /// use lock_runtime::testing::Locks;
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let locks = Locks::with(Config::new("memory://").wait(Duration::ZERO));
    /// let _other = locks.hold_elsewhere("order:42").await;
    /// assert!(locks.lock("order:42").await.unwrap_err().is_busy());
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, with another URL, or with invalid options.
    #[must_use]
    #[track_caller]
    pub fn with(config: impl Into<Config>) -> Locks {
        let config = config.into();
        let Servers::One(url) = &config.servers else {
            panic!("the locks of a test have no quorum; use `memory://`");
        };
        let Some(name) = url.strip_prefix("memory://") else {
            panic!("the locks of a test are kept in `memory://`, not in `{url}`");
        };
        if let Err(invalid) = config.validate() {
            panic!("{invalid}");
        }
        let Ok(runtime) = Handle::try_current() else {
            panic!("the locks of a test need a tokio runtime; create them in a `#[tokio::test]`");
        };
        let io = match IoThread::start() {
            Ok(io) => io.yielding(),
            Err(error) => panic!("the I/O thread cannot start: {error}"),
        };
        let clock = Clock::Runtime(Arc::new(RuntimeClock::of(&runtime)));
        let store = Store::open(name, clock.clone());
        let connection = Connection::new();
        let start = |slot: InnerSlot, engine: Arc<dyn Engine>, config: &Config| {
            let (clock, opened) = (clock.clone(), (engine, "memory://".into()));
            let inner = Manager::start(io, clock, ProcessId::random(), opened, config);
            slot.fill(&inner);
            LockManager { inner }
        };
        let history = Arc::<Mutex<Vec<String>>>::default();
        let records = history.clone();
        let recorded = config.clone().on_event(move |event| {
            if !matches!(event, LockEvent::Renewed { .. }) {
                records.lock().push(event.to_string());
            }
        });
        let slot = InnerSlot::default();
        let handler: EventHandler = slot.event_handler();
        let faulty = FaultyEngine::new(store.clone(), connection.clone(), io, handler);
        let manager = start(slot, Arc::new(faulty), &recorded);
        let slot = InnerSlot::default();
        // Its events are those of another process.
        let elsewhere = Config {
            event_handlers: Vec::new(),
            ..config
        };
        let memory = Arc::new(MemoryEngine::new(store, slot.event_handler()));
        Locks {
            manager,
            elsewhere: start(slot, memory.clone(), &elsewhere),
            memory,
            connection,
            history,
        }
    }

    /// Returns the manager.
    #[must_use]
    pub fn manager(&self) -> LockManager {
        self.manager.clone()
    }

    /// Makes this the global manager of the thread until the guard is dropped, for annotated functions and
    /// [`manager`](crate::manager). Use [`scope`](Self::scope) for tasks that run on other threads, as they
    /// may in `#[tokio::test(flavor = "multi_thread")]`.
    ///
    /// ```
    /// use lock_runtime::testing::Locks;
    /// use lock_runtime::{LockError, distributed_lock};
    ///
    /// #[distributed_lock(key = "order:<id>")]
    /// async fn ship(id: u64) -> Result<u64, LockError> {
    ///     Ok(id)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let locks = Locks::new();
    /// let default = locks.set_default();
    /// assert_eq!(ship(42).await.unwrap(), 42);
    ///
    /// drop(default);
    /// assert!(matches!(ship(42).await, Err(LockError::NotInitialized)));
    /// # }
    /// ```
    pub fn set_default(&self) -> DefaultGuard {
        DefaultGuard::set(self.manager.clone())
    }

    /// Makes this the global manager of a future, on whatever thread it is polled. Tasks that it spawns need
    /// a scope of their own.
    ///
    /// ```
    /// # use lock_runtime::testing::Locks;
    /// # use lock_runtime::{LockError, distributed_lock};
    /// # #[distributed_lock(key = "order:<id>")]
    /// # async fn ship(id: u64) -> Result<u64, LockError> {
    /// #     Ok(id)
    /// # }
    /// # #[tokio::main(flavor = "multi_thread")]
    /// # async fn main() {
    /// let locks = Locks::new();
    /// let call = tokio::spawn(locks.scope(ship(42)));
    /// assert_eq!(call.await.unwrap().unwrap(), 42);
    /// # }
    /// ```
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        Scoped::new(self.manager.clone(), future)
    }

    /// Loses the lock: its body is canceled at its next await, and the caller gets
    /// [`LockError::Lost`](crate::LockError::Lost) with this cause. If the cause is that the lease has ended,
    /// or that another client has it, the lock is free for others at once.
    ///
    /// ```
    /// use lock_runtime::LostCause;
    /// use lock_runtime::testing::Locks;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let locks = Locks::new();
    /// let guard = locks.lock("order:42").acquire().await.unwrap();
    /// locks.lose("order:42", LostCause::Expired);
    /// assert!(guard.release().await.unwrap_err().is_lost());
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If this manager does not hold the lock; the message names those that it holds.
    #[track_caller]
    pub fn lose(&self, key: &str, cause: LostCause) {
        let inner = &self.manager.inner;
        let (context, shared) = (&inner.context, &inner.shared);
        let name = context.name_of(key);
        let all = shared.watchdog.holds();
        let (lost, others): (Vec<_>, Vec<_>) = all.iter().partition(|it| *it.name() == *name);
        if lost.is_empty() {
            let held = others
                .iter()
                .map(|it| format!("`{}`", context.key_of(it.name())));
            let held = Some(held.collect::<Vec<_>>().join(", ")).filter(|it| !it.is_empty());
            let held = held.unwrap_or_else(|| "no lock".into());
            panic!(
                "lock `{key}` cannot be lost, since this manager does not hold it; it holds {held}"
            );
        }
        for hold in lost {
            let claim = hold.lose(cause);
            let is_free = matches!(
                cause,
                LostCause::Expired | LostCause::NotRenewed | LostCause::NotOwner
            );
            if is_free {
                self.memory.release(&claim);
            }
        }
    }

    /// Acquires the lock as another process, which [faults](Self::fail_with) do not affect, and returns its
    /// guard.
    ///
    /// # Panics
    ///
    /// If the lock is not free within the default `wait`.
    pub async fn hold_elsewhere(&self, key: &str) -> LockGuard {
        match self.elsewhere.lock(key).acquire().await {
            Ok(guard) => guard,
            Err(error) => panic!("another process cannot hold the lock: {error}"),
        }
    }

    /// Lets the server fail for this manager from now on, until [`repair`](Self::repair) is called.
    ///
    /// ```
    /// use lock_runtime::testing::{Fault, Locks};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let locks = Locks::new();
    /// locks.fail_with(Fault::Down);
    /// assert!(locks.lock("order:42").try_acquire().await.unwrap_err().is_unavailable());
    ///
    /// locks.repair();
    /// assert!(locks.lock("order:42").try_acquire().await.unwrap().is_some());
    /// # }
    /// ```
    pub fn fail_with(&self, fault: Fault) {
        self.connection.set(Some(fault));
    }

    /// Ends the [fault](Self::fail_with).
    pub fn repair(&self) {
        self.connection.set(None);
        // As an engine does when its connection is back.
        self.manager.inner.queues.wake_all();
    }

    /// Returns what has happened to the locks of this manager, in order, without renewals.
    ///
    /// ```
    /// use lock_runtime::testing::Locks;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let locks = Locks::new();
    /// let _other = locks.hold_elsewhere("order:42").await;
    /// locks.lock("order:42").try_acquire().await.unwrap();
    /// locks.lock("order:43").run(async |_| ()).await.unwrap();
    /// assert_eq!(
    ///     locks.history(),
    ///     ["not acquired `order:42`: taken", "acquired `order:43`", "released `order:43`"]
    /// );
    /// # }
    /// ```
    #[must_use]
    pub fn history(&self) -> Vec<String> {
        self.history.lock().clone()
    }

    /// Waits until a call of this manager holds the lock.
    pub async fn wait_until_held(&self, key: &str) {
        let inner = &self.manager.inner;
        let name = inner.context.name_of(key);
        let is_held = inner.queues.wait_until(&name, |lock| lock.holds.are_any());
        is_held.await;
    }

    /// Waits until at least `n` calls of this manager wait for the lock. A call that is about to acquire a
    /// free lock may be one of them, so let another call hold the lock first.
    ///
    /// ```
    /// use lock_runtime::testing::Locks;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let locks = Locks::new();
    /// let other = locks.hold_elsewhere("order:42").await;
    /// let call = tokio::spawn(locks.lock("order:42").acquire());
    /// locks.wait_until_waiting("order:42", 1).await;
    ///
    /// other.release().await.unwrap();
    /// assert!(call.await.unwrap().is_ok());
    /// # }
    /// ```
    pub async fn wait_until_waiting(&self, key: &str, n: usize) {
        let inner = &self.manager.inner;
        let name = inner.context.name_of(key);
        let are_waiting = inner.queues.wait_until(&name, |lock| lock.waiting() >= n);
        are_waiting.await;
    }
}

impl Deref for Locks {
    type Target = LockManager;

    fn deref(&self) -> &LockManager {
        &self.manager
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
}
