//! Sends the requests of a round: those of one kind as one statement, and all statements at once unless a
//! pooler is in between.

use crate::engine::postgres::conn::batch::gather::Gathered;
use crate::engine::postgres::conn::batch::request::{Acquire, Release, Renew, Request, Single};
use crate::engine::postgres::conn::batch::round::Round;
use crate::engine::postgres::wire::statements::NOTIFY;
use crate::util::join_all::join_all;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use tokio_postgres::types::{ToSql, Type};

/// Sends all requests, and delivers the replies. Dropping the future leaves the requests without one.
pub(crate) async fn send(round: &Round<'_>, requests: Vec<Request>) {
    all(round, Sorted::from(requests).parts(round)).await;
}

/// The requests of one round, by statement.
#[derive(Default)]
struct Sorted {
    messages: Vec<String>,
    releases: Vec<Release>,
    /// By the number of replicas, as are the renewals.
    acquires: BTreeMap<i32, Vec<Acquire>>,
    renewals: BTreeMap<i32, Vec<Renew>>,
    singles: Vec<Single>,
}

/// A statement with its replies.
type Part<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl Sorted {
    fn from(requests: Vec<Request>) -> Sorted {
        let mut sorted = Sorted::default();
        for request in requests {
            match request {
                Request::Notify(messages) => sorted.messages.extend(messages),
                Request::Release(it) => sorted.releases.push(it),
                Request::Acquire(it) => sorted.acquires.entry(it.replicas).or_default().push(it),
                Request::Renew(it) => sorted.renewals.entry(it.replicas).or_default().push(it),
                Request::Single(it) => sorted.singles.push(it),
            }
        }
        sorted
    }

    /// Renewals and releases come first: they wait for no other request, and the others may.
    fn parts<'a>(self, round: &'a Round<'_>) -> Vec<Part<'a>> {
        let mut parts: Vec<Part<'a>> = Vec::new();
        parts.extend(self.renewals.into_values().map(|it| gathered(round, it)));
        if !self.messages.is_empty() {
            parts.push(Box::pin(notify(round, self.messages)));
        }
        if !self.releases.is_empty() {
            parts.push(gathered(round, self.releases));
        }
        parts.extend(self.acquires.into_values().map(|it| gathered(round, it)));
        for it in self.singles {
            parts.push(Box::pin(single(round, it)));
        }
        parts
    }
}

/// One after the other behind a pooler: when a client leaves after one of several replies, PgBouncer before
/// 1.22.1 gives its backend to another client, which gets the other replies.
async fn all(round: &Round<'_>, parts: Vec<Part<'_>>) {
    if round.is_own() {
        join_all(parts).await;
        return;
    }
    for part in parts {
        part.await;
    }
}

async fn notify(round: &Round<'_>, messages: Vec<String>) {
    // A waiter that gets no message asks.
    let _ = round.query(NOTIFY, &[(&messages, Type::TEXT_ARRAY)]).await;
}

/// Sends requests of one kind as one statement; or one by one, if one of them may be the reason that they
/// fail.
fn gathered<'a, G: Gathered + 'a>(round: &'a Round<'_>, requests: Vec<G>) -> Part<'a> {
    Box::pin(async move {
        let replies = G::send(round, &requests).await;
        if let Err(failure) = &replies
            && failure.may_be_split
            && requests.len() > 1
        {
            // A caller that has left may have sent its release meanwhile, and no request may follow that.
            let wanted = requests.into_iter().filter(G::is_wanted);
            let parts = wanted.map(|one| gathered(round, vec![one]));
            return all(round, parts.collect()).await;
        }
        round.settled(&replies, requests.iter().flat_map(G::tokens).copied());
        match replies {
            Ok(replies) => {
                for (request, reply) in requests.into_iter().zip(replies) {
                    request.reply(Ok(reply));
                }
            }
            Err(failure) => {
                for request in requests {
                    request.reply(Err(failure.error.clone()));
                }
            }
        }
    })
}

async fn single(round: &Round<'_>, single: Single) {
    let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = Vec::new();
    for (value, of) in &single.parameters {
        parameters.push((&**value, of.clone()));
    }
    let void_after = single.waits.map(|wait| match wait.valid_until {
        Some(until) => until.min(round.void_after),
        None => round.void_after,
    });
    if void_after.is_some() {
        parameters.push((&void_after, Type::INT8));
    }
    let rows = round.query(single.statement, &parameters).await;
    round.settled(&rows, single.waits.iter().map(|wait| wait.token));
    let _ = single.reply.send(rows.map_err(|failure| failure.error));
}
