//! The configuration of a manager.

mod environment;

use crate::credentials::{CredentialsSource, Provider};
use crate::error::LockError;
use crate::event::{LockEvent, LockEventHandler};
use crate::options::{ReleaseMode, Report, validate_duration};
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A timeout that is as good as none, and that engines may add to an instant, or multiply.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The address of the lock server, and the defaults for its locks.
///
/// A URL converts into a configuration with defaults for everything else:
///
/// | URL | server |
/// | --- | --- |
/// | `redis://user:password@host:6379/0` | a Redis server; user, password, port and database are optional |
/// | `rediss://…` | the same over TLS, with the feature `tls` |
/// | `redis+unix:///path?db=0&user=…&pass=…` | the same over a Unix socket |
/// | `redis-sentinel://user:password@h1:26379,h2,h3/mymaster/0` | the master that these Sentinels call `mymaster`; failovers are followed; port and database are optional |
/// | `rediss-sentinel://…` | the same over TLS, also to the Sentinels |
/// | `redis-cluster://user:password@h1:6379,h2,h3` | the Redis Cluster that any of these nodes belongs to; ports are optional |
/// | `rediss-cluster://…` | the same over TLS |
/// | `postgres://user:password@host:5432/database` | a PostgreSQL database, with the feature `postgres`; several hosts are possible; see [Engines](crate::guide::engines) |
/// | `etcd://user:password@h1:2379,h2,h3` | the etcd cluster of these members, with the feature `etcd`; ports are optional |
/// | `etcds://…` | the same over TLS |
/// | `zookeeper://user:password@h1:2181,h2,h3/root` | a ZooKeeper ensemble, with the feature `zookeeper`; user, ports and root are optional; see [Engines](crate::guide::engines) |
/// | `zookeepers://…` | the same over TLS, with the features `zookeeper` and `tls` |
/// | `memory://` | the embedded engine: locks within this process, for tests and first steps |
/// | `memory://name` | the same, shared by all managers of the process that use this name |
///
/// ```
/// use lock_runtime::{Config, LockManager};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_runtime::LockError> {
/// # let url = "memory://";
/// let config = Config::new(url)
///     .prefix("shop:lock:")
///     .ttl(Duration::from_secs(20))
///     .wait(Duration::from_secs(2));
/// let locks = LockManager::connect(config).await?;
/// # Ok(())
/// # }
/// ```
///
/// The `Debug` output omits URLs, since they may contain passwords.
#[derive(Clone)]
#[must_use]
pub struct Config {
    pub(crate) servers: Servers,
    pub(crate) credentials: Option<CredentialsSource>,
    #[cfg(feature = "redis")]
    pub(crate) sentinel_credentials: Option<(String, String)>,
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) create_schema: bool,
    pub(crate) check_permissions: bool,
    #[cfg(feature = "tls")]
    pub(crate) root_certificate: Option<Vec<u8>>,
    /// The certificates and the key.
    #[cfg(feature = "tls")]
    pub(crate) client_certificate: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) prefix: String,
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) release: ReleaseMode,
    /// The greatest number of locks that are kept between calls.
    pub(crate) max_kept: usize,
    pub(crate) replicas: u32,
    pub(crate) handoff: HandoffLimits,
    pub(crate) strict: bool,
    pub(crate) start_disconnected: bool,
    pub(crate) event_handlers: Vec<LockEventHandler>,
    pub(crate) service: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) report: Report,
}

/// The limits of local handoff while other processes wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandoffLimits {
    pub(crate) max_count: u32,
    pub(crate) max_time: Duration,
}

/// The URL of the server, or those of the quorum's members.
#[derive(Clone)]
pub(crate) enum Servers {
    One(String),
    Quorum(Vec<String>),
    #[cfg(feature = "store")]
    Store(Arc<dyn crate::own_store::Store>),
}

impl Config {
    /// Creates a configuration for the server at `url`, with defaults for the rest.
    pub fn new(url: impl Into<String>) -> Config {
        Config::with_servers(Servers::One(url.into()))
    }

