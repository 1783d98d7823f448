//! Compares the embedded engine with the model of a server: whatever the order in which requests of a few
//! processes arrive, replies and state must be the same.

use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::memory::MemoryEngine;
use crate::engine::memory::store::{State, Store};
use crate::engine::request::{Claim, EnqueueReply};
use crate::engine::timeouts::{GRANT_TTL, WAITER_TTL, WAKE_TTL};
use crate::engine::token::Token;
use crate::limit::Limit;
use crate::util::clock::Clock;
use lock_model::scenario::{SCENES, SHARED_SCENES, Step, Trace, all};
use lock_model::server::{self as model, Answer, Command, Place, Rules, Tick, UNLIMITED};
use lock_model::walk::Walk;
use lock_model::world::{Faults, Setting};
use std::collections::HashMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(6220);

/// A grant lasts less than a tick. A waiter lasts four ticks; the little more that it lasts is no longer than
/// a woken waiter does.
fn rules() -> Rules {
    assert!(GRANT_TTL < TICK && 4 * TICK < WAITER_TTL && WAITER_TTL <= 4 * TICK + WAKE_TTL);
    Rules {
        // Queues do not expire, and no request is late.
        stay: 0,
        void: false,
        fence_by_clock: false,
        tombstone: 0,
        ..Rules::default()
    }
}

struct Replay {
    memory: MemoryEngine,
    clock: Clock,
    news: mpsc::Receiver<EngineEvent>,
    claims: HashMap<model::Token, Claim>,
    last_fencing_token: u64,
}

impl Replay {
    fn open() -> Self {
        let clock = Clock::manual();
        let (sender, news) = mpsc::channel();
        let handler: EventHandler = Arc::new(move |events| drop(sender.send(events)));
        Replay {
            memory: MemoryEngine::new(Store::with_clock(clock.clone()), handler),
            clock,
            news,
            claims: HashMap::new(),
            last_fencing_token: 0,
        }
    }

    fn play(&mut self, trace: &Trace) {
        // Equivalent to a new store.
        *self.memory.store.lock().0 = State {
            start: Some(self.clock.now()),
            ..State::default()
        };
        self.claims.clear();
        for (n, step) in trace.steps.iter().enumerate() {
            let so_far = || trace.so_far(n + 1);
            let claim = self.claim(step.token, trace.rules());
            let answer = self.step(&claim, step, trace.rules());
            assert_eq!(answer, step.answer, "{}", so_far());
            let events: Vec<_> = step.published.iter().copied().filter(matters).collect();
            assert_eq!(self.events(), events, "{}", so_far());
            let (state, now) = self.memory.store.lock();
            let held = state.held.get(&claim.name).into_iter().flatten();
            let held = held.filter(|it| !it.left(now).is_zero());
            let reserved = held.clone().any(|it| it.token().is_none());
            assert_eq!(reserved, step.server.is_reserved(), "{}", so_far());
            let mut held: Vec<_> = held
                .filter_map(|it| Some((self.known(it.token()?), ticks(it.left(now)))))
                .collect();
            held.sort();
            let expected = step.server.holders().iter();
            let expected: Vec<_> = expected
                .map(|it| (it.token, it.until - step.server.now))
                .collect();
            assert_eq!(held, expected, "{}", so_far());
            let queue = state.queues.get(&claim.name);
            let queue: Vec<_> = queue
                .into_iter()
                .flatten()
                .map(|waiter| self.known(waiter.token))
                .collect();
            assert_eq!(
                queue,
                step.server.queue().collect::<Vec<_>>(),
                "{}",
                so_far()
            );
        }
    }

    fn claim(&mut self, token: model::Token, of: &Rules) -> Claim {
        let limit = match of.limit(token) {
            model::UNLIMITED => Limit::UNLIMITED,
            limit => Limit::permits(limit.into()).expect("it is in range"),
        };
        let fresh = || Claim {
            name: "door".into(),
            token: Token::random().with_limit(limit),
            ttl: u32::from(rules().ttl) * TICK,
            replicas: 0,
        };
        self.claims.entry(token).or_insert_with(fresh).clone()
    }

    fn known(&self, token: Token) -> model::Token {
        let known = self.claims.iter().find(|(_, claim)| claim.token == token);
        *known.expect("it has asked").0
    }

