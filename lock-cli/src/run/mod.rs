//! `locks run`: a command that runs while a lock is held.

mod command;
mod progress;
mod signals;
mod supervise;

use crate::args::{Run, Server};
use crate::connect::connect;
use crate::exit::{Failure, LOST, of_signal, with_causes};
use crate::output::say;
use crate::show::holding;
use crate::text::duration;
use command::Command;
use lock_runtime::{Holder, LockError, LockGuard, LockManager};
use signals::Signals;
use std::ffi::OsString;
use std::time::Duration;
use supervise::supervise;
use tokio::time::timeout;

/// How many requests may be under way, one after the other, when the command has ended.
const LAST_REQUESTS: u32 = 4;

/// Returns the exit code.
pub(crate) async fn run(server: &Server, options: &Run) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let locks = tokio::select! {
        biased;
        signal = signals.next() => return Ok(of_signal(signal.as_raw())),
        connected = connect(server, options.ttl) => connected?,
    };
    let ended = under_lock(&locks, options, &mut signals).await;
    // Its report would outlive it. The server may be out of reach.
    let _ = timeout(server.timeout() * LAST_REQUESTS, locks.shutdown()).await;
    ended
}

async fn under_lock(
    locks: &LockManager,
    options: &Run,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let guard = tokio::select! {
        biased;
        signal = signals.next() => return Ok(of_signal(signal.as_raw())),
        acquired = acquire(locks, options) => acquired?,
    };
    let environment = environment(&guard, options).await?;
    // After the guard, so that it ends before the guard if this panics.
    let mut command = Command::start(&options.command, environment)?;
    let code = supervise(&mut command, &guard, options.grace, signals).await?;
    release(guard, code).await
}

async fn acquire(locks: &LockManager, options: &Run) -> Result<LockGuard, Failure> {
    let mut lock = locks.lock(&options.key);
    lock = lock.wait(options.wait);
    // Not its arguments, which may have secrets.
    let program = options
        .command
        .first()
        .map(|program| program.to_string_lossy());
    lock = lock.label(program.unwrap_or_default());
    if options.read {
        lock = lock.read();
    }
    if let Some(permits) = options.permits {
        lock = lock.permits(permits);
    }
    let error = match progress::shown(&options.key, lock.acquire()).await {
        Ok(guard) => return Ok(guard),
        Err(error) => error,
    };
    let LockError::Busy { waited, holder, .. } = &error else {
        return Err(error.into());
    };
    let message = match holder {
        // They hold no lock, and the error says what to do.
        Holder::NeverExpires | Holder::ForeignValue => None,
        _ => busy(locks, &options.key, *waited).await,
    };
    let message = message.unwrap_or_else(|| with_causes(&error));
    Err(Failure::new(options.conflict_exit_code, message))
}

/// Returns who holds the lock, and what to do; `None` if that is unknown, or it is free by now.
async fn busy(locks: &LockManager, key: &str, waited: Duration) -> Option<String> {
    let found = locks.inspect(key).await.ok()?;
    let (first, others) = found.holders().split_first()?;
    let (lock, advice) = match waited {
        Duration::ZERO => (format!("lock `{key}`"), "wait for it, as by `--wait 10m`"),
        _ => {
            let waited = duration(waited);
            let lock = format!("timed out after {waited} waiting for lock `{key}`, which");
            (lock, "raise `--wait`")
        }
    };
    let others = match others.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let holding = holding(first);
    Some(format!(
        "{lock} is {holding}{others}; retry later, or {advice}"
    ))
}

/// Returns what is added to the environment of the command.
async fn environment(
    guard: &LockGuard,
    options: &Run,
) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let mut environment = vec![("LOCK_KEY", guard.key().into())];
    if options.permits.is_none() {
        let token = guard.fencing_token().await?;
        environment.push(("LOCK_FENCING_TOKEN", token.to_string().into()));
    }
    Ok(environment)
}

/// Releases the lock after the command has ended. Returns the exit code.
async fn release(guard: LockGuard, code: u8) -> Result<u8, Failure> {
    match guard.release().await {
        Ok(()) => Ok(code),
        // The loss was reported when the command was stopped.
        Err(_) if code == LOST => Ok(code),
        // It may have been lost at any time before.
        Err(error @ LockError::Lost { .. }) => Err(error.into()),
        Err(error) => {
            say(&with_causes(&error));
            Ok(code)
        }
    }
}
