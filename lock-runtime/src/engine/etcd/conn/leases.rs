//! Leases of the server, each of which many claims share.
//!
//! Nothing is believed because a lease was kept alive: a leader that was frozen, and has a successor, never
//! learns of that, and may have the lease revoked when it resumes. But no member ends a lease before its
//! length has passed since it was granted. So holders move their keys to new leases, and only claims that
//! wait rely on leases that are kept alive: losing one costs them their place.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::etcd::conn::client::Client;
use crate::engine::etcd::conn::connection::Connection;
use crate::engine::etcd::conn::server_lease::{LeaseUse, ServerLease, seconds_of};
use crate::engine::etcd::wire::error::Failure;
use crate::engine::etcd::wire::messages::{LeaseGrantRequest, LeaseGrantResponse};
use crate::util::clock::{Clock, Timestamp};
use crate::util::join_all::join_all;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::{deadline_in, elapsed_since, now, sleep_until};
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// After what time without a reply a lease is asked for once more.
const GRANT_AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct Leases {
    client: Arc<Client>,
    clock: Clock,
    /// Called when the server has ended a lease.
    on_lost: Box<dyn Fn() + Send + Sync>,
    classes: Mutex<Vec<Class>>,
    granting: tokio::sync::Mutex<()>,
}

/// The leases of one length.
struct Class {
    seconds: u64,
    /// In the order in which they were granted.
    leases: Vec<Arc<ServerLease>>,
    /// When a new claim came last.
    entered: Instant,
}

impl Class {
    /// Returns the share of that number of claims in the newest lease that was granted no longer than `age`
    /// before `since`.
    fn find(&self, claims: usize, since: Timestamp, age: Duration) -> Option<Arc<LeaseUse>> {
        let fits = |lease: &&Arc<ServerLease>| {
            lease.age(since) <= age && !lease.is_lost() && lease.has_room_for(claims)
        };
        let lease = self.leases.iter().rev().find(fits)?;
        Some(Arc::new(LeaseUse::of(lease, claims)))
    }
}

impl Leases {
    pub(crate) fn new(
        client: Arc<Client>,
        clock: Clock,
        on_lost: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Leases> {
        Arc::new(Leases {
            client,
            clock,
            on_lost: Box::new(on_lost),
            classes: Mutex::default(),
            granting: tokio::sync::Mutex::default(),
        })
    }

    fn classes(&self) -> MutexGuard<'_, Vec<Class>> {
        self.classes.lock()
    }

    /// Returns the share of new claims in a young lease that lasts for at least that ttl.
    pub(crate) async fn join(
        self: &Arc<Self>,
        ttl: Duration,
        claims: usize,
    ) -> Result<Arc<LeaseUse>, EngineError> {
        let seconds = seconds_of(ttl);
        let young = Duration::from_secs(seconds) / 3;
        let joined = self.join_since(ttl, claims, self.clock.now(), young).await;
        let mut classes = self.classes();
        if let Some(class) = classes.iter_mut().find(|class| class.seconds == seconds) {
            class.entered = now();
        }
        joined
    }

    /// Returns the share of that number of claims in a lease that was granted no longer than `age` before
    /// `since`.
    pub(crate) async fn join_since(
        self: &Arc<Self>,
        ttl: Duration,
        claims: usize,
        since: Timestamp,
        age: Duration,
    ) -> Result<Arc<LeaseUse>, EngineError> {
        let seconds = seconds_of(ttl);
        let find = || {
            let classes = self.classes();
            let class = classes.iter().find(|class| class.seconds == seconds);
            class.and_then(|class| class.find(claims, since, age))
        };
        if let Some(lease) = find() {
            return Ok(lease);
        }
        let _turn = self.granting.lock().await;
        if let Some(lease) = find() {
            return Ok(lease);
        }
        let lease = Arc::new(self.grant(seconds).await?);
        let share = LeaseUse::of(&lease, claims);
        self.add(lease);
        Ok(Arc::new(share))
    }

    /// Has a lease granted. A member loses what it has passed on to a leader that died, and answers all else:
    /// so the request is repeated, which does no harm. A lease without keys ends by itself.
    async fn grant(&self, seconds: u64) -> Result<ServerLease, EngineError> {
        let connection = self.client.connection().await?;
        let mut tries = Vec::new();
        loop {
            tries.push(Box::pin(self.try_grant(&connection, seconds)));
            let granted = poll_fn(|context| {
                let mut tries = tries.iter_mut();
                let ready = tries.find_map(|it| match it.as_mut().poll(context) {
                    Poll::Ready(granted) => Some(granted),
                    Poll::Pending => None,
                });
                ready.map_or(Poll::Pending, Poll::Ready)
            });
            if let Ok(granted) = timeout_at(deadline_in(GRANT_AGAIN), granted).await {
                return granted;
            }
        }
    }

