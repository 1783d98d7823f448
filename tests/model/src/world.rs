//! A few clients, a server and the network between them, with all possible next events.

use crate::client::{Client, Phase, Turn};
use crate::client_rules::ClientRules;
use crate::network::{Message, Network, What};
use crate::server::{Answer, Command, News, PROCESSES, Rules, Server, Tick, Token, UNLIMITED};
use std::fmt;
use std::hash::{Hash, Hasher};

/// The bounds of the search and of the faults.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub clients: usize,
    pub ticks: Tick,
    /// How often each client wants the lock.
    pub holds: u8,
    pub faults: Faults,
    /// A crash of a process goes unnoticed.
    pub half_open: bool,
    /// Only clients crash that are in the queue and have no request under way.
    pub waiters_crash: bool,
    /// The shortest time between the last write that a failover loses and the failover.
    pub failover: Tick,
    /// The replica has all data.
    pub synchronous: bool,
    /// How far ahead the replica's clock is.
    pub ahead: i8,
    /// Messages to clients are not delivered before all other events.
    pub every_order: bool,
}

/// The largest number of each fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Faults {
    pub lost: u8,
    pub slow: u8,
    pub crash: u8,
    pub cancel: u8,
    pub pause: u8,
    /// A client's clock misses a tick.
    pub drift: u8,
    pub failover: u8,
    /// Not faults, but requests of a holder.
    pub renew: u8,
    pub fence: u8,
    pub downgrade: u8,
}

impl Faults {
    pub const NONE: Faults = Faults {
        lost: 0,
        slow: 0,
        crash: 0,
        cancel: 0,
        pause: 0,
        drift: 0,
        failover: 0,
        renew: 0,
        fence: 0,
        downgrade: 0,
    };
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            clients: 2,
            ticks: 10,
            holds: 1,
            faults: Faults::NONE,
            half_open: false,
            waiters_crash: false,
            failover: 1,
            synchronous: false,
            ahead: 0,
            every_order: false,
        }
    }
}

/// The bounds, and the rules of the clients and the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setting {
    pub bounds: Bounds,
    pub rules: Rules,
    pub conduct: ClientRules,
}

impl Setting {
    /// The protocol.
    pub fn new(clients: usize, ticks: Tick, faults: Faults) -> Self {
        let mut setting = Setting::default();
        setting.bounds.clients = clients;
        setting.bounds.ticks = ticks;
        setting.bounds.faults = faults;
        setting
    }

    /// Gives the clients these limits.
    pub fn with_limits(mut self, limits: &[u8]) -> Self {
        for (process, limit) in limits.iter().enumerate() {
            self.rules.limits[process].fill(*limit);
        }
        self
    }
}

/// For how many consecutive ticks a condition has lasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Times {
    /// A client waits, and none counts on the lock.
    pub stall: u8,
    /// The lock is held by a token that no client wants.
    pub orphan: u8,
    /// The holder waits for the lock.
    pub unaware: u8,
    /// A token that no client wants counts as alive in the queue.
    pub ghost: u8,
    /// The holder has crashed or is paused.
    pub kept: u8,
    /// The first client in the queue that waits could hold the lock, and does not.
    pub idle: u8,
    /// The second, third and fifth, for each process.
    each: [[u8; PROCESSES]; 3],
}

impl Times {
    pub fn all(self) -> [u8; 6] {
        [
            self.stall,
            self.orphan,
            self.unaware,
            self.ghost,
            self.kept,
            self.idle,
        ]
    }
}

#[derive(Clone, Copy)]
pub struct World {
    pub now: Tick,
    pub server: Server,
    /// The state of the replica, and the time of the server's last write that it lacks.
    replica: Server,
    written: Tick,
    clients: [Client; PROCESSES],
    network: Network,
    faults: Faults,
    pub times: Times,
    /// The greatest fencing token that a client that counts on the lock received, and the greatest of an
    /// exclusive holder; and whether one was not greater.
    fence: u16,
    exclusive_fence: u16,
    fence_fell: bool,
    overtaken: bool,
    undead: bool,
}

