//! One schedule: its plan, its execution and its history.

use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::book::Book;
use crate::clock;
use crate::crew::Crew;
use crate::event;
use crate::fault::{Fault, Keys, Kind, Sphere};
use crate::ground::{Ground, Place, Rules};
use crate::history::{History, Promises};
use crate::left::{connected, left, uncleared};
use crate::nemesis::Nemesis;
use crate::order::{Habit, Order};
use crate::plan::{Plan, Profile};
use crate::support::dice::Dice;
use crate::support::server::temporary;
use crate::support::time::millis;
use crate::witness::Witness;

/// The parameters of a schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub place: Place,
    pub seed: u64,
    pub profile: Profile,
    /// The faults; random if `None`.
    pub plan: Option<Plan>,
    pub habit: Habit,
    /// The longest time until the next call acquires a lock, if the faults of this schedule determine it.
    pub gap: Option<Duration>,
    /// `true` if arrival order is kept whatever the plan.
    pub order: bool,
    /// `true` if the resource compares tokens; random if `None`.
    pub fenced: Option<bool>,
    /// The time during which faults begin.
    pub lasts: Duration,
}

/// The result of a schedule.
pub struct Played {
    pub place: Place,
    /// `None` for a random schedule.
    pub scene: Option<&'static str>,
    pub variant: &'static str,
    pub seed: u64,
    pub took: Duration,
    pub plan: Plan,
    pub history: History,
}

impl Schedule {
    pub fn of(place: Place, seed: u64) -> Self {
        Self {
            place,
            seed,
            profile: Profile::everything(),
            plan: None,
            habit: Habit::default(),
            gap: None,
            order: false,
            fenced: None,
            lasts: millis(4000),
        }
    }

    pub fn play(&self) -> Played {
        // Another process may take a port first.
        let start = || catch_unwind(|| self.place.start(self.seed)).ok();
        let play = || self.try_play_on(&mut *start()?);
        // Servers may never agree on a topology, which says nothing about locks.
        let mut played = std::iter::repeat_with(play).take(3).flatten();
        played.next().expect("the servers settle")
    }

    /// Plays on a ground that has been started before.
    pub fn play_on(&self, ground: &mut dyn Ground) -> Played {
        self.try_play_on(ground).expect("the servers settle")
    }

    fn try_play_on(&self, ground: &mut dyn Ground) -> Option<Played> {
        let start = Instant::now();
        let rules = ground.rules().clone();
        let chance = || Plan::of(self.seed, &rules, &self.profile, self.lasts);
        let plan = self.plan.clone().unwrap_or_else(chance);
        let mut dice = Dice::with(self.seed.wrapping_mul(0xBF58_476D_1CE4_E5B9));
        let directory = temporary("chaos-");
        let chance = !dice.one_in(3);
        let fenced = self.fenced.unwrap_or(chance);
        let book = Book::open(directory.path(), fenced);
        let order = self.order(ground, &book, directory.path(), fenced, &mut dice);
        let seats = (0..rules.seats).map(|seat| (ground.urls(seat), ground.environment(seat)));
        let mut crew = Crew::start(order, seats.collect());
        let (since, served) = (clock::now(), serving(ground));
        let witness = Witness::start(ground.socket(), rules.keys);
        let mut nemesis = Nemesis::new(ground, &mut crew);
        nemesis.play(&plan, self.lasts);
        let mut faults = nemesis.heal()?;
        if rules.changes {
            faults.iter_mut().for_each(let_fail_over);
        }
        let workers = crew.count();
        let mut history = History {
            faults,
            left: crew.end(),
            samples: witness.end(),
            promises: self.promises(&plan, fenced),
            ..History::default()
        };
        history.left.extend(connected(ground));
        history.left.extend(uncleared(ground, &history.faults));
        drop(crew);
        let journal = |worker| Order::journal(directory.path(), worker);
        let journals = (0..workers).map(journal);
        // A worker that was killed before it began has none.
        let journals = journals.filter(|journal| journal.exists());
        history.events = journals.flat_map(|journal| event::read(&journal)).collect();
        history.writes = book.writes();
        history.left.extend(left(ground));
        if serving(ground) != served {
            history.faults.extend(failed_over(&rules, &history, since));
        }
        Some(Played {
            place: self.place,
            scene: None,
            variant: rules.variant,
            seed: self.seed,
            took: start.elapsed(),
            plan,
            history,
        })
    }

    fn order(
        &self,
        ground: &dyn Ground,
        book: &Book,
        directory: &Path,
        fenced: bool,
        dice: &mut Dice,
    ) -> Order {
        let rules = ground.rules();
        Order {
            urls: String::new(),
            first: 0,
            managers: rules.managers,
            keys: rules.keys,
            ttl_ms: rules.ttl.as_millis() as u64,
            seed: dice.roll(u64::MAX),
            journals: directory.to_owned(),
            book: book.socket().to_owned(),
            fenced,
            replicas: rules.replicas,
            user: rules.credentials(),
            habit: self.habit.clone(),
        }
    }

    /// Order is promised only if no fault makes servers lose a queue or become unreachable.
    fn promises(&self, plan: &Plan, fenced: bool) -> Promises {
        let mut steps = plan.steps.iter();
        Promises {
            order: self.order || steps.all(|step| step.kind.sphere() == Sphere::Process),
            fenced,
            gap: self.gap.map(|gap| gap.as_nanos() as u64),
        }
    }
}

/// Extends a fault by the time of a failover, which continues once begun even if the master has returned.
fn let_fail_over(fault: &mut Fault) {
    const FAILOVER: u64 = 5_000_000_000;
    if fault.forgotten == Some(Keys::All) {
        fault.until += FAILOVER;
    }
}

/// Returns the server that serves each lock.
fn serving(ground: &dyn Ground) -> Vec<Option<usize>> {
    let keys = 0..ground.rules().keys;
    keys.map(|key| ground.serving(key)).collect()
}

/// Returns a fault for a failover that no step caused: on a busy machine servers take one another for dead.
fn failed_over(rules: &Rules, history: &History, since: u64) -> Option<Fault> {
    let mut faults = history.faults.iter();
    let is_known = faults.any(|fault| fault.forgotten == Some(Keys::All));
    (!is_known && !rules.exclusive).then(|| Fault {
        kind: Kind::Failover,
        target: "of itself".to_owned(),
        from: since,
        until: clock::now(),
        workers: Vec::new(),
        forgotten: Some(Keys::All),
        away: true,
    })
}
