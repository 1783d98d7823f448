//! The embedded engine, with requests and answers on their way for a while.

use crate::engine::error::{EngineError, Fault};
use crate::engine::memory::MemoryEngine as Memory;
use crate::engine::request::{Answer, Claim, ServerTime, Standing};
use crate::engine::traits::Engine;
use crate::tests::shuttle::server::Book;
use crate::tests::shuttle::{either, pause};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::Instant;

pub(super) struct Distant {
    memory: Memory,
    book: Arc<Book>,
    at_home: bool,
    /// How many releases get no answer.
    mute: AtomicUsize,
    /// Whether some renewals that were carried out get no answer.
    loses_answers: bool,
}

impl Distant {
    pub(super) fn new(memory: Memory, book: Arc<Book>, at_home: bool, mute: usize) -> Distant {
        Distant {
            memory,
            book,
            at_home,
            mute: AtomicUsize::new(mute),
            loses_answers: false,
        }
    }

    pub(super) fn losing_answers(memory: Memory, book: Arc<Book>) -> Distant {
        Distant {
            loses_answers: true,
            ..Distant::new(memory, book, false, 0)
        }
    }

    fn carry<'a, T: Send + 'a>(
        &'a self,
        request: impl FnOnce() -> Answer<'a, T> + Send + 'a,
        note: impl FnOnce(&Book, &T) + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            pause().await;
            let answer = request().await?;
            note(&self.book, &answer);
            pause().await;
            Ok(answer)
        })
    }
}

impl Engine for Distant {
    fn acquire<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool> {
        self.carry(
            move || Engine::acquire(&self.memory, claim, until),
            |book, taken| book.note(claim.token, |grant| grant.granted |= taken),
        )
    }

    fn wait<'a>(
        &'a self,
        claim: &'a Claim,
        void_after: Option<ServerTime>,
        until: Instant,
    ) -> Answer<'a, Standing> {
        self.carry(
            move || Engine::wait(&self.memory, claim, void_after, until),
            |book, standing| {
                if matches!(standing, Standing::Granted(_) | Standing::Adopted(_)) {
                    book.note(claim.token, |grant| grant.granted = true);
                }
            },
        )
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        unanswered: bool,
        until: Instant,
    ) -> Answer<'a, bool> {
        self.carry(
            move || Engine::cancel(&self.memory, claim, unanswered, until),
            |book, found| book.note(claim.token, |grant| grant.left += usize::from(*found)),
        )
    }

    fn is_at_home(&self, _: &str) -> bool {
        self.at_home
    }

    fn release<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool> {
        let mute = self.mute.load(Ordering::SeqCst);
        if mute > 0 {
            self.mute.store(mute - 1, Ordering::SeqCst);
            return Box::pin(std::future::pending());
        }
        self.carry(
            move || Engine::release(&self.memory, claim, until),
            |book, _| book.note(claim.token, |grant| grant.releases += 1),
        )
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        until: Instant,
    ) -> Answer<'a, Vec<Result<bool, EngineError>>> {
        let renewed = self.carry(
            move || Engine::renew(&self.memory, claims, until),
            |_, _| (),
        );
        Box::pin(async move {
            let renewed = renewed.await?;
            match self.loses_answers && either() {
                true => Err(EngineError::new(Fault::Unanswered, "the answer was lost")),
                false => Ok(renewed),
            }
        })
    }

    fn fencing_token<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, Option<u64>> {
        self.carry(
            move || Engine::fencing_token(&self.memory, claim, until),
            |_, _| (),
        )
    }
}