    /// Creates a configuration for a quorum of independent Redis deployments, with defaults for the rest. A
    /// lock is held while more than half of the members hold it
    /// ([Redlock](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/)).
    ///
    /// Pass three or five URLs, each of a server, a set of Sentinels or a Cluster. Everything, including
    /// connecting, works while more than half of the members can be reached; the others take part as
    /// soon as they return. Acquiring a lock takes as long as the median member needs, and a fencing token
    /// twice as long. Each request goes to every member. The [`source`](std::error::Error::source) of an
    /// error lists the reply of each member.
    ///
    /// ```no_run
    /// # use lock_runtime::{Config, LockError, LockManager};
    /// # async fn connect() -> Result<(), LockError> {
    /// let locks = LockManager::connect(Config::quorum([
    ///     "redis://a.internal",
    ///     "redis://b.internal",
    ///     "redis://c.internal",
    /// ]))
    /// .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Requirements
    ///
    /// - **Members must be independent**: on different machines, not replicas of one another, and without a
    ///   common point of failure that stops more than half of them at once.
    /// - **A member that lost its locks must stay down for the longest ttl** before it returns, or persist
    ///   every write (`appendonly yes`, `appendfsync always`). A member that returns at once votes a second
    ///   time for a lock that is held; if enough members do so, there are two holders. Delay the start of
    ///   its service: `RestartSec=60`, and `ExecStartPre=sleep 60` for restarts of the machine, are enough
    ///   for ttls of up to 50 s. A member that was only unreachable or paused may return at any time. While
    ///   a majority still stores a lock, renewals restore it on the other members.
    /// - **Sentinels and Clusters fail over by themselves.** A failover that loses a member's last writes is
    ///   equivalent to an immediate restart without data. With [`replicas`](Self::replicas), a member's vote
    ///   counts only once its own replicas have acknowledged the lock.
    /// - **Clocks** may differ, but must run at the same rate. A member whose clock is set forward ends
    ///   leases early.
    ///
    /// Waiters acquire the lock roughly in arrival order: a caller that tries at the moment of a release may
    /// overtake them. Members can't count holders together, so [`permits`](crate::Lock::permits) and
    /// [`downgrade`](crate::LockGuard::downgrade) are refused.
    pub fn quorum<U: Into<String>>(urls: impl IntoIterator<Item = U>) -> Config {
        Config::with_servers(Servers::Quorum(urls.into_iter().map(U::into).collect()))
    }

    /// Creates a configuration for a server that you bring, with defaults for the rest: see
    /// [`Store`](crate::store::Store).
    #[cfg(feature = "store")]
    pub fn store(store: impl crate::own_store::Store) -> Config {
        Config::with_servers(Servers::Store(Arc::new(store)))
    }

    fn with_servers(servers: Servers) -> Config {
        Config {
            servers,
            credentials: None,
            #[cfg(feature = "redis")]
            sentinel_credentials: None,
            #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
            create_schema: true,
            check_permissions: true,
            #[cfg(feature = "tls")]
            root_certificate: None,
            #[cfg(feature = "tls")]
            client_certificate: None,
            prefix: "lock:".to_owned(),
            ttl: Duration::from_secs(30),
            wait: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_millis(500),
            release: ReleaseMode::Confirmed,
            max_kept: 10_000,
            replicas: 0,
            handoff: HandoffLimits {
                max_count: 64,
                max_time: Duration::from_millis(10),
            },
            strict: false,
            start_disconnected: false,
            event_handlers: Vec::new(),
            service: None,
            version: None,
            report: Report::default(),
        }
    }

