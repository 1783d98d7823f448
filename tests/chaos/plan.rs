//! What is to go wrong, and when: made of a seed, so that it can be played again.

use std::fmt;
use std::time::Duration;

use crate::fault::{Kind, Sphere};
use crate::ground::{Links, Rules};
use crate::support::dice::Dice;
use crate::support::time::millis;

/// Which kinds go wrong how often.
#[derive(Clone, Debug)]
pub struct Profile {
    /// By weight.
    pub kinds: Vec<(Kind, u64)>,
    /// How long it takes on average until the next one begins.
    pub pause: Duration,
}

impl Profile {
    /// Everything that a ground can do. What befalls only a network is not more frequent than what
    /// befalls a process.
    pub fn everything() -> Self {
        let mut kinds = Vec::new();
        for (all, weight) in [
            (&Kind::PROCESS[..], 6),
            (&Kind::SERVER[..], 4),
            (&Kind::NETWORK[..], 2),
            (&Kind::COMMAND[..], 2),
            (&Kind::REFUSAL[..], 2),
            (
                &[Kind::Failover, Kind::SlotMoved, Kind::ClockStepped][..],
                4,
            ),
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

/// One thing that goes wrong.
#[derive(Clone, Debug)]
pub struct Step {
    pub at: Duration,
    pub lasts: Duration,
    pub kind: Kind,
    pub on: On,
    /// Where there are two ways to do it: the other one.
    pub otherwise: bool,
}

/// What it befalls. Seats are what worker processes sit in, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Seat(usize),
    Server(usize),
    /// Whichever server serves that lock by then.
    Serving(u32),
    /// What is between a worker and a server.
    Link(usize, usize),
    /// What is between all workers and the server of that lock.
    Door(u32),
    Key(u32),
}

impl Plan {
    pub fn of(seed: u64, rules: &Rules, profile: &Profile, lasts: Duration) -> Self {
        let dice = Dice::with(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut maker = Maker {
            dice,
            rules,
            end: lasts + millis(300),
            busy: Vec::new(),
        };
        let allowed =
            |kind: &Kind| rules.can.contains(kind) && (!rules.exclusive || !kind.takes_away());
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
    dice: Dice,
    rules: &'a Rules,
    /// When all is to be well again, but for a server that has to stay away for longer.
    end: Duration,
    /// Until when.
    busy: Vec<(On, Duration)>,
}

impl Maker<'_> {
    fn pause(&mut self, profile: &Profile, kinds: &[(Kind, u64)]) -> Option<Duration> {
        let most = 2 * profile.pause.as_micros() as u64;
        let pause = Duration::from_micros(1 + self.dice.roll(most));
        (!kinds.is_empty()).then_some(pause)
    }

    fn one_of(&mut self, kinds: &[(Kind, u64)]) -> Kind {
        let mut number = self.dice.roll(kinds.iter().map(|(_, weight)| weight).sum());
        for (kind, weight) in kinds {
            if number < *weight {
                return *kind;
            }
            number -= weight;
        }
        unreachable!("it is less than the sum");
    }

    /// None if what it would befall is in trouble enough.
    fn step(&mut self, at: Duration, kind: Kind) -> Option<Step> {
        let step = Step {
            at,
            kind,
            lasts: self.length(at, kind),
            on: self.target(kind),
            otherwise: self.dice.one_in(2),
        };
        self.busy.retain(|(_, until)| *until > at);
        let fits = match step.on {
            // It is over before anybody knows.
            _ if kind.sphere() == Sphere::Command && step.lasts.is_zero() => true,
            On::Seat(_) | On::Link(..) => self.busy.iter().all(|(on, _)| *on != step.on),
            On::Server(_) | On::Serving(_) | On::Door(_) | On::Key(_) => {
                let servers = self.busy.iter().map(|(on, _)| on);
                let servers = servers.filter(|on| !matches!(on, On::Seat(_) | On::Link(..)));
                let (mut away, mut same) = (0, false);
                servers.for_each(|on| {
                    away += 1;
                    same |= *on == step.on;
                });
                !same && away < self.rules.away
            }
        };
        fits.then(|| {
            self.busy.push((step.on, at + step.lasts));
            step
        })
    }

    fn target(&mut self, kind: Kind) -> On {
        let rules = self.rules;
        let seat = self.dice.roll(rules.seats as u64) as usize;
        let server = self.dice.roll(rules.servers.max(1) as u64) as usize;
        let key = self.dice.roll(u64::from(rules.keys)) as u32;
        let any = self.dice.one_in(3);
        match (kind.sphere(), rules.links) {
            (Sphere::Process, _) => On::Seat(seat),
            (Sphere::Clock, _) if rules.clocks && any => On::Server(server),
            (Sphere::Clock, _) => On::Seat(seat),
            (Sphere::Network, Links::OfWorkers) => On::Link(seat, server),
            (Sphere::Network, _) => On::Door(key),
            (Sphere::Topology, _) => On::Key(key),
            _ if kind == Kind::KeyDeleted || kind == Kind::KeyOverwritten => On::Key(key),
            _ if rules.changes && !any => On::Serving(key),
            _ => On::Server(server),
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
        let (rules, dice) = (self.rules, &mut self.dice);
        let mut up_to = |most: Duration| Duration::from_micros(dice.roll(most.as_micros() as u64));
        match kind {
            Kind::WorkerStopped => millis(50) + up_to((rules.ttl * 3).min(millis(2500))),
            Kind::ServerKilled => millis(50) + up_to(rules.stop.min(millis(3000))),
            Kind::ServerForgot => rules.absence + millis(50) + up_to(millis(700)),
            Kind::ServerStopped => up_to(rules.stop),
            Kind::ServerAsleep | Kind::ClientsPaused => up_to(rules.stop.min(millis(2000))),
            Kind::SlowScript | Kind::BusyReplies => up_to(millis(400)),
            Kind::SubscribeRefused | Kind::ChannelsDenied | Kind::ScriptsDenied => {
                millis(100) + up_to(rules.stop.min(millis(1500)))
            }
            Kind::KeyOverwritten => millis(50) + up_to(rules.ttl.min(millis(1500))),
            Kind::SlotMoved => up_to(millis(1000)),
            Kind::ClockStepped => up_to(rules.ttl * 2),
            _ if kind.sphere() == Sphere::Network => {
                millis(20) + up_to(rules.stop.min(millis(1500)))
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
    use crate::ground::Standalone;

    const LASTS: Duration = millis(20_000);

    fn plan(seed: u64, rules: &Rules) -> Plan {
        Plan::of(seed, rules, &Profile::everything(), LASTS)
    }

    fn strict() -> Rules {
        Standalone::that_remembers(millis(800))
    }

    #[test]
    fn a_seed_is_a_plan() {
        let again = plan(7, &strict()).to_string();
        assert_eq!(plan(7, &strict()).to_string(), again);
        assert_ne!(plan(8, &strict()).to_string(), again);
    }

    #[test]
    fn nothing_is_asked_beyond_what_is_promised() {
        let kinds = |rules: &Rules| -> Vec<Kind> {
            let plans = (1..20).map(|seed| plan(seed, rules));
            plans
                .flat_map(|plan| plan.steps.into_iter().map(|step| step.kind))
                .collect()
        };
        let loose = Rules {
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
    fn so_many_servers_are_away_at_a_time() {
        let of_five = Rules {
            servers: 5,
            away: 2,
            ..strict()
        };
        let mut most = 0;
        for steps in (1..20).map(|seed| plan(seed, &of_five).steps) {
            let away = steps.iter().filter(|step| matches!(step.on, On::Server(_)));
            let away: Vec<_> = away.collect();
            for step in &away {
                let lasts = |other: &&&Step| (other.at..other.at + other.lasts).contains(&step.at);
                most = most.max(away.iter().filter(lasts).count());
            }
        }
        assert_eq!(most, 2);
    }
}
