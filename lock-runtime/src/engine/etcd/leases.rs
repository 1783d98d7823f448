//! Leases of the server, each of which many claims share.
//!
//! Keeping a lease alive is no decision of the majority: a leader that was frozen, and has a successor, still answers
//! it. So an answer counts only if the member's term was the same before, in it, and in the answer to a transaction
//! that follows it.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::etcd::client::Client;
use crate::engine::etcd::failure::Failure;
use crate::engine::etcd::messages::{Header, LeaseGrantRequest, LeaseGrantResponse, TxnRequest};
use crate::engine::etcd::server_lease::{LeaseUse, Proof, ServerLease, seconds_of};
use crate::engine::etcd::txn;
use crate::engine::lease::Lease;
use crate::util::clock::Clock;
use crate::util::join_all::join_all;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::{deadline_in, sleep_until};
use prost::bytes::Bytes;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

/// How often a lease is kept alive again at once, after an election.
const MAX_TRIES: u32 = 3;

pub(super) struct Leases {
    client: Arc<Client>,
    clock: Clock,
    /// A key that the user may read.
    probe: Bytes,
    /// Called when the server has ended a lease.
    on_lost: Box<dyn Fn() + Send + Sync>,
    all: Mutex<Vec<Arc<ServerLease>>>,
    granting: tokio::sync::Mutex<()>,
}

