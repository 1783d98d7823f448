//! The faults of a schedule and their times, generated from a seed so that they can be replayed.

use std::fmt;
use std::time::Duration;

use crate::deployment::{Limits, Links};
use crate::fault::{FaultTarget, Kind};
use lock_test_support::rng::Rng;
use lock_test_support::time::millis;

/// The kinds of faults and their frequencies.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Each kind with its weight.
    pub kinds: Vec<(Kind, u64)>,
    /// The average time until the next fault begins.
    pub pause: Duration,
}

impl Profile {
    /// Returns all kinds. The weights keep the many network faults from being more frequent than process
    /// faults.
    pub fn everything() -> Self {
        let mut kinds = Vec::new();
        for (all, weight) in [
            (&Kind::PROCESS[..], 6),
            (&Kind::SERVER[..], 4),
            (&Kind::NETWORK[..], 2),
            (&Kind::COMMAND[..], 2),
            (&Kind::REFUSAL[..], 2),
            (&Kind::DATABASE[..], 4),
            (
                &[Kind::Failover, Kind::SlotMoved, Kind::ClockStepped][..],
                4,
            ),
            (&[Kind::ServerParted][..], 4),
            (&[Kind::PlaceDeleted][..], 2),
            (&Kind::HOLDER[..], 6),
        ] {
            kinds.extend(all.iter().map(|kind| (*kind, weight)));
        }
        Self {
            kinds,
            pause: millis(200),
        }
    }

    pub fn only(kinds: &[Kind]) -> Self {
        Self {
            kinds: kinds.iter().map(|kind| (*kind, 1)).collect(),
            ..Self::everything()
        }
    }
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub steps: Vec<Step>,
}

/// One planned fault.
#[derive(Clone, Debug)]
pub struct Step {
    pub at: Duration,
    pub lasts: Duration,
    pub kind: Kind,
    pub on: Target,
    /// Selects the second of two variants, where the kind has two.
    pub otherwise: bool,
}

/// The target of a fault. Processes are numbered; a killed one and its replacement share a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Process(usize),
    Server(usize),
    /// The server that serves the lock at that time.
    Serving(u32),
    /// The network between one worker process and one server.
    Link(usize, usize),
    /// The network between all workers and the server of the lock.
    Door(u32),
    Key(u32),
    /// Whoever holds the lock.
    Holder(u32),
    /// Whoever holds it in another process than the one that revokes it, as soon as somebody does.
    HolderElsewhere(u32),
}

impl Plan {
    pub fn of(seed: u64, limits: &Limits, profile: &Profile, lasts: Duration) -> Self {
        let rng = Rng::with(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut maker = Maker {
            rng,
            limits,
            end: lasts + millis(300),
            busy: Vec::new(),
        };
        // Locks can be revoked wherever they are.
        let allowed = |kind: &Kind| {
            kind.target() == FaultTarget::Holder
                || limits.can.contains(kind) && (!limits.exclusive || !kind.takes_away())
        };
        let kinds = profile.kinds.iter().filter(|(kind, _)| allowed(kind));
        let kinds: Vec<_> = kinds.copied().collect();
        let mut steps = Vec::new();
        let mut at = Duration::ZERO;
        while let Some(pause) = maker.pause(profile, &kinds) {
            at += pause;
            if at >= lasts {
                break;
            }
            let kind = maker.one_of(&kinds);
            steps.extend(maker.step(at, kind));
        }
        Self { steps }
    }
}

struct Maker<'a> {
    rng: Rng,
    limits: &'a Limits,
    /// The time at which all faults end, except for a server that must stay down for longer.
    end: Duration,
    /// The targets that have a fault, each with its end.
    busy: Vec<(Target, Duration)>,
}

