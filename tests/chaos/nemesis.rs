//! Who makes things go wrong, as planned, and keeps a record of it.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::clock;
use crate::command::{Command, ask};
use crate::crew::Crew;
use crate::fault::{Fault, Keys, Kind, Sphere};
use crate::ground::{Ground, Links, Move};
use crate::plan::{On, Plan, Step};
use crate::support::clocks::Hand;
use crate::support::proxy::Proxy;
use crate::support::time::{comes_true, millis};

pub struct Nemesis<'a> {
    ground: &'a mut dyn Ground,
    crew: &'a mut Crew,
    under_way: Vec<UnderWay>,
    asked: Vec<JoinHandle<Option<Fault>>>,
    /// Which servers are in trouble, and until when.
    trouble: Vec<(usize, Instant)>,
    faults: Vec<Fault>,
}

/// What goes wrong at present.
struct UnderWay {
    fault: Fault,
    since: Instant,
    until: Instant,
    cure: Cure,
}

#[derive(Clone, Copy)]
enum Cure {
    Resume(usize),
    /// What its replicas have not heard by then, they never will.
    Kill {
        server: usize,
        kind: Kind,
        lasts: Duration,
    },
    Start(usize),
    StartEmpty(usize),
    Wake(usize),
    /// What was held arrives, or is lost with its connection.
    Mend {
        seat: usize,
        server: usize,
        loses: bool,
    },
    EndMove(Move),
    /// Time: who takes over takes over.
    Settle,
}

const LONG: Duration = millis(45_000);

/// How long replicas hear nothing before their master dies.
const BEHIND: Duration = millis(300);

/// How long others may take to notice what happened.
const NOTICED: Duration = millis(500);