impl Leases {
    pub(super) fn new(
        client: Arc<Client>,
        clock: Clock,
        probe: Bytes,
        on_lost: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Leases> {
        Arc::new(Leases {
            client,
            clock,
            probe,
            on_lost: Box::new(on_lost),
            all: Mutex::default(),
            granting: tokio::sync::Mutex::default(),
        })
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<ServerLease>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the share of that number of claims in a lease that lasts for at least that ttl.
    pub(super) async fn join(
        self: &Arc<Self>,
        ttl: Duration,
        claims: usize,
    ) -> Result<Arc<LeaseUse>, EngineError> {
        let seconds = seconds_of(ttl);
        if let Some(lease) = self.find(seconds, claims) {
            return Ok(lease);
        }
        let _turn = self.granting.lock().await;
        if let Some(lease) = self.find(seconds, claims) {
            return Ok(lease);
        }
        let lease = Arc::new(self.grant(seconds).await?);
        self.all().push(lease.clone());
        let keeper = keep(Arc::downgrade(self), lease);
        self.client.io.spawn_detached(keeper);
        self.find(seconds, claims).ok_or_else(|| {
            EngineError::new(EngineErrorKind::NotReady, "the server's lease has ended")
        })
    }

    fn find(&self, seconds: u64, claims: usize) -> Option<Arc<LeaseUse>> {
        let all = self.all();
        let fits = |lease: &&Arc<ServerLease>| {
            lease.seconds == seconds && !lease.is_lost() && lease.has_room_for(claims)
        };
        let lease = all.iter().find(fits)?;
        Some(Arc::new(LeaseUse::of(lease, claims)))
    }

    async fn grant(&self, seconds: u64) -> Result<ServerLease, EngineError> {
        let connection = self.client.connection().await?;
        let sent = self.clock.now();
        let request = LeaseGrantRequest {
            ttl: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        let method = "/etcdserverpb.Lease/LeaseGrant";
        let answer = connection.channel.call(method, &request).await;
        let granted: LeaseGrantResponse = answer.map_err(Failure::into_engine_error)?;
        let ttl = Duration::from_secs(u64::try_from(granted.ttl).unwrap_or(0));
        if ttl < Duration::from_secs(seconds) {
            let words =
                format!("the server grants leases of {ttl:?} instead of {seconds} s; lower `ttl`");
            return Err(EngineError::new(EngineErrorKind::Rejected, words));
        }
        let lease = Lease::from_request(sent, ttl);
        Ok(ServerLease::new(granted.id, seconds, Proof { sent, lease }))
    }

    /// Keeps the lease alive, unless it lasts for that ttl anyway, or that was done in the last tenth of it.
    pub(super) async fn refresh(
        &self,
        lease: &ServerLease,
        ttl: Duration,
    ) -> Result<(), EngineError> {
        let _turn = lease.refreshing.lock().await;
        for _ in 0..MAX_TRIES {
            if lease.is_lost() {
                break;
            }
            let now = self.clock.now();
            let is_fresh =
                lease.remaining(now) >= ttl || now.elapsed_since(lease.proof().sent) < ttl / 10;
            if is_fresh || self.try_refresh(lease).await? {
                return Ok(());
            }
        }
        let words = match lease.is_lost() {
            true => "the server's lease has ended",
            false => "another leader was elected while the lease was renewed",
        };
        Err(EngineError::new(EngineErrorKind::NotReady, words))
    }

    /// Returns `true` if the answer counts.
    async fn try_refresh(&self, lease: &ServerLease) -> Result<bool, EngineError> {
        let connection = self.client.connection().await?;
        let before = connection.channel.term();
        let sent = self.clock.now();
        let answer = connection.channel.keep_alive(lease.id).await;
        let answer = answer.map_err(Failure::into_engine_error)?;
        if answer.ttl <= 0 {
            self.lose(lease);
            return Ok(false);
        }
        let look = TxnRequest {
            success: vec![txn::get(self.probe.clone())],
            ..TxnRequest::default()
        };
        let look = connection.channel.txn(&look).await;
        let look = look.map_err(Failure::into_engine_error)?;
        let term = |header: Option<Header>| header.map(|header| header.raft_term);
        let counts = term(answer.header) == Some(before) && term(look.header) == Some(before);
        if counts {
            let seconds = u64::try_from(answer.ttl).unwrap_or(0).min(lease.seconds);
            let renewed = Lease::from_request(sent, Duration::from_secs(seconds));
            lease.prove(Proof {
                sent,
                lease: renewed,
            });
        }
        Ok(counts)
    }

    /// Records that the server has ended the lease.
    pub(super) fn lose(&self, lease: &ServerLease) {
        if lease.set_lost() {
            self.all().retain(|other| other.id != lease.id);
            (self.on_lost)();
        }
    }

    /// Takes the lease out of use if it has been without a claim for that long.
    fn retire(&self, lease: &ServerLease, idle: Duration) -> bool {
        let mut all = self.all();
        let retires = lease.is_idle(idle);
        if retires {
            all.retain(|other| other.id != lease.id);
        }
        retires
    }

    async fn revoke(&self, id: i64) {
        // A lease that is not revoked ends by itself.
        if let Some(connection) = self.client.present() {
            let _ = connection.channel.revoke(id).await;
        }
    }

    /// Revokes the leases without claims. Returns `true` if none is left.
    pub(super) async fn revoke_unused(&self) -> bool {
        let all = self.all().clone();
        let retired = all
            .iter()
            .filter(|lease| self.retire(lease, Duration::ZERO));
        join_all(retired.map(|lease| self.revoke(lease.id))).await;
        self.all().is_empty()
    }
}

/// Keeps a lease alive until it is no longer used.
async fn keep(leases: Weak<Leases>, lease: Arc<ServerLease>) {
    let third = lease.ttl() / 3;
    let mut pause = third;
    loop {
        sleep_until(deadline_in(pause)).await;
        let Some(leases) = leases.upgrade() else {
            return;
        };
        let in_use = leases.all().iter().any(|other| other.id == lease.id);
        if lease.is_lost() || !in_use {
            return;
        }
        if leases.retire(&lease, lease.ttl()) {
            return leases.revoke(lease.id).await;
        }
        let now = leases.clock.now();
        pause = match leases.refresh(&lease, lease.ttl()).await {
            Ok(()) => third.saturating_sub(now.elapsed_since(lease.proof().sent)),
            Err(_) => lease.remaining(now) / 8,
        };
        pause = pause.clamp(
            Duration::from_millis(50),
            third.max(Duration::from_millis(50)),
        );
    }
}