impl Maker<'_> {
    fn pause(&mut self, profile: &Profile, kinds: &[(Kind, u64)]) -> Option<Duration> {
        let most = 2 * profile.pause.as_micros() as u64;
        let pause = Duration::from_micros(1 + self.rng.below(most));
        (!kinds.is_empty()).then_some(pause)
    }

    fn one_of(&mut self, kinds: &[(Kind, u64)]) -> Kind {
        let mut number = self.rng.below(kinds.iter().map(|(_, weight)| weight).sum());
        for (kind, weight) in kinds {
            if number < *weight {
                return *kind;
            }
            number -= weight;
        }
        unreachable!("the number is below the sum");
    }

    /// Returns `None` if the target, or the limit of unavailable servers, permits no further fault.
    fn step(&mut self, at: Duration, kind: Kind) -> Option<Step> {
        let step = Step {
            at,
            kind,
            lasts: self.length(at, kind),
            on: self.target(kind),
            otherwise: self.rng.one_in(2),
        };
        self.busy.retain(|(_, until)| *until > at);
        let fits = match step.on {
            // An instantaneous command conflicts with no other fault.
            _ if kind.target() == FaultTarget::Command && step.lasts.is_zero() => true,
            Target::Holder(_) | Target::HolderElsewhere(_) => true,
            Target::Process(_) | Target::Link(..) => self.busy.iter().all(|(on, _)| *on != step.on),
            Target::Server(_) | Target::Serving(_) | Target::Door(_) | Target::Key(_) => {
                let servers = self.busy.iter().map(|(on, _)| on);
                let servers = servers.filter(|on| {
                    !matches!(
                        on,
                        Target::Process(_)
                            | Target::Link(..)
                            | Target::Holder(_)
                            | Target::HolderElsewhere(_)
                    )
                });
                let (mut away, mut same) = (0, false);
                servers.for_each(|on| {
                    away += 1;
                    same |= *on == step.on;
                });
                !same && away < self.limits.away
            }
        };
        fits.then(|| {
            self.busy.push((step.on, at + step.lasts));
            step
        })
    }

    fn target(&mut self, kind: Kind) -> Target {
        let limits = self.limits;
        let process = self.rng.below(limits.processes as u64) as usize;
        let server = self.rng.below(limits.servers.max(1) as u64) as usize;
        let key = self.rng.below(u64::from(limits.keys)) as u32;
        let any = self.rng.one_in(3);
        match (kind.target(), limits.links) {
            (FaultTarget::Process, _) => Target::Process(process),
            (FaultTarget::Clock, _) if limits.clocks && any => Target::Server(server),
            (FaultTarget::Clock, _) => Target::Process(process),
            (FaultTarget::Network, Links::OfWorkers) => Target::Link(process, server),
            (FaultTarget::Network, _) => Target::Door(key),
            (FaultTarget::Topology, _) => Target::Key(key),
            (FaultTarget::Holder, _) => Target::Holder(key),
            _ if [Kind::KeyDeleted, Kind::PlaceDeleted, Kind::KeyOverwritten].contains(&kind) => {
                Target::Key(key)
            }
            _ if limits.changes && !any => Target::Serving(key),
            _ => Target::Server(server),
        }
    }

    fn length(&mut self, at: Duration, kind: Kind) -> Duration {
        let length = self.any_length(kind);
        match kind {
            Kind::ServerForgot => length,
            _ => length.min(self.end - at),
        }
    }

    fn any_length(&mut self, kind: Kind) -> Duration {
        let (limits, rng) = (self.limits, &mut self.rng);
        let none = rng.one_in(2);
        let mut up_to = |most: Duration| Duration::from_micros(rng.below(most.as_micros() as u64));
        match kind {
            Kind::WorkerStopped => millis(50) + up_to((limits.ttl * 3).min(millis(2500))),
            Kind::ServerKilled => millis(50) + up_to(limits.stop.min(millis(3000))),
            Kind::ServerForgot => limits.absence + millis(50) + up_to(millis(700)),
            Kind::ServerStopped | Kind::ServerParted => up_to(limits.stop),
            Kind::ServerAsleep | Kind::ClientsPaused => up_to(limits.stop.min(millis(2000))),
            Kind::SlowScript | Kind::BusyReplies => up_to(millis(400)),
            Kind::SubscribeRefused
            | Kind::ChannelsDenied
            | Kind::ScriptsDenied
            | Kind::CommandDenied => millis(100) + up_to(limits.stop.min(millis(1500))),
            Kind::KeyOverwritten => millis(50) + up_to(limits.ttl.min(millis(1500))),
            Kind::SlotMoved => up_to(millis(1000)),
            Kind::ClockStepped => up_to(limits.ttl * 2),
            Kind::PoolerRestarted | Kind::ReadOnly => up_to(millis(500)),
            // The grace.
            Kind::Ask => up_to(millis(500)),
            Kind::Force if none => Duration::ZERO,
            Kind::Force => up_to(millis(200)),
            Kind::VacuumHeldUp => up_to(millis(3000)),
            _ if kind.target() == FaultTarget::Network => {
                millis(20) + up_to(limits.stop.min(millis(1500)))
            }
            _ => Duration::ZERO,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| {
            let (at, lasts) = (step.at.as_millis(), step.lasts.as_millis());
            writeln!(
                f,
                "{at:6} ms, {lasts:4} ms long: {:?} {:?}",
                step.kind, step.on
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::Standalone;

    const LASTS: Duration = millis(20_000);

    fn plan(seed: u64, limits: &Limits) -> Plan {
        Plan::of(seed, limits, &Profile::everything(), LASTS)
    }

    fn strict() -> Limits {
        Standalone::that_remembers(millis(800))
    }

    #[test]
    fn plan_is_determined_by_its_seed() {
        let again = plan(7, &strict()).to_string();
        assert_eq!(plan(7, &strict()).to_string(), again);
        assert_ne!(plan(8, &strict()).to_string(), again);
    }

    #[test]
    fn plan_contains_no_fault_beyond_the_promises() {
        let kinds = |limits: &Limits| -> Vec<Kind> {
            let plans = (1..20).map(|seed| plan(seed, limits));
            plans
                .flat_map(|plan| plan.steps.into_iter().map(|step| step.kind))
                .collect()
        };
        let loose = Limits {
            exclusive: false,
            ..strict()
        };
        assert!(!kinds(&strict()).into_iter().any(Kind::takes_away));
        assert!(kinds(&loose).into_iter().any(Kind::takes_away));
        for step in (1..20).flat_map(|seed| plan(seed, &strict()).steps) {
            let forgets = step.kind == Kind::ServerForgot;
            assert!(!forgets || step.lasts > strict().absence, "{step:?}");
        }
    }

    #[test]
    fn plan_keeps_to_the_limit_of_unavailable_servers() {
        let of_five = Limits {
            servers: 5,
            away: 2,
            ..strict()
        };
        let mut most = 0;
        for steps in (1..20).map(|seed| plan(seed, &of_five).steps) {
            let away = steps
                .iter()
                .filter(|step| matches!(step.on, Target::Server(_)));
            let away: Vec<_> = away.collect();
            for step in &away {
                let lasts = |other: &&&Step| (other.at..other.at + other.lasts).contains(&step.at);
                most = most.max(away.iter().filter(lasts).count());
            }
        }
        assert_eq!(most, 2);
    }
}
