//! Requests of a few processes in every possible order of arrival, with their required results.

use crate::server::{Answer, Command, News, PROCESSES, Rules, Server, Token, UNLIMITED};
use Command::*;
use std::fmt;

/// The requests of each process, in order, the limits of the processes, and the processes without a
/// subscription.
#[derive(Clone, Copy)]
pub struct Scene {
    pub name: &'static str,
    pub programs: &'static [&'static [Command]],
    /// Of all tokens of each process; 1 for the other processes. Every token after the first one of a process
    /// is a reader's if `downgrades`.
    pub limits: &'static [u8],
    pub downgrades: bool,
    pub deaf: &'static [usize],
    /// The number of orders.
    pub orders: usize,
}

const fn scene(
    name: &'static str,
    programs: &'static [&'static [Command]],
    deaf: &'static [usize],
    orders: usize,
) -> Scene {
    Scene {
        name,
        programs,
        limits: &[],
        downgrades: false,
        deaf,
        orders,
    }
}

const fn shared(
    name: &'static str,
    limits: &'static [u8],
    programs: &'static [&'static [Command]],
    orders: usize,
) -> Scene {
    Scene {
        limits,
        ..scene(name, programs, &[], orders)
    }
}

const ASK: Command = Wait(0);
const TICK: Command = Pass(1);

/// Scenes that need only the features of every engine.
pub const SCENES: &[Scene] = &[
    scene(
        "three that wait and release",
        &[
            &[ASK, ASK, Release],
            &[ASK, ASK, Release],
            &[ASK, ASK, Release],
        ],
        &[],
        1680,
    ),
    scene(
        "three that may give up",
        &[&[Take, Release, ASK], &[ASK, Cancel, ASK], &[ASK, Cancel]],
        &[],
        560,
    ),
    scene(
        "leases that end",
        &[
            &[ASK, Release],
            &[ASK, Cancel],
            &[ASK, ASK],
            &[Expire, Expire],
        ],
        &[],
        2520,
    ),
    scene(
        "a late release, and a late cancel, of a lease that ended",
        &[
            &[Take, Release],
            &[ASK, Cancel],
            &[ASK, ASK],
            &[TICK, Expire],
        ],
        &[],
        2520,
    ),
    scene(
        "requests of an expired token",
        &[
            &[Take, Renew, Fence],
            &[ASK, Renew, Release],
            &[Expire, ASK],
        ],
        &[],
        560,
    ),
    scene(
        "a grant is short until it is renewed",
        &[
            &[Take, Release],
            &[ASK, Renew, Fence],
            &[ASK],
            &[TICK, TICK],
        ],
        &[],
        1680,
    ),
    scene(
        "a silent waiter is skipped, one that polls again is not",
        &[
            &[ASK],
            &[ASK, ASK],
            &[ASK, Renew],
            &[Pass(2), Pass(2), TICK],
        ],
        &[],
        1680,
    ),
    scene(
        "an answer that was lost is asked for again",
        &[&[ASK, ASK, Renew, ASK], &[Take, Release], &[ASK, Cancel]],
        &[],
        420,
    ),
];

const READ: u8 = UNLIMITED;

/// Scenes in which several tokens share a lock.
pub const SHARED_SCENES: &[Scene] = &[
    shared(
        "readers around a writer",
        &[READ, 1, READ],
        &[
            &[Take, ASK, Release],
            &[ASK, ASK, Release],
            &[Take, ASK, Release],
        ],
        1680,
    ),
    shared(
        "two permits for three",
        &[2, 2, 2],
        &[&[Take, Renew, Release], &[Take, ASK, Release], &[ASK, ASK]],
        560,
    ),
    shared(
        "processes that disagree about the permits",
        &[3, 2, 3, 2],
        &[&[ASK, Release], &[ASK, ASK], &[Take, Release], &[ASK]],
        630,
    ),
    shared(
        "a writer that gives up lets readers enter",
        &[READ, 1, READ, READ],
        &[&[Take, Renew], &[ASK, Cancel], &[ASK, ASK], &[ASK]],
        630,
    ),
    shared(
        "each holder's lease ends by itself",
        &[READ, READ, 1],
        &[&[Take, Renew], &[Take, Renew, Fence], &[ASK], &[TICK, TICK]],
        1680,
    ),
    shared(
        "a reader that dies keeps its part for its own lease only",
        &[READ, READ, 1],
        &[
            &[Take, Renew, Renew],
            &[Take],
            &[ASK, ASK],
            &[Pass(2), TICK],
        ],
        1680,
    ),
    shared(
        "a silent writer at the front",
        &[READ, 1, READ],
        &[
            &[Take, Renew, Renew],
            &[ASK],
            &[ASK, ASK, ASK],
            &[TICK, TICK],
        ],
        5040,
    ),
    shared(
        "late requests of readers",
        &[READ, READ, 1],
        &[
            &[Take, Release, Renew],
            &[ASK, Release, Release],
            &[ASK, Fence],
        ],
        560,
    ),
    Scene {
        downgrades: true,
        ..shared(
            "a downgrade with a reader and a writer in the queue",
            &[1, READ, 1],
            &[&[Take, Downgrade, Downgrade], &[ASK, ASK], &[ASK, Release]],
            210,
        )
    },
];