/// One event.
#[derive(Clone, Copy, PartialEq)]
pub enum Event {
    Start(usize),
    GiveUp(usize),
    Release(usize),
    Renew(usize),
    Fence(usize),
    Downgrade(usize),
    Due(usize),
    Crash(usize),
    /// The messages that it was about to send are lost.
    CrashSilently(usize),
    Pause(usize),
    Resume(usize),
    /// The server carries out the request.
    Serve(Message, Command),
    Hear(Message),
    Lose(Message),
    Delay(Message),
    Tick,
    TickMissed(usize),
    Replicate,
    Failover,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |n: usize| char::from(b'a' + n as u8);
        match *self {
            Event::Start(n) => write!(f, "{} wants the lock", name(n)),
            Event::GiveUp(n) => write!(f, "{} gives up", name(n)),
            Event::Release(n) => write!(f, "{} releases", name(n)),
            Event::Renew(n) => write!(f, "{} renews", name(n)),
            Event::Fence(n) => write!(f, "{} asks for a fencing token", name(n)),
            Event::Downgrade(n) => write!(f, "{} downgrades", name(n)),
            Event::Due(n) => write!(f, "{}'s time has come", name(n)),
            Event::Crash(n) => write!(f, "{} crashes", name(n)),
            Event::CrashSilently(n) => {
                write!(f, "{} crashes, and nothing of it is in flight", name(n))
            }
            Event::Pause(n) => write!(f, "{} is paused", name(n)),
            Event::Resume(n) => write!(f, "{} resumes", name(n)),
            Event::Serve(message, _) => write!(f, "the server: {message:?}"),
            Event::Hear(message) => {
                write!(f, "{} hears: {message:?}", name(message.token.process()))
            }
            Event::Lose(message) => write!(f, "LOST: {message:?}"),
            Event::Delay(message) => write!(f, "SLOW: {message:?}"),
            Event::Tick => write!(f, "a tick"),
            Event::TickMissed(n) => write!(f, "a tick, that {}'s clock misses", name(n)),
            Event::Replicate => write!(f, "the replica knows it all"),
            Event::Failover => write!(f, "FAILOVER"),
        }
    }
}

/// States that must never be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Violation {
    /// More clients count on the lock than the limit of one of them.
    TooManyHolders,
    /// A client counts on the lock, but is no holder on the server.
    NotTheHolder,
    /// A client that counts on the lock is the holder again, but was not in between.
    Interrupted,
    /// A fencing token is not greater than all before it.
    FenceFell,
    /// A waiter acquired the lock before another that came first.
    Overtaken,
    /// A request was carried out although it was repeated too long ago.
    ResurrectedWaiter,
}

/// A state without the parts that make no difference.
#[derive(PartialEq, Eq, Hash)]
struct Essence<'a>(
    (Tick, Server, Option<(Server, Tick)>),
    &'a [Client],
    &'a [Message],
    (Faults, Times, [u16; 2], [bool; 3]),
);

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let fails_over = self.faults.failover > 0;
        let replica = fails_over.then_some((self.replica, self.written));
        let server = (self.now, self.server, replica);
        let fallen = [self.fence_fell, self.overtaken, self.undead];
        let fences = [self.fence, self.exclusive_fence];
        let ghosts = (self.faults, self.times, fences, fallen);
        Essence(server, &self.clients, self.network.all(), ghosts).hash(state);
    }
}

impl World {
    pub fn new(setting: &Setting) -> Self {
        let wishes = setting.bounds.holds - 1;
        World {
            now: 1,
            server: Server::default(),
            replica: Server::default(),
            written: 0,
            clients: std::array::from_fn(|process| Client::new(process, wishes)),
            network: Network::default(),
            faults: setting.bounds.faults,
            times: Times::default(),
            fence: 0,
            exclusive_fence: 0,
            fence_fell: false,
            overtaken: false,
            undead: false,
        }
    }

