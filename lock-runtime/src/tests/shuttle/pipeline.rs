//! The requests of one connection: callers submit and leave them while the driver writes them and reads the
//! replies, and while the connection ends.

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor};
use crate::engine::redis::conn::batch::SplitThreshold;
use crate::engine::redis::conn::batch::effects::Effects;
use crate::engine::redis::conn::batch::slab::Outcome;
use crate::engine::redis::conn::batch::tests::{Ends, Log, Store, attempt, command_of};
use crate::engine::redis::conn::pipeline::Pipeline;
use crate::engine::redis::conn::request::{Content, Envelope, Via};
use crate::engine::request::Claim;
use crate::engine::token::{Draw, Token};
use crate::tests::shuttle::explore::{coin_flip, explore, join_all, pause, with_turn_limit};
use crate::util::shuttle::virtual_time::sleep_until;
use crate::util::time::{deadline_in, now};
use redis::Value;
use shuttle::future::{JoinHandle, spawn};
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

/// The longest time until the background releases have ended.
const MOMENT: Duration = Duration::from_millis(100);

struct Connection {
    pipeline: Pipeline,
    store: Mutex<Store>,
    ends: Arc<Ends>,
    /// The claims that a caller knows to hold.
    held: Mutex<Vec<Token>>,
}

impl Connection {
    fn start() -> Arc<Connection> {
        let connection = Arc::new(Connection {
            pipeline: Pipeline::default(),
            store: Mutex::default(),
            ends: Arc::default(),
            held: Mutex::default(),
        });
        connection.pipeline.slots().split_at = SplitThreshold(2);
        let driven = connection.clone();
        crate::util::shuttle::execution::spawn(async move { driven.drive().await });
        connection
    }

    /// Writes requests, executes them, and reports their replies.
    async fn drive(&self) {
        loop {
            let mut log = Log::default();
            poll_fn(|context| {
                self.pipeline.set_driver(context.waker().clone());
                let mut slots = self.pipeline.slots();
                let draws: Vec<_> = (0..slots.unsent_acquisitions())
                    .map(|_| Draw::now())
                    .collect();
                slots.write(draws, &mut log, now);
                match log.0.is_empty() {
                    true => Poll::Pending,
                    false => Poll::Ready(()),
                }
            })
            .await;
            while let Some(request) = log.0.pop_front() {
                pause().await;
                let reply = self.store.lock().unwrap().execute(request);
                pause().await;
                let mut effects = Effects::default();
                let mut slots = self.pipeline.slots();
                if slots.has_ended() {
                    return;
                }
                slots.take_reply(reply, now(), &mut effects).unwrap();
                drop(slots);
                effects.perform();
            }
        }
    }

    /// Acquires a lock, and releases it in the background. Leaves after at most `most` turns, if that is
    /// given.
    fn take(self: &Arc<Self>, name: &'static str, most: Option<usize>) -> JoinHandle<()> {
        let this = self.clone();
        spawn(async move {
            let supervisor: Arc<dyn ReleaseSupervisor> = this.ends.clone();
            let deadline = deadline_in(Duration::from_secs(5));
            let attempt = attempt(name);
            let envelope = Envelope {
                supervisor: Some(&supervisor),
                ..Content::Acquire(&attempt).by(Via::Runtime, deadline)
            };
            let ticket = this.pipeline.submit(&envelope);
            let outcome = match most {
                Some(most) => with_turn_limit(most, ticket).await,
                None => Some(ticket.await),
            };
            let Some(Outcome::Reply(Value::Okay, Some(token))) = outcome else {
                return;
            };
            this.held.lock().unwrap().push(token);
            pause().await;
            let claim = Claim {
                name: name.into(),
                token,
                ttl: Duration::from_secs(30),
                replicas: 0,
            };
            if this.pipeline.slots().has_ended() && coin_flip() {
                return;
            }
            let release = BackgroundRelease::new(claim, true, supervisor.clone());
            if let Err(release) = this.pipeline.release_in_background(release) {
                release.hand_over(false);
            }
        })
    }

    /// Sends a command, and checks that the reply is its own.
    fn ask(self: &Arc<Self>, packed: &'static [u8]) -> JoinHandle<()> {
        let this = self.clone();
        spawn(async move {
            let deadline = deadline_in(Duration::from_secs(5));
            let command = command_of(packed);
            let envelope = Content::Command(&command).by(Via::Runtime, deadline);
            match this.pipeline.submit(&envelope).await {
                Outcome::Reply(reply, None) => {
                    assert_eq!(reply, Value::BulkString(packed.to_vec()));
                }
                outcome => assert!(this.pipeline.slots().has_ended(), "{outcome:?}"),
            }
        })
    }

    /// Waits until every background release has ended.
    async fn settle(&self) {
        let settled = || {
            let ends = &self.ends;
            let unconfirmed = ends.unconfirmed.lock().unwrap().len();
            *ends.begun.lock().unwrap() == ends.confirmed.lock().unwrap().len() + unconfirmed
        };
        while !settled() {
            sleep_until(now() + Duration::from_millis(1)).await;
        }
    }

    fn assert_nothing_lost(&self) {
        let in_use = self.pipeline.slots().in_use();
        assert_eq!(in_use, 0, "a slot is still in use");
        // Another task may run at any lock of the library, but not while these are locked.
        let store = self.store.lock().unwrap();
        let (held, unconfirmed) = (
            self.held.lock().unwrap(),
            self.ends.unconfirmed.lock().unwrap(),
        );
        for token in store.locks.values() {
            let known = held.contains(token) || unconfirmed.contains(token);
            assert!(known, "a lock is left behind");
        }
    }
}

#[test]
fn callers_that_come_and_leave_lose_nothing() {
    explore(MOMENT, || async {
        let connection = Connection::start();
        let works = [
            connection.take("a", None),
            connection.take("a", Some(3)),
            connection.take("b", Some(6)),
            connection.ask(b"1"),
            connection.ask(b"2"),
        ];
        join_all(works).await;
        connection.settle().await;
        connection.assert_nothing_lost();
        assert!(connection.store.lock().unwrap().locks.is_empty());
        assert!(connection.ends.unconfirmed.lock().unwrap().is_empty());
    });
}

#[test]
fn connection_that_ends_loses_nothing() {
    explore(MOMENT, || async {
        let connection = Connection::start();
        let ended = connection.clone();
        let ends = spawn(async move {
            for _ in 0..4 {
                pause().await;
            }
            ended.pipeline.end();
        });
        let works = [
            connection.take("a", None),
            connection.take("b", Some(3)),
            connection.ask(b"1"),
            ends,
        ];
        join_all(works).await;
        connection.settle().await;
        connection.assert_nothing_lost();
    });
}

/// A driver that looks for requests at the wrong moment would leave one unsent, and its caller would wait
/// forever.
#[test]
fn every_request_wakes_a_driver_that_sleeps() {
    explore(Duration::ZERO, || async {
        let connection = Connection::start();
        for packed in [b"1", b"2"] {
            join_all([connection.ask(packed), connection.ask(b"3")]).await;
        }
    });
}
