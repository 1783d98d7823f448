//! Ends the faults.

use std::time::{Duration, Instant};

use super::{NOTICED, Nemesis};
use crate::clock;
use crate::fault::{Fault, Keys, Kind};
use crate::ground::Move;
use crate::support::time::millis;

/// A fault that has begun and not ended.
pub struct UnderWay {
    pub fault: Fault,
    pub since: Instant,
    pub until: Instant,
    pub cure: Cure,
}

#[derive(Clone, Copy)]
pub enum Cure {
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
    /// Held traffic arrives, or is lost with its connection.
    Mend {
        seat: usize,
        server: usize,
        loses: bool,
    },
    EndMove(Move),
    /// Waits until a possible failover is complete.
    Settle,
}

/// The delay before another attempt to end a fault.
const AGAIN: Duration = millis(50);

impl Nemesis<'_> {
    /// Ends the faults that have lasted long enough.
    pub fn tend(&mut self) {
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
        match it.cure {
            Cure::StartEmpty(server) => self.ground.may_return(server),
            Cure::Settle => self.ground.is_settled(),
            _ => true,
        }
    }

    fn end(&mut self, mut it: UnderWay) {
        match it.cure {
            Cure::Resume(seat) => self.crew.resume(seat),
            Cure::Kill {
                server,
                kind,
                lasts,
            } => {
                it.cure = self.kill(server, kind);
                if let Some(proxy) = self.ground.proxy(0, server) {
                    proxy.cut();
                    proxy.heal();
                }
                it.since = Instant::now();
                it.until = it.since + lasts;
                self.under_way.push(it);
                return;
            }
            Cure::Start(server) => self.ground.server(server).restart(),
            Cure::StartEmpty(server) => {
                // The last lease that it granted may not have ended yet.
                if it.since.elapsed() < self.ground.rules().ttl {
                    it.fault.forgotten = Some(Keys::All);
                }
                self.ground.server(server).forget();
                self.ground.server(server).restart();
            }
            Cure::Wake(server) => self.ground.server(server).resume(),
            Cure::Mend {
                seat,
                server,
                loses,
            } => {
                if let Some(proxy) = self.ground.proxy(seat, server) {
                    if loses {
                        proxy.cut();
                    }
                    proxy.heal();
                }
            }
            Cure::EndMove(slot) => {
                if !self.ground.end_move(slot) {
                    it.until = Instant::now() + AGAIN;
                    self.under_way.push(it);
                    return;
                }
            }
            Cure::Settle => {}
        }
        it.fault.until = clock::now();
        let matters = it.fault.away || it.fault.forgotten.is_some();
        if self.ground.rules().changes && matters && !matches!(it.cure, Cure::Settle) {
            it.cure = Cure::Settle;
            it.until = Instant::now() + NOTICED;
            self.under_way.push(it);
        } else {
            self.faults.push(it.fault);
        }
    }
}

impl Cure {
    /// Returns the server that is down until this cure.
    pub fn server(self) -> Option<usize> {
        match self {
            Self::Kill { server, .. }
            | Self::Start(server)
            | Self::StartEmpty(server)
            | Self::Wake(server) => Some(server),
            Self::EndMove(Move { from, .. }) => Some(from),
            Self::Resume(_) | Self::Mend { .. } | Self::Settle => None,
        }
    }
}
