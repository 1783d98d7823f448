//! Begins the faults.

use std::time::Duration;

use super::Nemesis;
use super::command::{Command, ask};
use super::cure::Cure;
use crate::clock;
use crate::fault::{Fault, Keys, Kind, Sphere};
use crate::ground::Links;
use crate::plan::{On, Step};
use crate::support::clocks::Hand;
use crate::support::proxy::Proxy;
use crate::support::time::millis;

/// How long replicas receive nothing before their master is killed.
const BEHIND: Duration = millis(300);

impl Nemesis<'_> {
    pub fn begin(&mut self, step: &Step) {
        match step.kind.sphere() {
            Sphere::Process => self.befall_process(step),
            Sphere::Server => self.befall_server(step),
            Sphere::Network => self.befall_network(step),
            Sphere::Command => self.command(step),
            Sphere::Topology => self.change(step),
            Sphere::Clock => self.step_clock(step),
        }
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

    pub fn kill(&mut self, server: usize, kind: Kind) -> Cure {
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
        let server = match step.kind.silences() {
            true => self.server_of(step.on),
            false => self.present(step.on),
        };
        let Some(server) = server else {
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
        let user = self.ground.rules().user();
        self.asked
            .push(ask(socket, Command::of(step, key, user), fault));
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
                    // A clock set back ends leases too late, one set forward too soon.
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
}

fn break_network(proxy: &Proxy, step: &Step) {
    match step.kind {
        Kind::ConnectionsCut => proxy.cut(),
        Kind::Delayed => proxy.delay(step.lasts / 20),
        Kind::RequestsDelayed => proxy.delay_requests(step.lasts / 10),
        Kind::RepliesDelayed => proxy.delay_replies(step.lasts / 10),
        Kind::RequestsHeld => proxy.hold_requests(),
        Kind::RepliesHeld => proxy.hold_replies(),
        Kind::BlackHole => proxy.black_hole(),
        Kind::Stranded => proxy.strand(),
        Kind::ReplyLost => proxy.lose_next_reply(),
        Kind::MessagesLost => proxy.lose_messages(100),
        kind => unreachable!("{kind:?} is not a network fault"),
    }
}
