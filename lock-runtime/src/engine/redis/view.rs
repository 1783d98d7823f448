//! Reads who holds a lock and who waits for it, and which locks there are.

use crate::engine::error::EngineError;
use crate::engine::operations::Reading;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::hash_slot::slot_of;
use crate::engine::redis::wire::error::{is_try_again, unexpected_reply};
use crate::engine::view::{View, ViewedHolder};
use crate::lock_info::LeaseInfo;
use crate::util::join_all::join_all;
use redis::Value;
use std::collections::{BTreeSet, HashSet};
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How many keys the server looks at in one step, which takes it less than a millisecond.
const KEYS_A_STEP: usize = 1000;

/// A lock's holders with the rest of their leases, its first waiters, and the number of all waiters.
type Sight = (Vec<Value>, Vec<Value>, u64);

impl RedisEngine {
    /// Looks at locks, and at their first waiters, those of a slot by one request. Changes nothing.
    pub(crate) async fn views(
        &self,
        names: &[Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> Result<Vec<View>, EngineError> {
        let slot = |name: &Arc<str>| self.router.shard_of(name).slot;
        let mut slots: Vec<_> = (0..names.len())
            .map(|nth| (slot(&names[nth]), nth))
            .collect();
        slots.sort_unstable();
        let looks = slots
            .chunk_by(|one, next| one.0 == next.0)
            .map(async |some| {
                let some = some.iter().map(|(_, nth)| &*names[*nth]);
                self.look_at_slot(&Vec::from_iter(some), most, deadline)
                    .await
            });
        let mut found = Vec::with_capacity(names.len());
        for sights in join_all(looks).await {
            found.extend(sights?);
        }
        let mut views: Vec<_> = slots.iter().map(|(_, nth)| nth).zip(found).collect();
        views.sort_unstable_by_key(|(nth, _)| *nth);
        views.into_iter().map(|(_, sight)| parse(sight)).collect()
    }

    /// Returns the token that a view shows as that text, as it is stored: another client may have written any
    /// bytes.
    pub(crate) async fn stored_token(
        &self,
        name: &str,
        shown: &str,
        deadline: Instant,
    ) -> Result<Vec<u8>, EngineError> {
        if !shown.contains(char::REPLACEMENT_CHARACTER) {
            return Ok(shown.into());
        }
        let found = self.look(&[name], 1, deadline).await?.into_iter();
        let found = found
            .flat_map(|(holders, ..)| holders)
            .find_map(|value| match value {
                Value::BulkString(bytes) if String::from_utf8_lossy(&bytes) == shown => Some(bytes),
                _ => None,
            });
        Ok(found.unwrap_or_else(|| shown.into()))
    }

    /// While the slot moves, the server may refuse to look at several of its locks at once.
    async fn look_at_slot(
        &self,
        names: &[&str],
        most: usize,
        deadline: Instant,
    ) -> Result<Vec<Sight>, EngineError> {
        match self.look(names, most, deadline).await {
            Err(error) if is_try_again(&error) && names.len() > 1 => {
                let each = names
                    .iter()
                    .map(|name| self.look(from_ref(name), most, deadline));
                let each: Result<Vec<_>, _> = join_all(each).await.into_iter().collect();
                Ok(each?.concat())
            }
            found => found,
        }
    }

    async fn look(
        &self,
        names: &[&str],
        most: usize,
        deadline: Instant,
    ) -> Result<Vec<Sight>, EngineError> {
        let (script, of) = (&self.scripts.view, (names[0], 2 * names.len()));
        let reply = self.eval(Via::IoThread, script, of, deadline, |command| {
            for name in names {
                command.arg(*name).arg(self.keys.queue(name).to_string());
            }
            command.arg(most);
        });
        reply.await
    }

    /// Returns the names, with that prefix, of locks that are held or waited for, `most` of them at the most.
    /// Every master looks at all of its keys, in steps between which it carries out other requests.
    pub(crate) async fn names(
        &self,
        prefix: &str,
        most: usize,
        reading: Reading,
    ) -> Result<Vec<Arc<str>>, EngineError> {
        let slots = self.router.a_slot_of_each_master().into_iter();
        let mut seen = HashSet::new();
        let masters = slots
            .map(|slot| self.keys.never_in(slot))
            .filter(|key| seen.insert(slot_of(key)));
        let scans = masters.map(|key| self.names_at(key, prefix, most, reading));
        let mut names = BTreeSet::new();
        for found in join_all(scans).await {
            names.extend(found?);
        }
        Ok(names.into_iter().take(most).collect())
    }

    /// Returns the names that the master of that key knows.
    async fn names_at(
        &self,
        key: String,
        prefix: &str,
        most: usize,
        reading: Reading,
    ) -> Result<BTreeSet<Arc<str>>, EngineError> {
        let (mut names, mut cursor) = (BTreeSet::new(), 0_u64);
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(self.keys.glob());
            scan.arg("COUNT").arg(KEYS_A_STEP);
            let step = self.command(Via::IoThread, &key, scan, reading.next());
            let (next, keys): (u64, Vec<Vec<u8>>) = step.await?;
            let keys = keys.iter().filter_map(|key| str::from_utf8(key).ok());
            let locks = keys.filter_map(|key| self.keys.lock_of(key));
            let locks = locks.filter(|lock| lock.starts_with(prefix));
            names.extend(locks.map(Arc::from));
            if next == 0 || names.len() >= most {
                return Ok(names);
            }
            cursor = next;
        }
    }
}

fn parse((holders, waiters, waiting): Sight) -> Result<View, EngineError> {
    let (pairs, _) = holders.as_chunks::<2>();
    let holders = pairs.iter().map(parse_holder);
    Ok(View {
        holders: holders.collect::<Result<_, _>>()?,
        waiters: waiters.iter().map(text).collect::<Result<_, _>>()?,
        waiting,
    })
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