    /// Sets the prefix of every key on the server. The default is `lock:`.
    ///
    /// Managers that share locks must use the same prefix. Managers that don't must use prefixes of which
    /// none begins with the other: with `shop:` and `shop:cart:`, the key `cart:1` of the first is the key
    /// `1` of the second. (`lock` and `lock:` do not collide, since no key begins with `:`.) The empty prefix
    /// shares locks with clients that use none: on the server, such a lock has just its key as the name.
    ///
    /// An ACL user needs access to the keys and channels with this prefix (`~lock:* &lock:*`), and the
    /// [permissions](crate::guide::deployment#permissions) of the deployment guide; a missing one is reported
    /// when connecting.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the default [`ttl`](crate::Lock::ttl) of locks. The default is 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the default [`wait`](crate::Lock::wait) of locks. The default is 5 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the timeout for connecting a manager, whatever the command timeout is, and for each later
    /// connection. The default is 2 s; more than a year counts as a year.
    ///
    /// The first attempts to replace a broken connection, and to make one that the first waiter needs, are
    /// shorter, from 250 ms: an attempt that never gets a reply must not use up a short lease.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.min(LONGEST_TIMEOUT);
        self
    }

    /// Sets the timeout of requests that no `wait` bounds: a single try, and a confirmed release. A
    /// connection without a reply for this long is replaced, so raise it if the path to the server is slow.
    /// The default is 500 ms; more than a year counts as a year.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout.min(LONGEST_TIMEOUT);
        self
    }

    /// Sets the default [`release_mode`](crate::Lock::release_mode) of locks. The default is
    /// [`ReleaseMode::Confirmed`].
    ///
    /// Connecting fails with [`LockError::InvalidConfig`] if it is [`ReleaseMode::Lazy`]: whether that gains
    /// anything depends on where the calls for a key come from, so it is set on the locks for which it does.
    pub fn release_mode(mut self, mode: ReleaseMode) -> Self {
        self.release = mode;
        self
    }

    /// Sets the greatest number of locks that this process keeps between calls with [`ReleaseMode::Lazy`].
    /// Beyond it, locks are released as usual; with 0, all are. The default is 10,000. Each takes about 800
    /// bytes.
    ///
    /// ```
    /// # use lock_runtime::{Config, LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// // One key for each of up to 50,000 tenants of this process.
    /// let locks = LockManager::connect(Config::new("memory://").max_kept(50_000)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_kept(mut self, max_kept: usize) -> Self {
        self.max_kept = max_kept;
        self
    }

    /// Sets the default number of replicas that must acknowledge a lock. The default is 0; see
    /// [`Lock::replicas`](crate::Lock::replicas).
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Limits local handoff: while other processes wait for a lock, this process may hand it to its own
    /// callers up to `most` times, for at most `time`. The default is 64 times within 10 ms.
    ///
    /// A local handoff sends no request, so contention within a process is cheap
    /// ([lock cohorting](https://doi.org/10.1145/2686884)). With 0 times there is no local handoff, and
    /// processes take turns.
    ///
    /// Within the same limits, a reader joins a read hold that this process acquired at once, although a
    /// writer may have begun to wait elsewhere. A read hold from the queue admits the readers of this process
    /// that wait at that moment, and none that come later. A call for several keys passes no waiter of
    /// another process.
    pub fn local_handoff(mut self, most: u32, time: Duration) -> Self {
        self.handoff = HandoffLimits {
            max_count: most,
            max_time: time,
        };
        self
    }

    /// With `true`, connecting fails with [`LockError::UnsafeServer`] if the server check returns any
    /// warning. By default connecting succeeds, and the feature `tracing` logs the warnings. See
    /// [`LockManager::check_servers`](crate::LockManager::check_servers).
    pub fn refuse_unsafe_servers(mut self, refuse: bool) -> Self {
        self.strict = refuse;
        self
    }

    /// With `true`, [`LockManager::connect`](crate::LockManager::connect) succeeds although the server can't
    /// be reached, so that a service starts during an outage and reports that it is not ready. By default it
    /// fails.
    ///
    /// It tries as usual, and fails as usual if the configuration is invalid or the server refuses it: what
    /// can be known at the start is known then. If it finds no usable server by the end of the
    /// [`connect_timeout`](Self::connect_timeout), and that is at once where the connection is refused, it
    /// returns a manager that goes on in the background:
    ///
    /// - [`ping`](crate::LockManager::ping) fails with [`LockError::Unavailable`], and so do all calls, as in
    ///   any other outage: those that wait for a lock wait for the connection too, no longer than their
    ///   `wait`.
    /// - [`LockEvent::ServerDown`] is reported, and [`LockEvent::ServerUp`] once there is a connection; the
    ///   metric `distributed_lock.server.up` is 0 meanwhile.
    /// - What only the server knows is found when it is there: that it refuses the password, has another
    ///   schema, or is [unsafe](Self::refuse_unsafe_servers). Then no lock is granted. The ping and each call
    ///   fail with that very error, such as [`LockError::InvalidConfig`] or [`LockError::UnsafeServer`], and
    ///   at once: waiting does not help. The feature `tracing` logs it as an error. The manager asks again
    ///   every few seconds, so that it works once the server is corrected.
    ///
    /// An annotated function that is called while the service starts, such as one that sets up its database,
    /// fails like each other call.
    ///
    /// ```
    /// use lock_runtime::{Config, LockManager};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// let closed_port = "redis://127.0.0.1:1/";
    /// # #[cfg(feature = "redis")] {
    /// assert!(LockManager::connect(closed_port).await.is_err());
    ///
    /// let config = Config::new(closed_port).start_disconnected(true);
    /// let locks = LockManager::connect(config).await?;
    /// assert!(locks.ping().await.is_err()); // not ready
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_disconnected(mut self, start: bool) -> Self {
        self.start_disconnected = start;
        self
    }

    /// Calls `handler` for each [event](LockEvent) of the manager's locks, such as a loss. Several handlers
    /// are called one after the other.
    ///
    /// It is called on the thread where the event occurs, which may be the one that renews all leases: it
    /// must not block. It may use locks, and its panics are contained. For numbers without a handler, see
    /// [`LockManager::stats`](crate::LockManager::stats) and the feature `metrics`.
    ///
    /// ```
    /// use lock_runtime::{Config, LockEvent, LockManager, LostCause};
    /// use std::sync::mpsc;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// let (alarms, alarm) = mpsc::channel();
    /// let config = Config::new("memory://").on_event(move |event| {
    ///     if let LockEvent::Lost { key, cause, .. } = event {
    ///         let _ = alarms.send((key.to_string(), *cause));
    ///     }
    /// });
    /// let locks = LockManager::connect(config).await?;
    /// let lock = locks.lock("order:42").max_hold(std::time::Duration::from_millis(10));
    /// let guard = lock.acquire().await?;
    /// guard.lost().await;
    /// assert_eq!(alarm.recv(), Ok(("order:42".into(), LostCause::MaxHold)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_event(mut self, handler: impl Fn(&LockEvent<'_>) + Send + Sync + 'static) -> Self {
        self.event_handlers.push(Arc::new(handler));
        self
    }

    /// Names the service, for whoever looks at its locks. The default is the environment variable
    /// `OTEL_SERVICE_NAME`, or else the name of the program; [`from_env`](Self::from_env) also reads
    /// `LOCK_SERVICE`. 200 bytes are reported.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = Some(name.into());
        self
    }

    /// Sets the version of the service, such as `env!("CARGO_PKG_VERSION")`. By default, none is reported.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Sets what the process reports. The default is [`Report::Periodic`].
    ///
    /// A report is one small text on the lock server: service, version, host and process id, counts, and the
    /// 64 locks that it has held longest and 64 of those that it waits for, with keys, templates and labels.
    /// [`inspect`](crate::LockManager::inspect), [`list`](crate::LockManager::list) and
    /// [`processes`](crate::LockManager::processes) read it, for the people who operate the service. It is
    /// written beside the calls, none of which waits for it, and vanishes with a shutdown, three minutes
    /// after the last one, or with the session. If the process lacks the rights for it, its locks work
    /// nevertheless.
    ///
    /// On Redis and PostgreSQL a process reports soon after its first lock, and each minute as long as it
    /// uses any. etcd and ZooKeeper keep all that was ever written for some time, so there it reports who it
    /// is once, and the rest when it is [asked](crate::LockManager::ask_for_reports). Keys and labels may be
    /// personal data: whoever may read the locks may read the reports.
    pub fn report(mut self, report: Report) -> Self {
        self.report = report;
        self
    }

    /// Sets user and password, instead of those in the URL. An empty user is Redis' default user.
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials = Some(CredentialsSource::Fixed((user.into(), password.into())));
        self
    }

    /// Asks `provider` for user and password before each connection, instead of using those in the URL: for
    /// passwords that change while the service runs, and tokens that expire. The later call of this and of
    /// [`credentials`](Self::credentials) counts.
    ///
    /// Connections that exist are not logged in anew, so an expired token or a changed password costs no lock
    /// and interrupts no call: it matters when a connection breaks, and the one that replaces it logs in with
    /// what the provider has then.
    ///
    /// The provider runs on a thread of its own within the library's runtime, so it may use tokio, and may
    /// block. It may take as long as the [`connect_timeout`](Self::connect_timeout); leases run down
    /// meanwhile, so a provider that asks another service should keep the answer as long as it is valid. If
    /// it fails, panics or takes longer, the connection is not made, and is tried again like one that the
    /// server refuses: [`connect`](crate::LockManager::connect) returns [`LockError::Unavailable`] with the
    /// provider's error among its [sources](std::error::Error::source), and later the log names it. The
    /// provider must keep passwords out of its errors.
    ///
    /// # The file of Vault's agent
    ///
    /// An agent beside the service rewrites a file with each new password.
    ///
    /// ```no_run
    /// # use lock_runtime::{Config, LockError, LockManager};
    /// # async fn connect() -> Result<(), LockError> {
    /// let config = Config::new("postgres://db.internal/shop").credentials_from(|| async {
    ///     let file = std::fs::read_to_string("/run/secrets/db")?;
    ///     let (user, password) = file.trim().split_once(':').ok_or("no `user:password`")?;
    ///     Ok((user.to_owned(), password.to_owned()))
    /// });
    /// let locks = LockManager::connect(config).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Tokens of a cloud
    ///
    /// With IAM authentication of Amazon ElastiCache and RDS, and with Microsoft Entra ID, the password is a
    /// token that the client signs or fetches. Those of Amazon are valid for 15 minutes, which only matters
    /// for logging in: a connection to RDS stays until it breaks, and one to ElastiCache for 12 hours, after
    /// which it is replaced like any that breaks. Signing needs no request, so make a new token each time.
    ///
    /// ```
    /// # use lock_runtime::Config;
    /// # #[derive(Clone)]
    /// # struct Signer;
    /// # impl Signer {
    /// #     async fn token(&self) -> Result<String, std::io::Error> { Ok("token".to_owned()) }
    /// # }
    /// # let signer = Signer;
    /// // `signer` presigns `connect` for the cache and the user, with the credentials of the AWS SDK.
    /// let config = Config::new("rediss-cluster://locks.cache.internal").credentials_from(move || {
    ///     let signer = signer.clone();
    ///     async move { Ok(("orders".to_owned(), signer.token().await?)) }
    /// });
    /// ```
    ///
    /// # Engines
    ///
    /// The members of a [quorum](Self::quorum) share the provider. Sentinels don't get what it returns:
    /// theirs is set by `sentinel_credentials`. In PostgreSQL, an empty user is the one in the URL. With
    /// etcd, the provider is also asked when the server no longer accepts the token of a login. ZooKeeper's
    /// nodes belong to a user with this very password, so there it must not change as long as services with
    /// another one use the same locks. `memory://` asks for none.
    pub fn credentials_from<F, Fut>(mut self, provider: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(String, String), Box<dyn Error + Send + Sync>>>
            + Send
            + 'static,
    {
        let provider = Provider::new(Box::new(move || Box::pin(provider())));
        self.credentials = Some(CredentialsSource::Provider(Arc::new(provider)));
        self
    }

    /// Sets user and password for the Sentinels themselves; the server's credentials are not sent to them.
    /// An empty user is Redis' default user. By default the Sentinels receive no credentials.
    #[cfg(feature = "redis")]
    pub fn sentinel_credentials(
        mut self,
        user: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        self.sentinel_credentials = Some((user.into(), password.into()));
        self
    }

    /// With `false`, connecting never makes the schema in which PostgreSQL keeps locks, the table of MySQL or
    /// the file of SQLite: it fails unless that is there. By default it is made if the user may do that. A
    /// migration tool can make the first two with the statements of `postgres::schema` and `mysql::TABLE`.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub fn create_schema(mut self, create: bool) -> Self {
        self.create_schema = create;
        self
    }

    /// With `false`, connecting to Redis, PostgreSQL or a file succeeds although the user lacks
    /// [permissions](crate::guide::deployment#permissions) that locks need: for a tool that only looks at
    /// locks, by [`inspect`](crate::LockManager::inspect), [`list`](crate::LockManager::list) and
    /// [`processes`](crate::LockManager::processes). The [runbook](crate::guide::runbook#rights) has the
    /// rights for these. Whatever else the user may not do fails when it is called.
    pub fn check_permissions(mut self, check: bool) -> Self {
        self.check_permissions = check;
        self
    }

    /// Sets the certificate authority to trust, in PEM format, instead of the public ones.
    #[cfg(feature = "tls")]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    /// Sets the certificate that the client shows to servers that demand one, in PEM format: first its own,
    /// then those of authorities between it and the one that the servers trust; and its private key, which
    /// has no passphrase. By default the client shows none.
    ///
    /// It is shown wherever TLS is used, also to Sentinels and to all members of a [quorum](Self::quorum).
    /// PostgreSQL is connected to with TLS then, unless the URL has `sslmode=disable`. The configuration
    /// keeps the certificate for as long as the manager lives: connect another manager before it expires.
    ///
    /// A certificate proves who the client is only to servers that are set up for that. PostgreSQL's `cert`
    /// compares its common name with the user in the URL. etcd takes the common name for the user if no
    /// password is given. Redis and ZooKeeper only let the connection in: an ACL user, and the access control
    /// lists of nodes, need a [password](Self::credentials), too.
    ///
    /// # Errors
    ///
    /// Connecting fails with [`LockError::InvalidConfig`] if the texts are not in PEM format, or the key is
    /// not that of the certificate.
    ///
    /// ```no_run
    /// # use lock_runtime::{Config, LockManager};
    /// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
    /// let read = |file| std::fs::read(format!("/etc/locks/{file}"));
    /// let config = Config::new("rediss://locks.internal")
    ///     .root_certificate(read("authority.pem")?)
    ///     .client_certificate(read("client.pem")?, read("client.key")?);
    /// let locks = LockManager::connect(config).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn client_certificate(
        mut self,
        certificates: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.client_certificate = Some((certificates.into(), key.into()));
        self
    }

    pub(crate) fn validate(&self) -> Result<(), LockError> {
        validate_duration("ttl", self.ttl)?;
        let names = [&self.service, &self.version];
        if names
            .into_iter()
            .flatten()
            .any(|it| it.contains(char::is_control))
        {
            return Err(invalid(
                "the name or the version of the service has a control character; leave it out",
            ));
        }
        if self.connect_timeout.is_zero() || self.command_timeout.is_zero() {
            return Err(invalid(
                "a timeout is zero; set `connect_timeout` and `command_timeout` above zero",
            ));
        }
        if self.release == ReleaseMode::Lazy {
            return Err(invalid(
                "the default release mode is `Lazy`; set it with `Lock::release_mode`, \
                 or `release = \"lazy\"`, on locks whose calls mostly come to the same process",
            ));
        }
        Ok(())
    }
}

impl From<&str> for Config {
    fn from(url: &str) -> Config {
        Config::new(url)
    }
}

impl From<&String> for Config {
    fn from(url: &String) -> Config {
        Config::new(url)
    }
}

impl From<String> for Config {
    fn from(url: String) -> Config {
        Config::new(url)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("prefix", &self.prefix)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .field("connect_timeout", &self.connect_timeout)
            .field("command_timeout", &self.command_timeout)
            .field("max_kept", &self.max_kept)
            .finish_non_exhaustive()
    }
}

pub(crate) fn invalid(reason: &str) -> LockError {
    LockError::InvalidConfig {
        reason: reason.to_owned(),
        source: None,
    }
}