    /// Returns all violations of this state.
    pub fn violations(&self, setting: &Setting) -> impl Iterator<Item = Violation> + use<> {
        let fence = self.fence_fell.then_some(Violation::FenceFell);
        let order = self.overtaken.then_some(Violation::Overtaken);
        let late = self.undead.then_some(Violation::ResurrectedWaiter);
        let [two, belief] = self.beliefs(setting);
        [two, belief, fence, order, late].into_iter().flatten()
    }

    fn beliefs(&self, setting: &Setting) -> [Option<Violation>; 2] {
        let clients = &self.clients[..setting.bounds.clients];
        let believers = || clients.iter().filter(|client| client.believes(self.now));
        // While a downgrade is unanswered, the server may store either token.
        let next = |client: &Client| {
            let token = client.token(&setting.conduct);
            client.downgrading.map(|_| Token(token.0 + 1))
        };
        let limit = |client: &Client| {
            let token = client.token(&setting.conduct);
            setting.rules.limit(next(client).unwrap_or(token))
        };
        let lowest = believers().map(limit).min().unwrap_or(UNLIMITED);
        let too_many = believers().count() > lowest.into();
        let wrong = believers().find_map(|believer| {
            if next(believer).is_some_and(|next| self.server.hold_of(next).is_some()) {
                return None;
            }
            match self.server.hold_of(believer.token(&setting.conduct)) {
                None => Some(Violation::NotTheHolder),
                Some(hold) => (hold.tenure != believer.tenure).then_some(Violation::Interrupted),
            }
        });
        [too_many.then_some(Violation::TooManyHolders), wrong]
    }

    /// Visits all possible next events.
    pub fn next(&self, setting: &Setting, visit: &mut dyn FnMut(Event, World)) {
        let next = Next {
            world: self,
            setting,
        };
        // The reaction to a message does not depend on the server or the other clients, so it comes first.
        let first = match setting.bounds.every_order {
            true => None,
            false => next.heard_first(),
        };
        next.messages(first, visit);
        let mut due = false;
        for n in 0..setting.bounds.clients {
            if first.is_none_or(|first| first == n) {
                due |= next.client(n, visit);
            }
        }
        if first.is_some() {
            return;
        }
        next.replica(visit);
        if !due && !next.anything_is_on_its_way() && self.now < setting.bounds.ticks {
            next.tick(visit);
        }
    }
}

/// The possible next events.
struct Next<'a> {
    world: &'a World,
    setting: &'a Setting,
}

type Visit<'a> = &'a mut dyn FnMut(Event, World);

