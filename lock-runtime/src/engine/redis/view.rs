//! Reads who holds a lock and who waits for it.

use crate::engine::error::EngineError;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::lock::locks::Locks;
use crate::engine::redis::wire::error::unexpected_reply;
use crate::engine::view::{View, ViewedHolder};
use crate::lock_info::LeaseInfo;
use redis::Value;
use std::time::Duration;
use tokio::time::Instant;

impl Locks {
    /// Looks at a lock, and at its first waiters. Changes nothing.
    pub(crate) async fn view(
        &self,
        name: &str,
        most: usize,
        deadline: Instant,
    ) -> Result<View, EngineError> {
        let script = &self.scripts.view;
        let reply = self.eval(Via::IoThread, script, (name, 2), deadline, |command| {
            command
                .arg(name)
                .arg(self.keys.queue(name).to_string())
                .arg(most);
        });
        let (holders, waiters, waiting): (Vec<Value>, Vec<Value>, u64) = reply.await?;
        let (pairs, _) = holders.as_chunks::<2>();
        let holders = pairs.iter().map(parse_holder);
        Ok(View {
            holders: holders.collect::<Result<_, _>>()?,
            waiters: waiters.iter().map(text).collect::<Result<_, _>>()?,
            waiting,
        })
    }
}

/// Parses a token, and the milliseconds for which it holds the lock; -1 stands for ever.
fn parse_holder([token, left]: &[Value; 2]) -> Result<ViewedHolder, EngineError> {
    let lease = match left {
        Value::Int(-1) => LeaseInfo::Never,
        Value::Int(ms) => LeaseInfo::Ends(Duration::from_millis(u64::try_from(*ms).unwrap_or(0))),
        _ => return Err(unexpected_reply(format!("{left:?} as the rest of a lease"))),
    };
    Ok(ViewedHolder {
        token: text(token)?,
        lease,
        votes: None,
    })
}

/// Another client may have written any bytes.
fn text(value: &Value) -> Result<Box<str>, EngineError> {
    match value {
        Value::BulkString(bytes) => Ok(String::from_utf8_lossy(bytes).into()),
        Value::SimpleString(text) => Ok(text.as_str().into()),
        _ => Err(unexpected_reply(format!("{value:?} as a token"))),
    }
}