    fn step(&mut self, claim: &Claim, step: &Step, rules: &Rules) -> Answer {
        let (memory, expected) = (&self.memory, step.answer);
        match step.command {
            Command::Take => Answer::Was(memory.acquire(claim)),
            Command::Wait(_) => match memory.enqueue(claim) {
                EnqueueReply::Granted(left) => Answer::Granted(ticks(left)),
                EnqueueReply::AlreadyHeld(left) => Answer::Adopted(ticks(left)),
                EnqueueReply::Queued(waiting) => {
                    let Answer::Waiting(Place { length, .. }) = expected else {
                        panic!("{expected:?}, but it waits: {waiting:?}");
                    };
                    assert_eq!(waiting.has_others, length > 1);
                    Answer::Waiting(Place {
                        at: step.server.now,
                        left: ticks(waiting.holder_ttl),
                        ahead: waiting.position as u8,
                        length,
                    })
                }
                other => panic!("{other:?} instead of {expected:?}"),
            },
            Command::Renew => Answer::Was(memory.renew(claim)),
            Command::Fence => {
                let token = memory.fencing_token(claim);
                if let Some(token) = token {
                    assert!(token > self.last_fencing_token);
                }
                Answer::Fence(token.map(|token| token as u16))
            }
            Command::Release => Answer::Was(memory.release(claim)),
            Command::Cancel | Command::CancelWithTombstone => Answer::Was(memory.cancel(claim)),
            Command::Expire => {
                let mut state = memory.store.lock().0;
                let now = self.clock.now();
                let held = state.is_found(&claim.name, now);
                state.held.clear();
                Answer::Was(held)
            }
            Command::Pass(ticks) => {
                let time = u32::from(ticks) * TICK;
                self.clock.advance(time, time);
                Answer::Was(true)
            }
            Command::Downgrade => {
                let next = model::Token(step.token.0 + 1);
                let to = self.claim(next, rules).token;
                match self.memory.downgrade(claim, to) {
                    Some(left) => Answer::Adopted(ticks(left)),
                    None => Answer::Was(false),
                }
            }
            Command::Disconnect => panic!("no process dies by itself here"),
        }
    }

    fn events(&self) -> Vec<model::News> {
        let events = self.news.try_iter().filter_map(|news| {
            Some(match news {
                EngineEvent::Granted(grant) => model::News::Grant {
                    to: self.known(grant.token),
                    at: (grant.server_time.0.as_millis() / TICK.as_millis()) as Tick + 1,
                    lease: ticks(grant.lease),
                },
                EngineEvent::AtFront(token) => model::News::First(self.known(token)),
                EngineEvent::MoreWaiters(token) => model::News::Others(self.known(token)),
                EngineEvent::MayBeFree(token) => model::News::Free(self.known(token)),
                _ => return None,
            })
        });
        events.filter(matters).collect()
    }
}

/// Returns `false` for an event that this engine reports more often than the model does.
fn matters(news: &model::News) -> bool {
    !matches!(news, model::News::First(_))
}

fn ticks(time: Duration) -> Tick {
    time.as_nanos().div_ceil(TICK.as_nanos()) as Tick
}

#[test]
fn scenes() {
    let mut replay = Replay::open();
    for scene in SCENES {
        scene.play(rules(), |trace| replay.play(&trace));
    }
    for scene in SHARED_SCENES {
        scene.play(scene.rules(rules()), |trace| replay.play(&trace));
    }
}

#[test]
fn every_request_sequence_of_three_claims() {
    let mut replay = Replay::open();
    for limits in [[1, 1, 1], [UNLIMITED, 1, UNLIMITED], [2, 3, UNLIMITED]] {
        let setting = Setting {
            rules: rules(),
            ..Setting::default()
        };
        let rules = setting.with_limits(&limits).rules;
        let traces = all(3, 4, rules, &mut |trace| replay.play(&trace));
        assert_eq!(traces, 41_091);
    }
}

#[test]
fn client_requests_under_many_faults() {
    let faults = Faults {
        lost: 2,
        slow: 3,
        cancel: 2,
        pause: 1,
        renew: 3,
        fence: 2,
        ..Faults::NONE
    };
    let mut setting = Setting::new(4, 14, faults);
    setting.bounds.holds = 2;
    setting.rules = rules();
    let mut replay = Replay::open();
    for limits in [[1; 4], [UNLIMITED, 1, UNLIMITED, 2], [2, 2, 3, 1]] {
        for trace in Walk::new(setting.with_limits(&limits), 2).take(2000) {
            replay.play(&trace);
        }
    }
}