/// Scenes with late requests or vanished processes.
pub const SCENES_OF_A_NETWORK: &[Scene] = &[
    scene(
        "requests that come after their claim was cancelled",
        &[
            &[ASK, CancelWithTombstone, ASK],
            &[CancelWithTombstone, ASK, Release],
            &[ASK, ASK],
        ],
        &[],
        560,
    ),
    scene(
        "requests that come after their claim was cancelled, and forgotten",
        &[&[ASK, Cancel, ASK], &[Cancel, ASK, Release], &[ASK, ASK]],
        &[],
        560,
    ),
    scene(
        "requests that are void",
        &[&[ASK, Wait(2)], &[Wait(1), Wait(3)], &[Take], &[TICK, TICK]],
        &[],
        630,
    ),
    scene(
        "a tombstone that crumbles",
        &[&[CancelWithTombstone, ASK, ASK], &[ASK], &[Pass(8), TICK]],
        &[],
        60,
    ),
    scene(
        "a queue that no claim polls any more",
        &[&[Take, Renew], &[ASK], &[Pass(2), Pass(6), TICK], &[ASK]],
        &[],
        420,
    ),
    scene("the first is gone", GONE, &[0], 560),
    scene("another is gone", GONE, &[1], 560),
    scene("two are gone", GONE, &[0, 1], 560),
    scene("all are gone", GONE, &[0, 1, 2], 560),
    scene(
        "one goes",
        &[
            &[ASK, Disconnect],
            &[ASK, Release],
            &[ASK, Cancel],
            &[Expire],
        ],
        &[],
        630,
    ),
    scene(
        "clients that know no queue",
        &[&[Take, Release], &[Take, Expire], &[ASK, Release], &[ASK]],
        &[3],
        630,
    ),
];

const GONE: &[&[Command]] = &[&[ASK, ASK, Release], &[ASK, ASK], &[ASK, Release, ASK]];

/// One request, with its required result.
#[derive(Clone)]
pub struct Step {
    pub token: Token,
    pub command: Command,
    pub answer: Answer,
    /// The visible state afterwards.
    pub server: Server,
    pub published: Vec<News>,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { token, command, .. } = self;
        write!(
            f,
            "{token:?} {command:?}: {:?}; {:?}",
            self.answer, self.server
        )?;
        match self.published.is_empty() {
            true => Ok(()),
            false => write!(f, "; published {:?}", self.published),
        }
    }
}

/// A sequence of requests on a lock that has not been used.
#[derive(Clone, Default)]
pub struct Trace {
    pub steps: Vec<Step>,
    server: Server,
    pub(crate) rules: Rules,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.so_far(self.steps.len()).fmt(f)
    }
}

impl Trace {
    /// Formats the first steps, one per line.
    pub fn so_far(&self, steps: usize) -> String {
        let steps = self.steps[..steps].iter();
        steps.map(|step| format!("\n{step:?}")).collect()
    }

    pub fn new(rules: Rules) -> Self {
        Trace {
            rules,
            ..Trace::default()
        }
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    pub fn add(&mut self, token: Token, command: Command) -> Answer {
        let mut published = Vec::new();
        let answer = self.server.step(&self.rules, token, command, &mut |news| {
            published.push(news)
        });
        self.steps.push(Step {
            token,
            command,
            answer,
            server: self.server,
            published,
        });
        answer
    }

    /// Plays the commands in the given order, and then more until every process that wants the lock has
    /// acquired it.
    fn of(scene: &Scene, order: &[usize], rules: Rules) -> Self {
        let mut trace = Trace::new(rules);
        for deaf in scene.deaf {
            trace.add(token(*deaf), Disconnect);
        }
        let mut next = [0; PROCESSES];
        for who in order {
            trace.add(token(*who), scene.programs[*who][next[*who]]);
            next[*who] += 1;
        }
        for (who, program) in scene.programs.iter().enumerate() {
            if matches!(program.last(), Some(Wait(_))) {
                trace.have_it(token(who), scene.programs.len());
            }
        }
        trace.end();
        trace
    }

    fn have_it(&mut self, token: Token, others: usize) {
        // Once for each client that may be ahead, and once more for those that are woken.
        let had = (0..=others + 1).any(|_| match self.add(token, ASK) {
            Answer::Granted(_) | Answer::Adopted(_) | Answer::Void => true,
            _ => {
                let holders = self.server.holders().to_vec();
                for holder in &holders {
                    self.add(holder.token, Release);
                }
                if holders.is_empty() {
                    self.add(token, TICK);
                }
                false
            }
        });
        assert!(had, "{token:?} never acquires the lock: {self:?}");
        self.add(token, Release);
    }

    /// Lets all processes give up, and checks that nothing is left.
    pub fn end(&mut self) {
        let tokens = self.steps.iter().map(|step| step.token);
        let holders = self.server.holders().iter().map(|holder| holder.token);
        let mut tokens: Vec<_> = tokens.chain(self.server.queue()).chain(holders).collect();
        tokens.sort();
        tokens.dedup();
        for token in tokens {
            self.add(token, Cancel);
        }
        if self.server.is_reserved() {
            self.add(token(0), Expire);
        }
        assert!(self.server.holders().is_empty(), "{self:?}");
        assert_eq!(self.server.queue().next(), None);
    }

    /// Checks that no more processes were granted the lock, and have not released it, than the limit of one
    /// of them.
    fn check(&self) {
        let mut granted: Vec<(Token, u8)> = Vec::new();
        for step in &self.steps {
            let tenure = |token| step.server.hold_of(token).map(|hold| hold.tenure);
            granted.retain(|(token, since)| tenure(*token) == Some(*since));
            let waits = matches!(step.command, Wait(_));
            if let (true, Answer::Granted(_) | Answer::Adopted(_)) = (waits, step.answer) {
                let tenure = tenure(step.token).unwrap_or_else(|| panic!("{self:?}"));
                granted.retain(|(token, _)| *token != step.token);
                granted.push((step.token, tenure));
            }
            let limits = granted.iter().map(|(token, _)| self.rules.limit(*token));
            assert!(
                granted.len() <= limits.min().unwrap_or(0).into(),
                "{self:?}"
            );
        }
    }
}

fn token(process: usize) -> Token {
    Token::nth(process, 0).expect("the process number is in range")
}

impl Scene {
    /// Returns the rules with the scene's limits.
    pub fn rules(&self, mut rules: Rules) -> Rules {
        for (process, limit) in self.limits.iter().enumerate() {
            rules.limits[process].fill(*limit);
            if self.downgrades {
                rules.limits[process][1..].fill(READ);
            }
        }
        rules
    }

