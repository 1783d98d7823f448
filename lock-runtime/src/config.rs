//! What is configured once, at startup.

use crate::error::LockError;
use crate::options::{ReleaseMode, validate_duration};
use std::fmt;
use std::time::Duration;

/// The lock server, and the defaults for all its locks.
///
/// A URL is a configuration, with defaults for everything else:
///
/// | URL | server |
/// | --- | --- |
/// | `redis://user:password@host:6379/0` | a Redis server; user, password, port and database may be left out |
/// | `rediss://…` | the same over TLS, with the feature `tls` |
/// | `redis+unix:///path?db=0&user=…&pass=…` | the same over a unix socket |
/// | `redis-sentinel://user:password@h1:26379,h2,h3/mymaster/0` | the server that these Sentinels call the master `mymaster`, which is followed from one failover to the next; port and database may be left out |
/// | `rediss-sentinel://…` | the same over TLS, to the Sentinels too |
/// | `redis-cluster://user:password@h1:6379,h2,h3` | a Redis Cluster, met at any of these nodes; ports may be left out |
/// | `rediss-cluster://…` | the same over TLS |
/// | `memory://` | the embedded engine: locks within this process, for tests and a first try |
/// | `memory://name` | the same, shared by all in the process who connect by that name |
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
/// Its `Debug` output shows no URL, since a URL may hold a password.
#[derive(Clone)]
#[must_use]
pub struct Config {
    pub(crate) servers: Servers,
    pub(crate) credentials: Option<(String, String)>,
    pub(crate) sentinel_credentials: Option<(String, String)>,
    #[cfg(feature = "tls")]
    pub(crate) root_certificate: Option<Vec<u8>>,
    pub(crate) prefix: String,
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) release: ReleaseMode,
    pub(crate) replicas: u32,
    pub(crate) handoff: HandoffLimits,
    pub(crate) strict: bool,
}

/// How often, and for how long, a lock may be handed from guard to guard within this process while other
/// processes wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandoffLimits {
    pub(crate) max_count: u32,
    pub(crate) max_time: Duration,
}

/// Where the locks are kept.
#[derive(Clone)]
pub(crate) enum Servers {
    One(String),
    Quorum(Vec<String>),
}

impl Config {
    /// The server at that URL, and defaults for the rest.
    pub fn new(url: impl Into<String>) -> Config {
        Config::with_servers(Servers::One(url.into()))
    }

    /// Several deployments of Redis that know nothing of one another, and defaults for the rest: a lock
    /// is held where more than half of them have it
    /// ([Redlock](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/)).
    ///
    /// Give it three URLs or five, each a server, Sentinels or a cluster. As long as more than half of
    /// them can be reached, connecting and everything else works; the others take part when they are
    /// there. A lock takes as long as the median member needs, and a fencing token twice as long. Each
    /// request goes to every member. An error's [`source`](std::error::Error::source) says what each of
    /// them answered.
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
    /// # What it takes
    ///
    /// - **Members must be independent**: different machines, no replica of one another, and nothing that
    ///   stops more than half of them at once.
    /// - **A member that has forgotten its locks must stay away for the longest ttl** before it comes back,
    ///   or persist everything (`appendonly yes`, `appendfsync always`). If it comes back at once it
    ///   votes a second time for a lock that is held, and when others have done so too there are two
    ///   holders. Have its service wait: `RestartSec=60`, and `ExecStartPre=sleep 60` for when the
    ///   machine restarts, are enough for ttls of up to 50 s. One that was only out of reach, or
    ///   paused, may come back at any time. As long as a majority remembers a lock, renewals tell it to
    ///   the others again.
    /// - **Sentinels and clusters fail over by themselves.** A failover that loses a member's last writes is
    ///   as good as a restart at once; with [`replicas`](Self::replicas) each member's own replicas must
    ///   know of a lock before that member counts.
    /// - **Clocks** may be apart, but must run at the same speed; a member whose clock is set forward
    ///   ends leases early.
    ///
    /// Waiting works as everywhere else, and nearly in order of arrival; who comes at the very moment of a
    /// release may be faster than those who wait.
    pub fn quorum<U: Into<String>>(urls: impl IntoIterator<Item = U>) -> Config {
        Config::with_servers(Servers::Quorum(urls.into_iter().map(U::into).collect()))
    }