    async fn try_grant(
        &self,
        connection: &Connection,
        seconds: u64,
    ) -> Result<ServerLease, EngineError> {
        let sent = self.clock.now();
        let ttl = i64::try_from(seconds).unwrap_or(i64::MAX);
        let method = "/etcdserverpb.Lease/LeaseGrant";
        let request = LeaseGrantRequest { ttl };
        let reply = connection.channel.call(method, &request).await;
        let granted: LeaseGrantResponse = reply.map_err(Failure::into_engine_error)?;
        if granted.ttl < ttl {
            let words = format!(
                "the server grants leases of {} s instead of {seconds} s; lower `ttl`",
                granted.ttl
            );
            return Err(EngineError::new(EngineErrorKind::Rejected, words));
        }
        Ok(ServerLease::new(granted.id, seconds, sent))
    }

    fn add(self: &Arc<Self>, lease: Arc<ServerLease>) {
        let seconds = lease.seconds;
        let mut classes = self.classes();
        match classes.iter_mut().find(|class| class.seconds == seconds) {
            Some(class) => class.leases.push(lease),
            None => {
                classes.push(Class {
                    seconds,
                    leases: vec![lease],
                    entered: now(),
                });
                let keeper = keep(Arc::downgrade(self), seconds);
                self.client.io.spawn_detached(keeper);
            }
        }
    }

    /// Keeps the lease alive. Returns `false` if that is not known.
    async fn keep_alive(&self, lease: &ServerLease) -> bool {
        let Ok(connection) = self.client.connection().await else {
            return false;
        };
        match connection.channel.keep_alive(lease.id).await {
            Ok(reply) if reply.ttl <= 0 => {
                self.lose(lease);
                true
            }
            reply => reply.is_ok(),
        }
    }

    /// Records that the server has ended the lease.
    pub(crate) fn lose(&self, lease: &ServerLease) {
        if lease.set_lost() {
            (self.on_lost)();
        }
    }

    /// Forgets the leases of that length that are of no use. Returns the others that must be kept alive, and
    /// whether new claims are to be expected; `None` if there are no leases.
    fn tend(&self, seconds: u64) -> Option<(Vec<Arc<ServerLease>>, bool)> {
        let time = self.clock.now();
        let mut classes = self.classes();
        let at = classes.iter().position(|it| it.seconds == seconds)?;
        let class = &mut classes[at];
        class
            .leases
            .retain(|lease| lease.is_used() || !lease.remaining(time).is_zero());
        if class.leases.is_empty() {
            classes.swap_remove(at);
            return None;
        }
        let used = class.leases.iter();
        let used = used.filter(|it| it.is_used() && !it.is_lost() && !it.is_young(time));
        let ttl = Duration::from_secs(seconds);
        Some((used.cloned().collect(), elapsed_since(class.entered) < ttl))
    }

    async fn revoke(&self, id: i64) {
        // A lease that is not revoked ends by itself.
        if let Some(connection) = self.client.present() {
            let _ = connection.channel.revoke(id).await;
        }
    }

    /// Revokes the leases without claims. Returns `true` if none is left.
    pub(crate) async fn revoke_unused(&self) -> bool {
        let mut unused = Vec::new();
        let is_last = {
            let mut classes = self.classes();
            for class in &mut *classes {
                unused.extend(class.leases.extract_if(.., |lease| !lease.is_used()));
            }
            classes.iter().all(|class| class.leases.is_empty())
        };
        join_all(unused.iter().map(|lease| self.revoke(lease.id))).await;
        is_last
    }
}

/// Keeps the leases of that length alive on which claims stay, and has a young one ready for claims that
/// come.
async fn keep(leases: Weak<Leases>, seconds: u64) {
    let ttl = Duration::from_secs(seconds);
    let mut pause = ttl / 4;
    loop {
        sleep_until(deadline_in(pause)).await;
        let Some(leases) = leases.upgrade() else {
            return;
        };
        let Some((used, is_entered)) = leases.tend(seconds) else {
            return;
        };
        let kept = join_all(used.iter().map(|lease| leases.keep_alive(lease))).await;
        let mut all_went_well = kept.into_iter().all(|is_kept| is_kept);
        if is_entered {
            let ahead = leases.join_since(ttl, 0, leases.clock.now(), ttl / 12);
            all_went_well &= ahead.await.is_ok();
        }
        pause = match all_went_well {
            true => ttl / 4,
            false => (ttl / 24).max(Duration::from_millis(50)),
        };
    }
}
