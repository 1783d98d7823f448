//! What people see of the locks on a server, and do to them, from outside: no call needs it.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::request::EngineFuture;
use crate::engine::token::Token;
use crate::engine::view::View;
use crate::process::ProcessId;
use crate::util::time::deadline_in;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The operations of an engine, and of a quorum's member. Where there is a default, engines of tests need no more.
pub(crate) trait Operations: Send + Sync {
    /// Asks the servers whether they would grant a lock now, each by a round trip: a majority of a quorum's members, and
    /// every master of a cluster. Nothing is left on the servers.
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()>;

    /// Looks at who holds each lock, and at the first of those that wait for it, `most` of them at the most, in the order of
    /// the names, of which there are few. Changes nothing. One request does for those that a server keeps, in a cluster for
    /// those of a slot; a quorum's members are asked all; in ZooKeeper each lock takes two or three.
    fn views<'a>(
        &'a self,
        names: &'a [Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<View>>;

    /// Looks at one lock.
    fn view<'a>(&'a self, name: &'a str, most: usize, deadline: Instant) -> EngineFuture<'a, View> {
        Box::pin(async move {
            let views = self.views(&[name.into()], most, deadline).await?;
            views.into_iter().next().ok_or_else(|| {
                let words = "the reply has no lock";
                EngineError::new(EngineErrorKind::NotReady, words)
            })
        })
    }

    /// Returns `true` if the server finds the names of locks without reading all of its keys.
    fn has_index(&self) -> bool {
        true
    }

    /// Returns the names, with that prefix, of locks that are held or waited for, `most` of them at the most. A name may be
    /// among them although its last lease has just ended. Changes nothing.
    fn names<'a>(
        &'a self,
        _prefix: &'a str,
        _most: usize,
        _reading: Reading,
    ) -> EngineFuture<'a, Vec<Arc<str>>> {
        unsupported()
    }

    /// Stores what a process tells of itself in place of what it told before. It vanishes [`REPORT_TTL`] later, or with the
    /// session of the engine, which then stores it again. It has no NUL.
    fn report<'a>(
        &'a self,
        _process: ProcessId,
        _report: Arc<str>,
        _deadline: Instant,
    ) -> EngineFuture<'a, ()> {
        unsupported()
    }

    /// Returns what these processes, or all, have told of themselves.
    fn reports<'a>(
        &'a self,
        _of: Option<&'a [ProcessId]>,
        _reading: Reading,
    ) -> EngineFuture<'a, Vec<StoredReport>> {
        unsupported()
    }

    /// Returns when processes tell of themselves.
    fn report_pace(&self) -> ReportPace {
        ReportPace::REGULAR
    }

    /// Returns the token by which a [view](Self::view) shows a claim that waits.
    fn shown_as(&self, token: Token) -> Token {
        token
    }

    /// Begins to receive what others [ask](Self::ask), if it does not yet, and goes on until the engine is dropped. A
    /// process that has waited receives it anyway.
    fn listen(&self) {}

    /// Sends a text to all processes that listen, as [`EngineEvent::Asked`](crate::engine::event::EngineEvent), the own one
    /// too. One may receive it several times, and those whose connection is broken do not. It has no NUL.
    fn ask<'a>(&'a self, _text: &'a str, _deadline: Instant) -> EngineFuture<'a, ()> {
        unsupported()
    }

    /// Takes the lock from the holder with that token, for good: no request of that token that comes later acquires it
    /// again, and the first in the queue may enter. Draws a fencing token that is greater than all that the holder has,
    /// and not less than `at_least`; all that are drawn later are greater.
    ///
    /// Idempotent. `token` is compared with what [`view`](Self::view) returned, whoever has made it.
    fn take<'a>(
        &'a self,
        _name: &'a str,
        _token: &'a str,
        _at_least: u64,
        _deadline: Instant,
    ) -> EngineFuture<'a, Taken> {
        unsupported()
    }
}

/// How long one may read that sends one request after the other: how much others have written is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// The time of each request.
    pub(crate) each: Duration,
    pub(crate) until: Instant,
}

impl Reading {
    pub(crate) const LONGEST: Duration = Duration::from_secs(10);

    /// Begins to read.
    pub(crate) fn begin(each: Duration) -> Reading {
        Reading {
            each,
            until: deadline_in(each + Self::LONGEST),
        }
    }

    /// Returns the deadline of a request that is sent now.
    pub(crate) fn next(self) -> Instant {
        deadline_in(self.each).min(self.until)
    }
}

/// For how long a report is stored where no session ends it.
pub(crate) const REPORT_TTL: Duration = Duration::from_secs(180);

/// When processes tell of themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportPace {
    /// The time between two reports that nobody asks for; `None` if there is only the first one, since the server keeps
    /// what is overwritten.
    pub(crate) regular: Option<Duration>,
    /// The least time between two reports.
    pub(crate) least: Duration,
}

impl ReportPace {
    pub(crate) const REGULAR: ReportPace = ReportPace {
        regular: Some(Duration::from_secs(60)),
        least: Duration::from_secs(1),
    };

    /// For servers that keep what is overwritten, as history or in a log.
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    pub(crate) const RARE: ReportPace = ReportPace {
        regular: None,
        least: Duration::from_secs(10),
    };
}

/// How much of a report, and of an ask, is read, in bytes.
pub(crate) const MAX_TEXT: usize = 16 * 1024;

/// The greatest number of reports that are read.
pub(crate) const MAX_REPORTS: usize = 10_000;

/// Returns the beginning of what may be a text of any length, and any bytes.
pub(crate) fn beginning(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT)]).into()
}

/// What a process has told of itself. Anything may be in it: whoever may write locks may write a report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredReport {
    pub(crate) process: ProcessId,
    pub(crate) text: Arc<str>,
    /// The time since it was stored, if the server knows that.
    pub(crate) age: Option<Duration>,
}

/// What became of a lock that was taken from its holder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Taken {
    /// `true` if the token held the lock until then.
    pub(crate) held: bool,
    /// `true` if a transaction has proven the lock, which nobody else gets until it has ended.
    pub(crate) pinned: bool,
    /// Nobody's if the token did not hold the lock: another one may hold it then, with a number below this one.
    pub(crate) fencing_token: u64,
}

fn unsupported<'a, T>() -> EngineFuture<'a, T>
where
    T: Send + 'a,
{
    let words = "this engine does not support it";
    let error = EngineError::new(EngineErrorKind::Rejected, words);
    Box::pin(std::future::ready(Err(error)))
}