    /// Visits every order. Returns their number.
    pub fn play(&self, rules: Rules, mut visit: impl FnMut(Trace)) -> usize {
        let mut left: Vec<_> = self.programs.iter().map(|program| program.len()).collect();
        assert_eq!(self.orders, multinomial(&left), "{}", self.name);
        let mut played = 0;
        orders(&mut left, &mut Vec::new(), &mut |order| {
            let trace = Trace::of(self, order, rules);
            trace.check();
            played += 1;
            visit(trace);
        });
        assert_eq!(played, self.orders, "{}", self.name);
        played
    }
}

/// The commands that a process can send at any time.
const WORDS: [Command; 7] = [
    Take,
    ASK,
    Renew,
    Fence,
    Release,
    Cancel,
    CancelWithTombstone,
];

/// Visits all sequences of `steps` commands of `processes` processes, with a deletion of the lock at any
/// step. Sequences that differ only in the names of the processes count once. Returns the number of traces.
pub fn all(processes: usize, steps: usize, rules: Rules, visit: &mut dyn FnMut(Trace)) -> usize {
    fn go(
        trace: &Trace,
        known: usize,
        (most, steps): (usize, usize),
        visit: &mut dyn FnMut(Trace),
    ) -> usize {
        if steps == 0 {
            let mut trace = trace.clone();
            trace.check();
            trace.end();
            visit(trace);
            return 1;
        }
        let mut traces = 0;
        let mut next = |who, command, known| {
            let mut trace = trace.clone();
            trace.add(token(who), command);
            traces += go(&trace, known, (most, steps - 1), visit);
        };
        next(0, Expire, known);
        for who in 0..most.min(known + 1) {
            for word in WORDS {
                next(who, word, known.max(who + 1));
            }
        }
        traces
    }

    let traces = go(&Trace::new(rules), 0, (processes, steps), visit);
    assert_eq!(traces, how_many(processes, steps));
    traces
}

/// Returns the expected number of traces: if k processes have sent a command, the next step is one of 7
/// commands of each of them or of a new one, or the deletion.
fn how_many(processes: usize, steps: usize) -> usize {
    let mut ways = vec![1; processes + 1];
    for _ in 0..steps {
        ways = (0..=processes)
            .map(|known| {
                let newcomer = ways.get(known + 1).map_or(0, |ways| WORDS.len() * ways);
                (1 + known * WORDS.len()) * ways[known] + newcomer
            })
            .collect();
    }
    ways[0]
}

/// Visits all orders of the remaining commands.
fn orders(left: &mut [usize], order: &mut Vec<usize>, visit: &mut dyn FnMut(&[usize])) {
    if left.iter().all(|left| *left == 0) {
        return visit(order);
    }
    for who in 0..left.len() {
        if left[who] > 0 {
            left[who] -= 1;
            order.push(who);
            orders(left, order, visit);
            order.pop();
            left[who] += 1;
        }
    }
}

/// Returns the number of orders of that many items of each kind.
fn multinomial(parts: &[usize]) -> usize {
    let (mut orders, mut all) = (1, 0);
    for part in parts {
        for n in 1..=*part {
            all += 1;
            orders = orders * all / n;
        }
    }
    orders
}