impl Next<'_> {
    fn comes(&self, message: &Message) -> bool {
        message.is_request() || self.world.clients[message.token.process()].listens(message)
    }

    fn heard_first(&self) -> Option<usize> {
        let messages = self.world.network.all().iter();
        let heard = messages.filter(|it| !it.is_request() && !it.slow && self.comes(it));
        heard.map(|it| it.token.process()).min()
    }

    fn anything_is_on_its_way(&self) -> bool {
        let mut messages = self.world.network.all().iter();
        messages.any(|message| !message.slow && self.comes(message))
    }

    fn messages(&self, first: Option<usize>, visit: Visit) {
        let messages = self.world.network.all();
        for (n, message) in messages.iter().enumerate() {
            let process = message.token.process();
            if first.is_some_and(|first| message.is_request() || process != first)
                || messages[..n].contains(message) && !message.is_request()
            {
                continue;
            }
            if let What::Request(command) = message.what {
                self.serve(n, *message, command, visit);
            } else if self.comes(message) {
                let mut world = *self.world;
                world.network.remove(n);
                self.turn(&mut world, process, |turn| turn.hear(*message));
                visit(Event::Hear(*message), world);
            }
            if !message.slow && self.world.faults.lost > 0 {
                let mut world = *self.world;
                world.network.remove(n);
                world.faults.lost -= 1;
                visit(Event::Lose(*message), world);
            }
            if !message.slow && self.world.faults.slow > 0 {
                let mut world = *self.world;
                world.network.slow(n);
                world.faults.slow -= 1;
                visit(Event::Delay(*message), world);
            }
        }
    }

    fn serve(&self, n: usize, message: Message, command: Command, visit: Visit) {
        let mut world = *self.world;
        let process = message.token.process();
        let before = self.world.network.all()[..n].iter();
        let mut before = before.filter(|it| it.is_request() && it.token.process() == process);
        if self.setting.conduct.in_order {
            if before.any(|it| !it.slow) {
                return;
            }
            // Requests that are still in flight were sent on a connection that has been given up.
            world.network = Network::default();
            for (at, other) in self.world.network.all().iter().enumerate() {
                let same = other.is_request() && other.token.process() == process;
                if at > n || at < n && !same {
                    world.network.add(*other);
                }
            }
        } else {
            world.network.remove(n);
        }
        let mut published = Vec::new();
        let rules = &self.setting.rules;
        let answer = world
            .server
            .step(rules, message.token, command, &mut |news| {
                published.push(news)
            });
        let is_late = message.tenure > 0 && world.now > message.sent + rules.alive;
        world.undead |= is_late && answer != Answer::Void;
        for hold in world.server.holders() {
            if hold.tenure > self.world.server.tenure {
                let process = hold.token.process();
                world.times.each.iter_mut().for_each(|row| row[process] = 0);
            }
        }
        world.overtaken |= self.is_overtaken(&world.server, message.token, command);
        if world.server != self.world.server && self.setting.bounds.faults.failover > 0 {
            world.written = world.now;
        }
        let tenure = |server: &Server, token| server.hold_of(token).map_or(0, |it| it.tenure);
        let holder = match command {
            Command::Downgrade => Token(message.token.0 + 1),
            _ => message.token,
        };
        let reply = Message {
            what: What::Reply(command, answer),
            tenure: tenure(&world.server, holder),
            slow: false,
            ..message
        };
        self.post(&mut world, reply);
        for news in published {
            if let News::Grant { .. } | News::Free(_) = news {
                let message = Message {
                    token: news.to(),
                    sent: 0,
                    what: What::News(news),
                    tenure: tenure(&world.server, news.to()),
                    slow: false,
                };
                self.post(&mut world, message);
            }
        }
        visit(Event::Serve(message, command), world);
    }

    /// Returns `true` if a request of the asker lets a token pass a waiter that is alive and listens.
    fn is_overtaken(&self, then: &Server, asker: Token, command: Command) -> bool {
        let before = &self.world.server;
        let leaves = match command {
            Command::Wait(_) => false,
            Command::Release
            | Command::Cancel
            | Command::CancelWithTombstone
            | Command::Downgrade => true,
            // A lock that has been vacant for some time can be taken without the queue.
            Command::Take if !before.holders().is_empty() || before.has_just_ended() => false,
            _ => return false,
        };
        let has_come = |token| {
            let tenure = |server: &Server| server.hold_of(token).map_or(0, |it| it.tenure);
            tenure(then) > tenure(before)
        };
        let own =
            |token: Token| command == Command::Downgrade && token.process() == asker.process();
        let (conduct, faults) = (&self.setting.conduct, self.setting.bounds.faults);
        let late = faults.lost + faults.slow + faults.pause + faults.drift + faults.failover > 0;
        let lives = |token: Token| self.world.clients[token.process()].wants(token, conduct);
        then.holders().iter().any(|holder| {
            let newcomer = holder.token;
            let ahead = |token: &Token| *token != newcomer;
            let passed = |token: Token| !(has_come(token) || token == asker && leaves);
            let mut before_it = before.queue().take_while(ahead);
            let is_alive = |token: Token| before.alive().any(|alive| alive == token);
            // A waiter that polls, or replies in time to every message, must not be passed, whatever its
            // entry says.
            let stays = |token: Token| {
                token == asker || is_alive(token) && before.hears(token) || !late && lives(token)
            };
            has_come(newcomer)
                && !own(newcomer)
                && before_it.any(|token| passed(token) && stays(token))
        })
    }

    fn post(&self, world: &mut World, message: Message) {
        if world.clients[message.token.process()].phase != Phase::Dead {
            world.network.add(message);
        }
    }

    /// Visits the client's events. Returns `true` if one of them must come before time passes.
    fn client(&self, n: usize, visit: Visit) -> bool {
        let bounds = &self.setting.bounds;
        let world = self.world;
        let client = &world.clients[n];
        let faults = world.faults;
        let mut can = |event, change: &dyn Fn(&mut World)| {
            let mut world = *self.world;
            change(&mut world);
            visit(event, world);
        };
        if client.phase == Phase::Dead {
            return false;
        }
        if client.paused {
            can(Event::Resume(n), &|world| world.clients[n].paused = false);
            return false;
        }
        match client.phase {
            // Idle clients are interchangeable: one begins after the other.
            Phase::Idle if n == 0 || world.clients[n - 1].phase != Phase::Idle => {
                can(Event::Start(n), &|world| {
                    self.turn(world, n, |turn| turn.start());
                });
            }
            Phase::Acquiring | Phase::Queued if faults.cancel > 0 => {
                can(Event::GiveUp(n), &|world| {
                    world.faults.cancel -= 1;
                    self.turn(world, n, |turn| turn.give_up());
                });
            }
            Phase::Held if client.believes(world.now) => {
                can(Event::Release(n), &|world| {
                    self.turn(world, n, |turn| turn.release());
                });
                let downgrades = client.downgrading.is_some();
                if faults.renew > 0 && !downgrades {
                    can(Event::Renew(n), &|world| {
                        world.faults.renew -= 1;
                        self.turn(world, n, |turn| turn.renew());
                    });
                }
                let shares = self
                    .setting
                    .rules
                    .limit(client.token(&self.setting.conduct))
                    > 1;
                if faults.downgrade > 0 && !shares && !downgrades {
                    can(Event::Downgrade(n), &|world| {
                        world.faults.downgrade -= 1;
                        self.turn(world, n, |turn| turn.downgrade());
                    });
                }
                if faults.fence > 0 && !downgrades {
                    can(Event::Fence(n), &|world| {
                        world.faults.fence -= 1;
                        self.turn(world, n, |turn| turn.fence());
                    });
                }
            }
            Phase::Done if client.wishes > 0 => {
                can(Event::Start(n), &|world| {
                    self.turn(world, n, |turn| turn.again());
                });
            }
            _ => {}
        }
        let is_due = self.turn(&mut { *world }, n, |turn| turn.is_due());
        if is_due {
            can(Event::Due(n), &|world| {
                self.turn(world, n, |turn| turn.due());
            });
        }
        let active = matches!(client.phase, Phase::Queued | Phase::Held);
        if active && faults.pause > 0 {
            can(Event::Pause(n), &|world| {
                world.faults.pause -= 1;
                world.clients[n].paused = true;
            });
        }
        let token = client.token(&self.setting.conduct);
        let mut requests = world.network.all().iter().filter(|it| it.is_request());
        let requested = requests.any(|it| it.token.process() == n);
        let stands = world.server.queue().any(|it| it == token) && !requested;
        if active && faults.crash > 0 && (!bounds.waiters_crash || stands) {
            can(Event::Crash(n), &|world| self.crash(world, n, false));
            if requested {
                can(Event::CrashSilently(n), &|world| self.crash(world, n, true));
            }
        }
        is_due
    }

    fn crash(&self, world: &mut World, n: usize, mute: bool) {
        world.faults.crash -= 1;
        world.clients[n] = Client::new(n, 0);
        world.clients[n].phase = Phase::Dead;
        world
            .network
            .retain(|it| it.token.process() != n || it.is_request() && !mute);
        if !self.setting.bounds.half_open {
            let token = Token::nth(n, 0).expect("every process has a token");
            let rules = &self.setting.rules;
            world
                .server
                .step(rules, token, Command::Disconnect, &mut |_| {});
        }
    }

    fn turn<T>(&self, world: &mut World, n: usize, act: impl FnOnce(&mut Turn) -> T) -> T {
        let (network, fell) = (&mut world.network, &mut world.fence_fell);
        let (fence, exclusive) = (&mut world.fence, &mut world.exclusive_fence);
        let token = world.clients[n].token(&self.setting.conduct);
        let shares = self.setting.rules.limit(token) > 1;
        act(&mut Turn {
            client: &mut world.clients[n],
            conduct: &self.setting.conduct,
            rules: &self.setting.rules,
            now: world.now,
            send: &mut |message| network.add(message),
            fenced: &mut |token| {
                *fell |= token <= if shares { *exclusive } else { *fence };
                *fence = token.max(*fence);
                if !shares {
                    *exclusive = token.max(*exclusive);
                }
            },
        })
    }

    fn replica(&self, visit: Visit) {
        let bounds = &self.setting.bounds;
        if bounds.faults.failover == 0 {
            return;
        }
        if self.world.replica != self.world.server {
            let mut world = *self.world;
            world.replica = world.server;
            visit(Event::Replicate, world);
        }
        let since = self.world.now - self.world.written;
        if self.world.faults.failover > 0 && since >= bounds.failover {
            let mut world = *self.world;
            world.faults.failover -= 1;
            if !bounds.synchronous {
                world.server = world.replica;
            }
            world
                .server
                .set_clock(world.server.now.saturating_add_signed(bounds.ahead));
            world.replica = world.server;
            visit(Event::Failover, world);
        }
    }

    fn tick(&self, visit: Visit) {
        let mut world = *self.world;
        world.times = self.times();
        world.now += 1;
        let (rules, nobody) = (&self.setting.rules, Token(0));
        for server in [&mut world.server, &mut world.replica] {
            server.step(rules, nobody, Command::Pass(1), &mut |_| {});
        }
        visit(Event::Tick, world);
        if world.faults.drift == 0 {
            return;
        }
        for n in 0..self.setting.bounds.clients {
            if matches!(world.clients[n].phase, Phase::Queued | Phase::Held) {
                let mut world = world;
                world.faults.drift -= 1;
                world.clients[n].lag += 1;
                visit(Event::TickMissed(n), world);
            }
        }
    }

    fn times(&self) -> Times {
        let world = self.world;
        let clients = &world.clients[..self.setting.bounds.clients];
        let of = |token: Token| &clients[token.process()];
        let unwanted = |token: Token| {
            of(token).phase != Phase::Dead && !of(token).wants(token, &self.setting.conduct)
        };
        let count = |before: u8, now: bool| if now { before + 1 } else { 0 };
        let (times, server) = (world.times, &world.server);
        let waits = clients.iter().any(Client::waits);
        let had = clients.iter().any(|client| client.believes(world.now));
        let unaware = |token: Token| of(token).waits() && !unwanted(token);
        let is = |process: usize, what: &dyn Fn(Token) -> bool| {
            let mut tokens = server.holders().iter().map(|holder| holder.token);
            tokens.any(|token| token.process() == process && what(token))
        };
        let next = |row: usize, what: &dyn Fn(Token) -> bool| -> [u8; PROCESSES] {
            std::array::from_fn(|process| count(times.each[row][process], is(process, what)))
        };
        let each = [
            next(0, &unwanted),
            next(1, &unaware),
            next(2, &|token| of(token).is_still()),
        ];
        let most = |row: usize| each[row].into_iter().max().unwrap_or(0);
        let mut alive = server.alive();
        let first = alive.find(|token| unaware(*token));
        let idle = first.is_some_and(|token| server.has_room_for(&self.setting.rules, token));
        Times {
            stall: count(times.stall, waits && !had),
            orphan: most(0),
            unaware: most(1),
            ghost: count(times.ghost, server.alive().any(unwanted)),
            kept: most(2),
            idle: count(times.idle, idle),
            each,
        }
    }
}