impl<'a> Nemesis<'a> {
    pub fn new(ground: &'a mut dyn Ground, crew: &'a mut Crew) -> Self {
        Self {
            ground,
            crew,
            under_way: Vec::new(),
            asked: Vec::new(),
            trouble: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Plays all of it, for so long.
    pub fn play(&mut self, plan: &Plan, lasts: Duration) {
        let start = Instant::now();
        for step in &plan.steps {
            self.tend_until(start + step.at);
            self.begin(step);
        }
        self.tend_until(start + lasts);
    }

    /// Ends all that still goes wrong; all that did. None if the servers find to no end among themselves.
    pub fn heal(mut self) -> Option<Vec<Fault>> {
        let is_well = comes_true(LONG, || {
            self.tend();
            self.under_way.is_empty() && self.ground.is_settled()
        });
        for asked in std::mem::take(&mut self.asked) {
            self.faults.extend(asked.join().unwrap());
        }
        is_well.then_some(self.faults)
    }

    fn tend_until(&mut self, time: Instant) {
        loop {
            self.tend();
            let now = Instant::now();
            if now >= time {
                return;
            }
            thread::sleep((time - now).min(millis(5)));
        }
    }

    /// Ends what has lasted long enough.
    fn tend(&mut self) {
        for it in std::mem::take(&mut self.under_way) {
            match Instant::now() < it.until || !self.may_end(&it) {
                true => self.under_way.push(it),
                false => self.end(it),
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
                // What it granted last ended by then, or it did not.
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
                    it.until = Instant::now() + millis(100);
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

    fn begin(&mut self, step: &Step) {
        match step.kind.sphere() {
            Sphere::Process => self.befall_process(step),
            Sphere::Server => self.befall_server(step),
            Sphere::Network => self.befall_network(step),
            Sphere::Command => self.command(step),
            Sphere::Topology => self.change(step),
            Sphere::Clock => self.step_clock(step),
        }
    }

    fn fault(&self, kind: Kind, target: String) -> Fault {
        Fault {
            kind,
            target,
            from: clock::now(),
            until: 0,
            workers: Vec::new(),
            forgotten: None,
            away: false,
        }
    }

    fn later(&mut self, fault: Fault, lasts: Duration, cure: Cure) {
        let since = Instant::now();
        self.under_way.push(UnderWay {
            fault,
            since,
            until: since + lasts,
            cure,
        });
    }

    fn befall_process(&mut self, step: &Step) {
        let On::Seat(seat) = step.on else {
            unreachable!("{step:?}")
        };
        let workers = self.crew.workers(seat);
        let mut fault = self.fault(step.kind, format!("workers {workers:?}"));
        fault.workers = workers;
        match step.kind {
            Kind::WorkerKilled => self.crew.kill(seat),
            Kind::RuntimeDropped => self.crew.drop_runtime(seat),
            _ => {
                self.crew.pause(seat);
                return self.later(fault, step.lasts, Cure::Resume(seat));
            }
        }
        fault.until = clock::now();
        self.faults.push(fault);
        if step.kind == Kind::WorkerKilled {
            self.crew.replace(seat);
        }
    }

    fn befall_server(&mut self, step: &Step) {
        let Some(server) = self.server_of(step.on) else {
            return;
        };
        let mut fault = self.fault(step.kind, format!("server {server}"));
        self.excuse(&mut fault, step, server);
        let cure = match step.kind {
            Kind::ServerStopped => {
                self.ground.server(server).pause();
                Cure::Wake(server)
            }
            kind if step.otherwise && self.ground.rules().changes => {
                if let Some(proxy) = self.ground.proxy(0, server) {
                    proxy.hold_copies();
                }
                fault.target += ", its replicas behind";
                let lasts = step.lasts;
                Cure::Kill {
                    server,
                    kind,
                    lasts,
                }
            }
            kind => self.kill(server, kind),
        };
        let lasts = match cure {
            Cure::Kill { .. } => BEHIND,
            _ => step.lasts,
        };
        self.later(fault, lasts, cure);
    }

    fn kill(&mut self, server: usize, kind: Kind) -> Cure {
        self.ground.server(server).kill();
        self.ground.killed(server);
        match kind {
            Kind::ServerForgot => Cure::StartEmpty(server),
            _ => Cure::Start(server),
        }
    }

    fn befall_network(&mut self, step: &Step) {
        let (seat, server) = match step.on {
            On::Link(seat, server) => (seat, server),
            on => match self.server_of(on) {
                Some(server) => (0, server),
                None => return,
            },
        };
        let alone = self.ground.rules().links == Links::OfWorkers;
        let workers = match alone {
            true => self.crew.workers(seat),
            false => Vec::new(),
        };
        let target = match alone {
            true => format!("between workers {workers:?} and server {server}"),
            false => format!("between all and server {server}"),
        };
        let mut fault = self.fault(step.kind, target);
        fault.workers = workers;
        self.excuse(&mut fault, step, server);
        let Some(proxy) = self.ground.proxy(seat, server) else {
            return;
        };
        break_network(proxy, step);
        let held = [
            Kind::RequestsHeld,
            Kind::RepliesHeld,
            Kind::BlackHole,
            Kind::Stranded,
        ];
        let loses = step.otherwise && held.contains(&step.kind);
        self.later(
            fault,
            step.lasts,
            Cure::Mend {
                seat,
                server,
                loses,
            },
        );
    }

    fn command(&mut self, step: &Step) {
        let Some(server) = self.server_of(step.on) else {
            return;
        };
        let key = match step.on {
            On::Key(key) => key,
            _ => 0,
        };
        let target = match step.on {
            On::Key(key) => format!("key {key} on server {server}"),
            _ => format!("server {server}"),
        };
        let mut fault = self.fault(step.kind, target);
        self.excuse(&mut fault, step, server);
        match step.kind {
            Kind::KeyDeleted => fault.forgotten = Some(Keys::One(key)),
            Kind::KeyOverwritten => {
                fault.forgotten = Some(Keys::One(key));
                fault.away = true;
            }
            Kind::Flushed => fault.forgotten = Some(Keys::All),
            _ => {}
        }
        let socket = self.ground.server(server).socket();
        self.asked.push(ask(socket, Command::of(step, key), fault));
    }

    fn step_clock(&mut self, step: &Step) {
        let (from, by) = (clock::now(), step.lasts);
        let fault = match step.on {
            On::Seat(seat) => {
                let workers = self.crew.workers(seat);
                let target = format!("workers {workers:?}, asleep for {by:?}");
                self.crew.sleep(seat, by);
                let fault = self.fault(step.kind, target);
                Fault { workers, ..fault }
            }
            on => {
                let Some(server) = self.server_of(on) else {
                    return;
                };
                let clocks = self.ground.server(server).clocks();
                let way = match step.otherwise {
                    true => {
                        clocks.back(&[Hand::Wall], by);
                        "back"
                    }
                    false => {
                        clocks.forward(&[Hand::Wall], by);
                        "forward"
                    }
                };
                let target = format!("server {server}, set {way} by {by:?}");
                let fault = self.fault(step.kind, target);
                Fault {
                    // Leases end too late, or too soon.
                    away: step.otherwise,
                    forgotten: (!step.otherwise).then_some(Keys::All),
                    ..fault
                }
            }
        };
        let lasts_on = if fault.away { by } else { Duration::ZERO };
        let until = clock::now() + lasts_on.as_nanos() as u64;
        self.faults.push(Fault {
            from,
            until,
            ..fault
        });
    }

    fn change(&mut self, step: &Step) {
        let (On::Key(key), Some(server)) = (step.on, self.server_of(step.on)) else {
            return;
        };
        let mut fault = self.fault(step.kind, format!("key {key} on server {server}"));
        self.excuse(&mut fault, step, server);
        match step.kind {
            Kind::Failover => {
                if self.ground.fail_over(key) {
                    fault.away = true;
                    self.later(fault, step.lasts, Cure::Settle);
                }
            }
            _ => {
                if let Some(slot) = self.ground.begin_move(key) {
                    self.later(fault, step.lasts, Cure::EndMove(slot));
                }
            }
        }
    }

    /// None if it is in trouble already, or the others are.
    fn server_of(&mut self, on: On) -> Option<usize> {
        let server = match on {
            On::Server(server) => server,
            On::Serving(key) | On::Door(key) | On::Key(key) => self.ground.serving(key)?,
            On::Seat(_) | On::Link(..) => unreachable!("{on:?} is no server"),
        };
        // Two at a time would be one too many for those who choose.
        let is_chosen = |it: &UnderWay| it.fault.kind == Kind::Failover;
        if self.under_way.iter().any(is_chosen) {
            return None;
        }
        let gone = self.under_way.iter().filter_map(|it| it.cure.server());
        let gone: Vec<_> = gone.collect();
        let may_be = !gone.contains(&server) && gone.len() < self.ground.rules().away;
        (may_be && self.ground.may_begin()).then_some(server)
    }

    /// What cannot be had, or may be forgotten, because of that.
    fn excuse(&mut self, fault: &mut Fault, step: &Step, server: usize) {
        if step.kind.silences() || matches!(step.kind, Kind::ReplyLost | Kind::ClientsKilled) {
            let now = Instant::now();
            self.trouble.retain(|(_, until)| *until > now);
            self.trouble.push((server, now + step.lasts + NOTICED));
            let mut servers: Vec<_> = self.trouble.iter().map(|(server, _)| *server).collect();
            servers.sort_unstable();
            servers.dedup();
            fault.away = servers.len() >= self.ground.rules().needed;
        }
        if self.ground.forgets_by(step.kind, server) {
            fault.forgotten = Some(Keys::All);
        }
    }
}

impl Cure {
    /// Which server is not there before it.
    fn server(self) -> Option<usize> {
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

fn break_network(proxy: &Proxy, step: &Step) {
    match step.kind {
        Kind::ConnectionsCut => proxy.cut(),
        Kind::Delayed => proxy.delay(step.lasts / 20),
        Kind::RequestsHeld => proxy.hold_requests(),
        Kind::RepliesHeld => proxy.hold_replies(),
        Kind::BlackHole => proxy.black_hole(),
        Kind::Stranded => proxy.strand(),
        Kind::ReplyLost => proxy.lose_next_reply(),
        Kind::MessagesLost => proxy.lose_messages(100),
        kind => unreachable!("{kind:?} is not of the network"),
    }
}
