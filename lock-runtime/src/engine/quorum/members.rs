//! The members of a quorum, and what has been asked of them.

use crate::engine::error::{EngineError, Fault};
use crate::engine::member::Member;
use crate::engine::quorum::ballot::Ballot;
use crate::engine::quorum::queue_entry::Place;
use crate::engine::quorum::release_hints::Hints;
use crate::engine::quorum::tally::Tally;
use crate::engine::request::{Answer, Claim};
use crate::engine::retry::Retry;
use crate::engine::token::Token;
use crate::util::io_thread::Io;
use crate::util::time::{after, instant};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) struct Members {
    pub(crate) io: Io,
    pub(crate) all: Vec<Arc<dyn Member>>,
    pub(crate) hints: Arc<Hints>,
    /// How long a member may take to answer at most.
    patience: Duration,
    ballots: Mutex<HashMap<Token, Arc<Ballot>>>,
    places: Mutex<HashMap<Token, Arc<Place>>>,
    /// How many ballots and places are being cleared away.
    clearing: watch::Sender<usize>,
}

impl Members {
    pub(crate) fn new(
        io: Io,
        all: Vec<Arc<dyn Member>>,
        hints: Arc<Hints>,
        patience: Duration,
    ) -> Members {
        Members {
            io,
            all,
            hints,
            patience,
            ballots: Mutex::default(),
            places: Mutex::default(),
            clearing: watch::Sender::new(0),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Until when a member has to answer what is asked for a lock with that ttl: long before it
    /// ends.
    pub(crate) fn patience(&self, ttl: Duration) -> Instant {
        after(self.patience.min(ttl / 10))
    }

    /// Has work done on the I/O thread, to its end even if nobody waits for it any more.
    pub(crate) async fn on_io<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        match self.io.spawn(work).await {
            Ok(done) => done,
            Err(ended) => Err(EngineError::new(Fault::Down, ended)),
        }
    }

    /// Asks again and again until there is an answer that stands, or until then. Each failure is noted.
    pub(crate) async fn persist<'a, T>(
        &self,
        until: Instant,
        question: impl Fn() -> Answer<'a, T>,
        note: impl Fn(&EngineError),
    ) -> Result<T, EngineError> {
        let mut retry = Retry::default();
        loop {
            let error = match question().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let next = instant() + retry.pause_after(&error);
            if next >= until {
                return Err(error);
            }
            note(&error);
            self.io.sleep_until(next).await;
        }
    }

    /// Asks every member at once. A late answer is waited for even if nobody listens any more.
    pub(crate) fn ask<T, F>(
        self: &Arc<Self>,
        question: impl Fn(usize) -> F,
    ) -> UnboundedReceiver<(usize, T)>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (sender, answers) = unbounded_channel();
        for member in 0..self.count() {
            let (question, sender) = (question(member), sender.clone());
            self.io.spawn(async move {
                let answer = question.await;
                let _ = sender.send((member, answer));
            });
        }
        answers
    }

    /// Listens to answers until they decide, or none is missing.
    pub(crate) async fn tally<T>(
        &self,
        mut answers: UnboundedReceiver<(usize, T)>,
        until: Instant,
        mut read: impl FnMut(T) -> Result<bool, EngineError>,
    ) -> Tally {
        let mut tally = Tally::new(self.count());
        while tally.decided().is_none() {
            match self.io.timeout_at(until, answers.recv()).await {
                Ok(Some((member, answer))) => tally.enter(member, read(answer)),
                _ => break,
            }
        }
        tally
    }

    /// Keeps in mind whether a member answers at present.
    pub(crate) fn note<T>(&self, member: usize, answer: &Result<T, EngineError>) {
        let absent = |error: &EngineError| matches!(error.fault, Fault::Down | Fault::Unanswered);
        let present = !answer.as_ref().is_err_and(absent);
        self.hints.is_present(member, present);
    }

    pub(crate) fn enter(&self, token: Token, ballot: &Arc<Ballot>) {
        self.ballots().insert(token, ballot.clone());
    }

    pub(crate) fn ballot(&self, token: Token) -> Option<Arc<Ballot>> {
        self.ballots().get(&token).cloned()
    }

    /// The place of a claim that waits.
    pub(crate) fn place(self: &Arc<Self>, claim: &Claim) -> Arc<Place> {
        let mut places = self.places();
        let place = places.entry(claim.token);
        place
            .or_insert_with(|| Arc::new(Place::new(self, claim)))
            .clone()
    }

    /// A claim waits no more, since it was elected or for another reason. This goes on to its end even
    /// if nobody waits for it.
    pub(crate) fn leave(self: &Arc<Self>, place: Token) -> impl Future<Output = ()> + Send + use<> {
        self.hints.forget(place);
        let place = self.places().remove(&place);
        let left = place.map(|place| {
            let members = self.clone();
            members.clearing_begins();
            self.io.spawn(async move {
                place.leave().await;
                members.clearing_ends();
            })
        });
        async {
            if let Some(left) = left {
                let _ = left.await;
            }
        }
    }

    pub(crate) fn clearing_begins(&self) {
        self.clearing.send_modify(|clearing| *clearing += 1);
    }

    /// Nothing of the token is left with any member, as far as can be known.
    pub(crate) fn cleared(&self, token: Token) {
        self.ballots().remove(&token);
        self.clearing_ends();
    }

    fn clearing_ends(&self) {
        self.clearing.send_modify(|clearing| *clearing -= 1);
    }

    /// Waits until nothing is being cleared away, for a moment.
    pub(crate) async fn rest(&self) {
        let mut clearing = self.clearing.subscribe();
        let done = clearing.wait_for(|clearing| *clearing == 0);
        let _ = self.io.timeout_at(after(self.patience), done).await;
    }

    fn places(&self) -> MutexGuard<'_, HashMap<Token, Arc<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ballots(&self) -> MutexGuard<'_, HashMap<Token, Arc<Ballot>>> {
        self.ballots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
