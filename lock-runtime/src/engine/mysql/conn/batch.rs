//! Carries requests out that came at once: all writes in one transaction, so that they share its flush.

use crate::engine::mysql::conn::session::{Command, Session};
use crate::engine::mysql::sql::Prepared;
use crate::engine::mysql::wire::error::{Failure, ServerError};
use crate::engine::mysql::wire::reply::Reply;
use crate::engine::store::swap::Swap;
use crate::own_store::{Loaded, StoreError, Swapped, Version};
use mysql_common::row::convert::{FromRow, from_row_opt};
use mysql_common::value::Value;
use std::time::Duration;
use tokio::sync::oneshot;

pub(crate) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

pub(crate) enum Request {
    Swap(Swap, Answer<Swapped>),
    Other(Other),
}

/// Statements that change no record.
pub(crate) enum Other {
    Load(String, Answer<Loaded>),
    /// The names with a prefix, and how many of them at the most.
    Names(String, usize, Answer<Vec<String>>),
    Run(String, Answer<Reply>),
}

/// How many bytes of writes go together.
const MAX_LENGTH: usize = 64 << 10;

impl Request {
    /// Returns `false` if the caller has left: the statement would be in the way of others.
    fn is_awaited(&self) -> bool {
        match self {
            Request::Swap(_, answer) => !answer.is_closed(),
            Request::Other(Other::Load(_, answer)) => !answer.is_closed(),
            Request::Other(Other::Names(.., answer)) => !answer.is_closed(),
            // A bell, or the end of a proof.
            Request::Other(Other::Run(..)) => true,
        }
    }

    pub(crate) fn fail(self, error: StoreError) {
        match self {
            Request::Swap(_, answer) => _ = answer.send(Err(error)),
            Request::Other(other) => other.fail(error),
        }
    }
}

/// The requests of one round.
#[derive(Default)]
pub(crate) struct Round {
    swaps: Vec<(Swap, Answer<Swapped>)>,
    others: Vec<Other>,
}

impl Round {
    pub(crate) fn of(requests: Vec<Request>) -> Round {
        let mut round = Round::default();
        for request in requests.into_iter().filter(Request::is_awaited) {
            match request {
                Request::Swap(swap, answer) => round.swaps.push((swap, answer)),
                Request::Other(other) => round.others.push(other),
            }
        }
        // Transactions that lock rows in one order wait for one another, and never in a circle.
        round
            .swaps
            .sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        round
    }

    /// Carries the requests out, and answers them. Those that are left have no reply.
    pub(crate) async fn carry_out(&mut self, session: &mut Session) -> Result<(), Failure> {
        while !self.swaps.is_empty() {
            let count = if session.may_combine {
                together(&self.swaps)
            } else {
                1
            };
            let results = swap_all(session, &self.swaps[..count]).await?;
            for ((_, answer), result) in self.swaps.drain(..count).zip(results) {
                let _ = answer.send(result);
            }
        }
        let commands: Vec<_> = self.others.iter().map(Other::command).collect();
        let replies = session.exchange(&commands).await?;
        for (request, reply) in self.others.drain(..).zip(replies) {
            request.answer(reply, session.is_sole);
        }
        Ok(())
    }

    /// Answers what is left.
    pub(crate) fn fail(self, error: &StoreError) {
        for (_, answer) in self.swaps {
            let _ = answer.send(Err(error.clone()));
        }
        for request in self.others {
            request.fail(error.clone());
        }
    }
}

/// Returns how many swaps go into one transaction: so many that they fit into the buffers of a socket. Of a
/// process that is stopped then, all of it has come, or nothing that could keep a row.
fn together(swaps: &[(Swap, Answer<Swapped>)]) -> usize {
    let mut length = 0;
    let sent = swaps.iter().take_while(|(swap, _)| {
        length += swap.name.len() + swap.record.as_ref().map_or(0, Vec::len) + 64;
        length <= MAX_LENGTH
    });
    sent.count().max(1)
}

/// Carries swaps out, in one transaction if there are several.
async fn swap_all(
    session: &mut Session,
    swaps: &[(Swap, Answer<Swapped>)],
) -> Result<Vec<Result<Swapped, StoreError>>, Failure> {
    let mut results: Vec<Result<Swapped, StoreError>> = Vec::with_capacity(swaps.len());
    let (mut conflicts, mut has_failed) = (Vec::new(), false);
    let writes: Vec<_> = swaps.iter().map(|(swap, _)| command(swap)).collect();
    for (nth, reply) in write(session, writes).await?.into_iter().enumerate() {
        let is_lost = match &reply {
            Ok(reply) => reply.changed == 0,
            Err(error) => error.is_duplicate() || error.is_locked(),
        };
        if let Err(error) = &reply
            && !is_lost
        {
            let words = "another write of the transaction failed";
            let undone = || match error.is_deadlock() && !has_failed {
                true => StoreError::not_done(words),
                // It depends on the settings of the server; after a deadlock each write stands by itself.
                false => StoreError::unknown(words),
            };
            results.iter_mut().for_each(|it| *it = Err(undone()));
            has_failed = true;
        }
        results.push(match reply {
            _ if is_lost => {
                conflicts.push(nth);
                Ok(Swapped::Conflict(Loaded::nothing()))
            }
            Ok(_) => Ok(swaps[nth].0.done()),
            Err(error) => Err(error.into()),
        });
    }
    let loads = conflicts.iter().map(|nth| load(&swaps[*nth].0.name));
    let loads: Vec<_> = loads.collect();
    for (nth, reply) in conflicts.into_iter().zip(session.exchange(&loads).await?) {
        let (swap, _) = &swaps[nth];
        if results[nth].is_ok() {
            results[nth] = loaded(reply, session.is_sole).map(|found| {
                match found.found.is_none() && is_look(swap) {
                    true => swap.done(),
                    false => Swapped::Conflict(found),
                }
            });
        }
    }
    Ok(results)
}