    fn with_servers(servers: Servers) -> Config {
        Config {
            servers,
            credentials: None,
            sentinel_credentials: None,
            #[cfg(feature = "tls")]
            root_certificate: None,
            prefix: "lock:".to_owned(),
            ttl: Duration::from_secs(30),
            wait: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_millis(500),
            release: ReleaseMode::Confirmed,
            replicas: 0,
            handoff: HandoffLimits {
                max_count: 64,
                max_time: Duration::from_millis(10),
            },
            strict: false,
        }
    }

    /// The server at the URL in the environment variable `LOCK_URL`. Several URLs, with spaces between
    /// them, are the members of a [quorum](Self::quorum).
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidConfig`] if the variable is not set, or not text.
    pub fn from_env() -> Result<Config, LockError> {
        match std::env::var("LOCK_URL") {
            Ok(urls) if urls.split_whitespace().count() > 1 => {
                Ok(Config::quorum(urls.split_whitespace()))
            }
            Ok(url) => Ok(Config::new(url)),
            Err(_) => Err(invalid(
                "the environment variable `LOCK_URL` is not set; \
                 set it to a URL like `redis://127.0.0.1/`",
            )),
        }
    }

    /// What is put before every key on the server. By default `lock:`.
    ///
    /// All who are to exclude one another must have the same. Those who are not must not have two of which
    /// one begins the other, as `shop:` begins `shop:cart:`: the key `cart:1` of the first would be the
    /// key `1` of the second. (`lock` and `lock:` are two, since no key begins with `:`.)
    ///
    /// An ACL user needs keys and channels that
    /// begin with it (`~lock:* &lock:*`), `+@connection`, and the commands named in
    /// `PROTOCOL.md`; what is missing is found when connecting.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The ttl of locks that name none. By default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long locks that don't say so wait. By default 5 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long making a connection may take, the first and every later one. By default 2 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long the server may take to answer where the caller sets no bound: a single try, and a
    /// release that is waited for. A connection silent for so long is replaced. By default 500 ms.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// Whether calls wait for the release of locks that don't say so. By default they do.
    pub fn release(mut self, release: ReleaseMode) -> Self {
        self.release = release;
        self
    }

    /// How many replicas must have acknowledged a lock, where the lock doesn't say so. By default none;
    /// [`Lock::replicas`](crate::Lock::replicas) tells what that protects from.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// How often, and for how long, a lock may pass from one caller to the next within this process
    /// while other processes wait for it. By default 64 times within 10 ms. Passing it on asks the
    /// server nothing, so that contention within a process costs next to nothing
    /// ([lock cohorting](https://doi.org/10.1145/2686884)); 0 times is strict order of arrival over
    /// all processes.
    pub fn local_handoff(mut self, most: u32, time: Duration) -> Self {
        self.handoff = HandoffLimits {
            max_count: most,
            max_time: time,
        };
        self
    }

    /// Whether servers that are unsafe for locks are refused, with [`LockError::UnsafeServer`]. By default
    /// connecting to them succeeds, and the feature `tracing` tells warnings:
    /// see [`LockManager::check_servers`](crate::LockManager::check_servers).
    pub fn refuse_unsafe_servers(mut self, refuse: bool) -> Self {
        self.strict = refuse;
        self
    }

    /// User and password, if they are not in the URL. An empty user is Redis' default one.
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials = Some((user.into(), password.into()));
        self
    }

    /// User and password for the Sentinels themselves, which are not those of the server. An empty
    /// user is the default one. By default the Sentinels are told none.
    pub fn sentinel_credentials(
        mut self,
        user: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        self.sentinel_credentials = Some((user.into(), password.into()));
        self
    }

    /// The certificate authority to trust, in PEM, instead of the public ones.
    #[cfg(feature = "tls")]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    pub(crate) fn validate(&self) -> Result<(), LockError> {
        validate_duration("ttl", self.ttl)?;
        if self.connect_timeout.is_zero() || self.command_timeout.is_zero() {
            return Err(invalid(
                "a timeout is zero, so nothing could ever be answered in time",
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
            .finish_non_exhaustive()
    }
}

pub(crate) fn invalid(reason: &str) -> LockError {
    LockError::InvalidConfig {
        reason: reason.to_owned(),
        source: None,
    }
}
