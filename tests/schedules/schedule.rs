//! One schedule: what goes wrong and when, and what came of it.

use std::time::{Duration, Instant};

use lock_runtime::LockManager;

use crate::contender::{KEYS, config, connect, key};
use crate::ground::{Ground, Rules};
use crate::support::dice::Dice;
use crate::support::history::{Belief, disorder, history, overlaps};
use crate::support::time::millis;
use crate::support::worker::Worker;

const PROCESSES: usize = 3;
/// How long things go wrong for.
const FOR: Duration = millis(4000);
const LONG: Duration = Duration::from_secs(90);

pub fn run<T: Fn() + Copy, G: Ground>(test: T, start: fn(&mut Dice) -> G) {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    if let Some(seed) = number("LOCK_SEED") {
        return Schedule::of(seed, start).run(test);
    }
    let mut seeds = Dice::new();
    for _ in 0..number("LOCK_SCHEDULES").unwrap_or(1) {
        Schedule::of(seeds.roll(1 << 32), start).run(test);
    }
}

struct Schedule<G> {
    seed: u64,
    dice: Dice,
    rules: Rules,
    ground: G,
    away: Vec<Away>,
    stopped: Vec<(usize, Instant)>,
    told: Vec<Belief>,
    wrong: Vec<String>,
    done: Done,
}

/// A server that was killed or stopped.
struct Away {
    server: usize,
    killed: bool,
    until: Instant,
}

/// What has been done to whom, how often.
#[derive(Debug, Default)]
struct Done {
    servers_killed: usize,
    servers_stopped: usize,
    processes_killed: usize,
    processes_stopped: usize,
}

