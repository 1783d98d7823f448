//! Ends the faults.

use std::time::{Duration, Instant};

use super::{NOTICED, Nemesis};
use crate::clock;
use crate::deployment::Move;
use crate::fault::{Fault, Keys, Kind};
use lock_test_support::time::millis;

/// A fault that has begun and not ended.
pub struct UnderWay {
    pub fault: Fault,
    pub since: Instant,
    pub until: Instant,
    pub recovery: Recovery,
}

#[derive(Clone, Copy)]
pub enum Recovery {
    Resume(usize),
    /// Its replicas never receive the writes that they have missed by then.
    Kill {
        server: usize,
        kind: Kind,
        lasts: Duration,
    },
    Start(usize),
    StartEmpty(usize),
    Wake(usize),
    Rejoin(usize),
    /// Held traffic arrives, or is lost with its connection.
    Mend {
        process: usize,
        server: usize,
        loses: bool,
    },
    EndMove(Move),
    Calm(Kind),
    /// Waits until a possible failover is complete.
    Settle,
}

/// The delay before another attempt to end a fault.
const AGAIN: Duration = millis(50);

impl Nemesis<'_> {
    /// Ends the faults that have lasted long enough.
    pub fn recover_due(&mut self) {
        for mut it in std::mem::take(&mut self.under_way) {
            if Instant::now() < it.until {
                self.under_way.push(it);
            } else if !self.may_end(&it) {
                it.until = Instant::now() + AGAIN;
                self.under_way.push(it);
            } else {
                self.end(it);
            }
        }
    }

    fn may_end(&self, it: &UnderWay) -> bool {
        match it.recovery {
            Recovery::StartEmpty(server) => self.deployment.may_return(server),
            Recovery::Settle => self.deployment.is_settled(),
            _ => true,
        }
    }

    fn end(&mut self, mut it: UnderWay) {
        match it.recovery {
            Recovery::Resume(process) => self.pool.resume(process),
            Recovery::Kill {
                server,
                kind,
                lasts,
            } => {
                it.recovery = self.kill(server, kind);
                if let Some(proxy) = self.deployment.proxy(0, server) {
                    proxy.cut();
                    proxy.heal();
                }
                it.since = Instant::now();
                it.until = it.since + lasts;
                self.under_way.push(it);
                return;
            }
            Recovery::Start(server) => self.deployment.servers_mut().restart(server),
            Recovery::StartEmpty(server) => {
                // The last lease that it granted may not have ended yet.
                if it.since.elapsed() < self.deployment.limits().ttl {
                    it.fault.forgotten = Some(Keys::All);
                }
                let servers = self.deployment.servers_mut();
                if let Some(redis) = servers.redis_mut().get_mut(server) {
                    redis.forget();
                }
                servers.restart(server);
            }
            Recovery::Wake(server) => self.deployment.servers_mut().resume(server),
            Recovery::Rejoin(_) => self.deployment.servers_mut().rejoin(),
            Recovery::Mend {
                process,
                server,
                loses,
            } => {
                if let Some(proxy) = self.deployment.proxy(process, server) {
                    if loses {
                        proxy.cut();
                    }
                    proxy.heal();
                }
            }
            Recovery::EndMove(slot) => {
                if !self.deployment.end_move(slot) {
                    it.until = Instant::now() + AGAIN;
                    self.under_way.push(it);
                    return;
                }
            }
            Recovery::Calm(kind) => self.deployment.calm(kind),
            Recovery::Settle => {}
        }
        it.fault.until = clock::now();
        let matters = it.fault.away || it.fault.forgotten.is_some();
        if self.deployment.limits().changes && matters && !matches!(it.recovery, Recovery::Settle) {
            it.recovery = Recovery::Settle;
            it.until = Instant::now() + NOTICED;
            self.under_way.push(it);
        } else {
            self.faults.push(it.fault);
        }
    }
}

impl Recovery {
    /// Returns the server that is down until this recovery.
    pub fn server(self) -> Option<usize> {
        match self {
            Self::Kill { server, .. }
            | Self::Start(server)
            | Self::StartEmpty(server)
            | Self::Wake(server)
            | Self::Rejoin(server) => Some(server),
            Self::EndMove(Move { from, .. }) => Some(from),
            Self::Resume(_) | Self::Mend { .. } | Self::Calm(_) | Self::Settle => None,
        }
    }
}
