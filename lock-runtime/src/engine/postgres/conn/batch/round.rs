//! One round: requests of one kind go out as one statement, and all statements at once unless a pooler is in between.

use crate::engine::postgres::conn::batch::gather::Gathered;
use crate::engine::postgres::conn::batch::request::{Acquire, Release, Renew, Request, Single};
use crate::engine::postgres::conn::batch::statements::Round;
use crate::engine::postgres::wire::statements::TELL;
use crate::util::join_all::join_all;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use tokio_postgres::types::{ToSql, Type};

/// The requests of one round, by statement.
#[derive(Default)]
struct Sorted {
    told: Vec<String>,
    releases: Vec<Release>,
    acquires: BTreeMap<i32, Vec<Acquire>>,
    renewals: BTreeMap<i32, Vec<Renew>>,
    singles: Vec<Single>,
}

type Part<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl Round<'_> {
    /// Sends all requests, renewals and releases first, and delivers the replies. Dropping the future leaves the requests
    /// unanswered.
    pub(crate) async fn run(&self, requests: Vec<Request>) {
        let mut sorted = Sorted::default();
        for request in requests {
            match request {
                Request::Tell(told) => sorted.told.extend(told),
                Request::Release(it) => sorted.releases.push(it),
                Request::Acquire(it) => sorted.acquires.entry(it.replicas).or_default().push(it),
                Request::Renew(it) => sorted.renewals.entry(it.replicas).or_default().push(it),
                Request::Single(it) => sorted.singles.push(it),
            }
        }
        let mut parts: Vec<Part<'_>> = Vec::new();
        // They wait for no other request, and the others may.
        parts.extend(sorted.renewals.into_values().map(|it| self.gather(it)));
        if !sorted.told.is_empty() {
            parts.push(Box::pin(self.tell(sorted.told)));
        }
        if !sorted.releases.is_empty() {
            parts.push(self.gather(sorted.releases));
        }
        parts.extend(sorted.acquires.into_values().map(|it| self.gather(it)));
        for single in sorted.singles {
            parts.push(Box::pin(self.single(single)));
        }
        self.all(parts).await;
    }

    /// One after the other behind a pooler: when a client leaves after one of several replies, PgBouncer before 1.22.1
    /// gives its process of the server to another client, which gets the other replies.
    async fn all(&self, parts: Vec<Part<'_>>) {
        if self.is_own() {
            join_all(parts).await;
            return;
        }
        for part in parts {
            part.await;
        }
    }

    async fn tell(&self, told: Vec<String>) {
        // A waiter that is not told asks.
        let _ = self.query(TELL, &[(&told, Type::TEXT_ARRAY)]).await;
    }

    /// Sends requests of one kind as one statement; or one by one, if one of them may be the reason that they fail.
    fn gather<'b, G: Gathered + 'b>(&'b self, requests: Vec<G>) -> Part<'b> {
        Box::pin(async move {
            let answers = G::send(self, &requests).await;
            if let Err(failure) = &answers
                && failure.may_be_split
                && requests.len() > 1
            {
                // A caller that has left may have sent its release meanwhile, and no request may follow that.
                let wanted = requests.into_iter().filter(G::is_wanted);
                let parts = wanted.map(|one| self.gather(vec![one]));
                return self.all(parts.collect()).await;
            }
            self.answered(&answers, requests.iter().flat_map(G::gains).copied());
            match answers {
                Ok(answers) => {
                    for (request, answer) in requests.into_iter().zip(answers) {
                        request.answer(Ok(answer));
                    }
                }
                Err(failure) => {
                    for request in requests {
                        request.answer(Err(failure.error.clone()));
                    }
                }
            }
        })
    }

    async fn single(&self, single: Single) {
        let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = Vec::new();
        for (value, of) in &single.parameters {
            parameters.push((&**value, of.clone()));
        }
        let void_after = single.waits.map(|(_, until)| match until {
            Some(until) => until.min(self.void_after),
            None => self.void_after,
        });
        if void_after.is_some() {
            parameters.push((&void_after, Type::INT8));
        }
        let rows = self.query(single.statement, &parameters).await;
        self.answered(&rows, single.waits.map(|(token, _)| token).into_iter());
        let _ = single.reply.send(rows.map_err(|failure| failure.error));
    }
}