/// Sends writes, together if there are several. Fails if it is unknown whether they are carried out.
async fn write(
    session: &mut Session,
    mut writes: Vec<Command>,
) -> Result<Vec<Result<Reply, ServerError>>, Failure> {
    if writes.len() < 2 {
        return session.exchange(&writes).await;
    }
    writes.insert(0, Command::Text("START TRANSACTION".to_owned()));
    writes.push(Command::Text("COMMIT".to_owned()));
    let mut replies = session.exchange(&writes).await?;
    for end in [
        replies.pop(),
        (!replies.is_empty()).then(|| replies.remove(0)),
    ] {
        end.transpose().map_err(Failure::Server)?;
    }
    Ok(replies)
}

fn command(swap: &Swap) -> Command {
    let name = || Value::from(swap.name.as_bytes());
    let stamp = |version: &Version| Value::from(version.as_bytes());
    let (statement, values) = match (&swap.expected, &swap.record) {
        (None, Some(record)) => (Prepared::Insert, vec![name(), record.into(), name()]),
        (Some(version), Some(record)) => (
            Prepared::Update,
            vec![record.into(), name(), stamp(version)],
        ),
        (Some(version), None) => (Prepared::Delete, vec![name(), stamp(version)]),
        (None, None) => return load(&swap.name),
    };
    Command::Execute(statement, values)
}

/// Returns `true` if it replaces nothing by nothing.
fn is_look(swap: &Swap) -> bool {
    swap.expected.is_none() && swap.record.is_none()
}

impl Other {
    fn command(&self) -> Command {
        match self {
            Other::Load(name, _) => load(name),
            Other::Names(prefix, most, _) => {
                // No name in UTF-8 has that byte.
                let (from, to) = (prefix.as_bytes(), [prefix.as_bytes(), &[0xff]].concat());
                let values = vec![from.into(), to.into(), (*most as u64).into()];
                Command::Execute(Prepared::Names, values)
            }
            Other::Run(text, _) => Command::Text(text.clone()),
        }
    }

    fn answer(self, reply: Result<Reply, ServerError>, is_sole: bool) {
        match self {
            Other::Load(_, answer) => _ = answer.send(loaded(reply, is_sole)),
            Other::Names(_, _, answer) => _ = answer.send(names(reply)),
            Other::Run(_, answer) => _ = answer.send(reply.map_err(Into::into)),
        }
    }

    fn fail(self, error: StoreError) {
        match self {
            Other::Load(_, answer) => _ = answer.send(Err(error)),
            Other::Names(_, _, answer) => _ = answer.send(Err(error)),
            Other::Run(_, answer) => _ = answer.send(Err(error)),
        }
    }
}

fn load(name: &str) -> Command {
    Command::Execute(Prepared::Load, vec![Value::from(name.as_bytes())])
}

/// Without the time unless it is always that of one clock.
fn loaded(reply: Result<Reply, ServerError>, has_clock: bool) -> Result<Loaded, StoreError> {
    let rows = rows::<(u64, Option<Vec<u8>>)>(reply?)?;
    let Some((micros, record)) = rows.into_iter().next() else {
        return Err(StoreError::unknown("the reply has no row"));
    };
    let found = match record {
        Some(record) => {
            let version = Version::stamp_of(&record);
            Loaded::found(record, version)
        }
        None => Loaded::nothing(),
    };
    Ok(match has_clock {
        true => found.at(Duration::from_micros(micros)),
        false => found,
    })
}

/// Leaves out what is not in UTF-8, as no name of this library is.
fn names(reply: Result<Reply, ServerError>) -> Result<Vec<String>, StoreError> {
    let rows = rows::<Vec<u8>>(reply?)?;
    Ok(rows
        .into_iter()
        .filter_map(|it| String::from_utf8(it).ok())
        .collect())
}

pub(crate) fn rows<T: FromRow>(reply: Reply) -> Result<Vec<T>, StoreError> {
    let rows = reply.rows.into_iter().map(from_row_opt);
    let rows: Result<_, _> = rows.collect();
    rows.map_err(|_| StoreError::unknown("the reply has other columns than it should"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_whose_callers_have_left_are_not_sent() {
        let load = |answer| Request::Other(Other::Load("row".to_owned(), answer));
        let ((left, _), (awaited, _caller)) = (oneshot::channel(), oneshot::channel());
        let round = Round::of(vec![load(left), load(awaited)]);
        assert_eq!(round.others.len(), 1);
    }
}
