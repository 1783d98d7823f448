//! Reads who holds a lock and who waits for it.

use crate::engine::error::EngineError;
use crate::engine::token::Token;
use crate::engine::view::{View, ViewedHolder};
use crate::error::{Holder, LockError};
use crate::limit::Limit;
use crate::lock::context::Context;
use crate::lock::report::text::parse;
use crate::lock_info::{ClaimInfo, ClaimReport, LockInfo, Mode};
use crate::options::validate_key;
use crate::process::ProcessId;
use crate::process_info::{ProcessInfo, Unlisted};
use crate::util::time::deadline_in;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The greatest number of waiters that are read.
const MAX_WAITERS: usize = 100;

pub(crate) async fn inspect(context: &Context, key: &str) -> Result<LockInfo, LockError> {
    validate_key(key)?;
    let mut lock = viewed(context, &context.name_of(key)).await?;
    let claims = lock.holders.iter().chain(&lock.waiters);
    let mut processes: Vec<_> = claims.filter_map(ClaimInfo::process).collect();
    processes.sort_by_key(|process| process.0);
    processes.dedup();
    if !processes.is_empty() {
        // Whoever may not read the reports sees the lock without them.
        let processes = read_processes(context, Some(&processes)).await;
        describe(&mut lock, &processes.unwrap_or_default());
    }
    Ok(lock)
}

/// Looks at a lock on the server.
pub(crate) async fn viewed(context: &Context, name: &str) -> Result<LockInfo, LockError> {
    let deadline = deadline_in(context.command_timeout);
    let view = context.engine.view(name, MAX_WAITERS, deadline).await;
    let view = view.map_err(|error| context.unavailable(name, error))?;
    Ok(info(context, name, view))
}

/// Looks at a few locks at once.
pub(crate) async fn viewed_together(
    context: &Context,
    names: &[Arc<str>],
    deadline: Instant,
) -> Result<Vec<LockInfo>, EngineError> {
    let views = context.engine.views(names, MAX_WAITERS, deadline).await?;
    let locks = names.iter().zip(views);
    Ok(locks
        .map(|(name, view)| info(context, name, view))
        .collect())
}

fn info(context: &Context, name: &str, view: View) -> LockInfo {
    LockInfo {
        key: context.key_of(name).into(),
        holders: view.holders.into_iter().map(holder).collect(),
        waiters: view.waiters.into_iter().map(claim).collect(),
        waiting: view.waiting,
    }
}

/// The processes that have reported.
pub(crate) type Processes = HashMap<ProcessId, Arc<ProcessInfo>>;

/// Returns those of these processes, or of all, that have reported.
pub(crate) async fn read_processes(
    context: &Context,
    of: Option<&[ProcessId]>,
) -> Result<Processes, LockError> {
    let reading = context.begin_reading();
    let reports = context.engine.reports(of, reading).await;
    let reports = reports.map_err(|error| context.not_read(reading, error))?;
    let processes = reports.iter().filter_map(parse).map(|mut info| {
        if context.engine.has_index() {
            info.unlisted = Unlisted::default();
        }
        (info.id, Arc::new(info))
    });
    Ok(processes.collect())
}

/// Adds to a lock what the processes report of their claims.
pub(crate) fn describe(lock: &mut LockInfo, processes: &Processes) {
    for claim in lock.holders.iter_mut().chain(&mut lock.waiters) {
        let process = claim.process().and_then(|process| processes.get(&process));
        claim.report = process.map(|process| ClaimReport::of(&claim.token, process));
    }
}

fn holder(viewed: ViewedHolder) -> ClaimInfo {
    ClaimInfo {
        lease: Some(viewed.lease),
        votes: viewed.votes,
        ..claim(viewed.token)
    }
}

/// Returns what the token says. A text that is none is that of another client, which counts as exclusive.
fn claim(token: Box<str>) -> ClaimInfo {
    let parsed = Token::parse(&token);
    ClaimInfo {
        mode: parsed.map_or(Mode::Exclusive, |token| mode(token.limit())),
        process: match parsed.map(Token::holder) {
            Some(Holder::Process { id, since, .. }) => Some((id, since)),
            _ => None,
        },
        token,
        lease: None,
        votes: None,
        report: None,
    }
}

fn mode(limit: Limit) -> Mode {
    match limit.number() {
        None => Mode::Exclusive,
        Some(_) if limit == Limit::UNLIMITED => Mode::Read,
        Some(permits) => Mode::Permits(permits.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_the_mode_and_the_process() {
        let process = ProcessId::random();
        let permits = Limit::permits(5).unwrap();
        for (limit, expected) in [
            (Limit::EXCLUSIVE, Mode::Exclusive),
            (permits, Mode::Permits(5)),
            (Limit::UNLIMITED, Mode::Read),
        ] {
            let token = Token::draw(process).with_limit(limit);
            let found = claim(token.encode(&mut [0; 37]).into());
            assert_eq!(found.mode, expected);
            assert_eq!(found.process.map(|(id, _)| id), Some(process));
        }
    }

    #[test]
    fn any_other_text_is_another_client() {
        for text in [
            "",
            "?",
            "worker-7",
            "0123456789abcdef0123456789abcdef",
            "\u{0}\n/2047",
        ] {
            let found = claim(text.into());
            assert_eq!(
                (found.mode, found.process),
                (Mode::Exclusive, None),
                "{text:?}"
            );
        }
    }
}