impl<G: Ground> Schedule<G> {
    fn of(seed: u64, start: fn(&mut Dice) -> G) -> Self {
        let mut dice = Dice::with(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let ground = start(&mut dice);
        Self {
            seed,
            dice,
            rules: ground.rules(),
            ground,
            away: Vec::new(),
            stopped: Vec::new(),
            told: Vec::new(),
            wrong: Vec::new(),
            done: Done::default(),
        }
    }

    fn run<T: Fn() + Copy>(mut self, test: T) {
        println!("seed {} {:?}", self.seed, self.rules);
        let mut workers: Vec<_> = (0..PROCESSES).map(|_| self.worker(test)).collect();
        let end = Instant::now() + FOR;
        while Instant::now() < end {
            self.do_harm(&mut workers, test);
            let pause = Instant::now() + millis(self.dice.roll(400));
            while Instant::now() < pause {
                self.bring_back(&workers);
            }
        }
        while !self.away.is_empty() || !self.stopped.is_empty() {
            self.bring_back(&workers);
        }
        self.ground.until_settled();
        let waited = self.end(&mut workers);
        self.sweep();
        self.judge(waited);
    }

    fn worker<T: Fn()>(&mut self, test: T) -> Worker {
        let ttl = self.rules.ttl.as_millis().to_string();
        let seed = self.dice.roll(u64::MAX).to_string();
        Worker::start(test, &[&self.ground.urls(), &ttl, &seed])
    }

    fn do_harm<T: Fn() + Copy>(&mut self, workers: &mut [Worker], test: T) {
        let process = self.dice.roll(PROCESSES as u64) as usize;
        let server = self.ground.victim(&mut self.dice).filter(|server| {
            let is_away = self.away.iter().any(|away| away.server == *server);
            !is_away && self.away.len() < self.rules.away
        });
        let is_stopped = self.stopped.iter().any(|(stopped, _)| *stopped == process);
        match (self.dice.roll(8), server) {
            (0 | 1, Some(server)) => self.send_away(server, true),
            (2 | 3, Some(server)) => self.send_away(server, false),
            (4, _) => {
                workers[process].kill();
                self.collect(process, &workers[process]);
                self.stopped.retain(|(stopped, _)| *stopped != process);
                workers[process] = self.worker(test);
                self.done.processes_killed += 1;
            }
            (5 | 6, _) if !is_stopped => {
                workers[process].pause();
                let until = Instant::now() + millis(self.dice.roll(1500));
                self.stopped.push((process, until));
                self.done.processes_stopped += 1;
            }
            _ => {}
        }
    }

    fn send_away(&mut self, server: usize, killed: bool) {
        let now = Instant::now();
        let until = match killed {
            true => now + self.rules.absence + millis(50 + self.dice.roll(700)),
            false => now + self.rules.stop.mul_f64(self.dice.roll(100) as f64 / 100.0),
        };
        match killed {
            true => {
                self.ground.server(server).kill();
                self.ground.killed(server);
            }
            false => self.ground.server(server).pause(),
        }
        self.done.servers_killed += usize::from(killed);
        self.done.servers_stopped += usize::from(!killed);
        self.away.push(Away {
            server,
            killed,
            until,
        });
    }

    /// Those whose time is over.
    fn bring_back(&mut self, workers: &[Worker]) {
        std::thread::sleep(millis(5));
        let now = Instant::now();
        for (process, until) in std::mem::take(&mut self.stopped) {
            match until <= now {
                true => workers[process].resume(),
                false => self.stopped.push((process, until)),
            }
        }
        for away in std::mem::take(&mut self.away) {
            let ground = &mut self.ground;
            if away.until > now || (away.killed && !ground.may_return(away.server)) {
                self.away.push(away);
            } else if away.killed {
                ground.server(away.server).restart();
            } else {
                ground.server(away.server).resume();
            }
        }
    }

    /// Takes what a process has told until it ended; says whether it came to its own end, and how
    /// long it waited for a lock at most when all was well.
    fn collect(&mut self, process: usize, worker: &Worker) -> Option<u64> {
        let mut waited = 0;
        while let Some(event) = worker.event(LONG) {
            if let Some(belief) = Belief::read(&event, process) {
                self.told.push(belief);
            } else if let Some(wrong) = event.strip_prefix("wrong ") {
                self.wrong.push(wrong.to_owned());
            } else if let Some(time) = event.strip_prefix("waited ") {
                waited = waited.max(time.parse().unwrap());
            } else if event == "over" {
                return Some(waited);
            }
        }
        None
    }

    fn end(&mut self, workers: &mut [Worker]) -> u64 {
        let mut longest = 0;
        workers.iter_mut().for_each(|worker| worker.order("end"));
        for (process, worker) in workers.iter_mut().enumerate() {
            match self.collect(process, worker) {
                Some(waited) => longest = longest.max(waited),
                None => self.wrong.push("a process did not come to its end".into()),
            }
            worker.ends(LONG);
        }
        longest
    }

    /// Those who were killed in a queue are passed over by who comes next. What is not passed over ends
    /// by itself.
    fn sweep(&mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let locks = connect(&config(&self.ground.urls())).await;
            let start = Instant::now();
            loop {
                for number in 0..KEYS {
                    self.pass_over(&locks, number).await;
                }
                let left = self.ground.leftovers();
                if left.is_empty() {
                    break;
                }
                let (seed, waited) = (self.seed, start.elapsed());
                assert!(waited < LONG, "seed {seed}: {left:?} is left");
                tokio::time::sleep(millis(500)).await;
            }
            locks.shutdown().await;
        });
    }

    async fn pass_over(&mut self, locks: &LockManager, number: u64) {
        for _ in 0..2 {
            let lock = locks.lock(key(number)).wait(LONG);
            match lock.acquire().await {
                Ok(guard) => drop(guard.release().await),
                Err(error) => self.wrong.push(error.to_string()),
            }
        }
    }

    fn judge(mut self, waited: u64) {
        let history = history(std::mem::take(&mut self.told));
        let (twice, disorder) = (overlaps(&history), disorder(&history));
        let fenced = history.iter().filter(|belief| belief.fence.is_some());
        println!(
            "{} holds, {} tokens, {} overlaps; {:?}; waited {waited} ms at the end",
            history.len(),
            fenced.count(),
            twice.len(),
            self.done,
        );
        let seed = self.seed;
        assert!(self.wrong.is_empty(), "seed {seed}: {:?}", self.wrong);
        assert!(disorder.is_empty(), "seed {seed}: {disorder:?}");
        assert!(
            twice.is_empty() || !self.rules.exclusive,
            "seed {seed}: {twice:?}"
        );
        assert!(history.len() > 20, "seed {seed}: too little happened");
        let limit = self.rules.ttl + self.rules.patience;
        assert!(
            u128::from(waited) < limit.as_millis(),
            "seed {seed}: {waited} ms for a lock though all was well"
        );
    }
}
