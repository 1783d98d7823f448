//! Begins the faults.

use std::thread;
use std::time::Duration;

use super::Nemesis;
use super::command::{Command, ask};
use super::recover::Recovery;
use crate::clock;
use crate::deployment::Links;
use crate::fault::{Fault, FaultTarget, Keys, Kind};
use crate::plan::{Step, Target};
use crate::revocation::Demand;
use lock_test_support::clocks::Clock;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::millis;

/// How long replicas receive nothing before their master is killed.
const BEHIND: Duration = millis(300);

impl Nemesis<'_> {
    pub fn begin(&mut self, step: &Step) {
        match step.kind.target() {
            FaultTarget::Process => self.inject_into_process(step),
            FaultTarget::Server => self.inject_into_server(step),
            FaultTarget::Network => self.inject_into_network(step),
            FaultTarget::Command => self.command(step),
            FaultTarget::Topology => self.change(step),
            FaultTarget::Clock => self.step_clock(step),
            FaultTarget::Database => self.disturb(step),
            FaultTarget::Holder => self.revoke(step),
        }
    }

    fn inject_into_process(&mut self, step: &Step) {
        let Target::Process(process) = step.on else {
            unreachable!("{step:?}")
        };
        let workers = self.pool.workers(process);
        let mut fault = self.fault(step.kind, format!("workers {workers:?}"));
        fault.workers = workers;
        match step.kind {
            Kind::WorkerKilled => self.pool.kill(process),
            Kind::RuntimeDropped => self.pool.drop_runtime(process),
            Kind::WorkerEnded => self.leave(process),
            _ => {
                self.pool.pause(process, self.deployment.servers());
                return self.later(fault, step.lasts, Recovery::Resume(process));
            }
        }
        fault.until = clock::now();
        self.faults.push(fault);
        if matches!(step.kind, Kind::WorkerKilled | Kind::WorkerEnded) {
            self.pool.replace(process);
        }
    }

    /// Ends a process in an ordinary way. If it was the only one, no lock may be left.
    fn leave(&mut self, process: usize) {
        self.pool.leave(process);
        let limits = self.deployment.limits();
        if limits.processes == 1 && self.under_way.is_empty() {
            let left = self.deployment.servers().leftovers().into_iter();
            let words = |key| format!("`{key}` when its process had ended in an ordinary way");
            self.left.extend(left.map(words));
        }
    }

    fn inject_into_server(&mut self, step: &Step) {
        let Some(server) = self.server_of(step.on) else {
            return;
        };
        let mut fault = self.fault(step.kind, format!("server {server}"));
        self.excuse(&mut fault, step, server);
        let recovery = match step.kind {
            Kind::ServerStopped => {
                self.deployment.servers_mut().pause(server);
                Recovery::Wake(server)
            }
            Kind::ServerParted => {
                self.deployment.servers_mut().part(server);
                Recovery::Rejoin(server)
            }
            kind if step.otherwise && self.deployment.limits().changes => {
                if let Some(proxy) = self.deployment.proxy(0, server) {
                    proxy.hold_copies();
                }
                fault.target += ", its replicas behind";
                let lasts = step.lasts;
                Recovery::Kill {
                    server,
                    kind,
                    lasts,
                }
            }
            kind => self.kill(server, kind),
        };
        let lasts = match recovery {
            Recovery::Kill { .. } => BEHIND,
            _ => step.lasts,
        };
        self.later(fault, lasts, recovery);
    }

    pub fn kill(&mut self, server: usize, kind: Kind) -> Recovery {
        self.deployment.servers_mut().kill(server);
        self.deployment.killed(server);
        match kind {
            Kind::ServerForgot => Recovery::StartEmpty(server),
            _ => Recovery::Start(server),
        }
    }

    fn inject_into_network(&mut self, step: &Step) {
        let (process, server) = match step.on {
            Target::Link(process, server) => (process, server),
            on => match self.server_of(on) {
                Some(server) => (0, server),
                None => return,
            },
        };
        let alone = self.deployment.limits().links == Links::OfWorkers;
        let workers = match alone {
            true => self.pool.workers(process),
            false => Vec::new(),
        };
        let target = match alone {
            true => format!("between workers {workers:?} and server {server}"),
            false => format!("between all and server {server}"),
        };
        let mut fault = self.fault(step.kind, target);
        fault.workers = workers;
        self.excuse(&mut fault, step, server);
        let Some(proxy) = self.deployment.proxy(process, server) else {
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
            Recovery::Mend {
                process,
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
            Target::Key(key) => key,
            _ => 0,
        };
        let target = match step.on {
            Target::Key(key) => format!("key {key} on server {server}"),
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
        if let Some(delete) = self.deployment.deletion(step.kind, key, server) {
            self.called.push(thread::spawn(move || {
                fault.from = clock::now();
                let deleted = delete();
                fault.until = clock::now();
                deleted.then_some(fault)
            }));
            return;
        }
        let Some(redis) = self.deployment.servers().redis().get(server) else {
            return;
        };
        let socket = redis.socket();
        let user = self.deployment.limits().user();
        self.called
            .push(ask(socket, Command::of(step, key, user), fault));
    }

    fn disturb(&mut self, step: &Step) {
        let Some(server) = self.server_of(step.on) else {
            return;
        };
        let mut fault = self.fault(step.kind, format!("server {server}"));
        self.excuse(&mut fault, step, server);
        self.deployment.disturb(step.kind);
        self.later(fault, step.lasts, Recovery::Calm(step.kind));
    }

    /// Has a process revoke the lock, and record what became of it.
    fn revoke(&mut self, step: &Step) {
        let (key, elsewhere) = match step.on {
            Target::Holder(key) => (key, false),
            Target::HolderElsewhere(key) => (key, true),
            _ => unreachable!("{step:?}"),
        };
        let at = step.at.as_millis() as u64;
        let demand = Demand {
            key,
            elsewhere,
            force: step.kind == Kind::Force,
            grace_ms: step.lasts.as_millis() as u64,
            seed: at,
        };
        let processes = self.deployment.limits().processes as u64;
        self.pool.revoke((at % processes) as usize, &demand);
    }

    fn step_clock(&mut self, step: &Step) {
        let (from, by) = (clock::now(), step.lasts);
        let fault = match step.on {
            Target::Process(process) => {
                let workers = self.pool.workers(process);
                let target = format!("workers {workers:?}, asleep for {by:?}");
                self.pool.sleep(process, by);
                let fault = self.fault(step.kind, target);
                Fault { workers, ..fault }
            }
            on => {
                let Some(server) = self.server_of(on) else {
                    return;
                };
                let Some(clocks) = self.deployment.servers().clocks(server) else {
                    return;
                };
                let kind = match step.otherwise {
                    true => {
                        clocks.back(&[Clock::Wall], by);
                        "back"
                    }
                    false => {
                        clocks.forward(&[Clock::Wall], by);
                        "forward"
                    }
                };
                let target = format!("server {server}, set {kind} by {by:?}");
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
        let (Target::Key(key), Some(server)) = (step.on, self.server_of(step.on)) else {
            return;
        };
        let mut fault = self.fault(step.kind, format!("key {key} on server {server}"));
        self.excuse(&mut fault, step, server);
        match step.kind {
            Kind::Failover => {
                if self.deployment.fail_over(key) {
                    fault.away = true;
                    self.later(fault, step.lasts, Recovery::Settle);
                }
            }
            _ => {
                if let Some(slot) = self.deployment.begin_move(key) {
                    self.later(fault, step.lasts, Recovery::EndMove(slot));
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
