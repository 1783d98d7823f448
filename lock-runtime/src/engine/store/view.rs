//! Who holds a lock and who waits for it, and which locks there are.

use crate::engine::error::EngineError;
use crate::engine::operations::Reading;
use crate::engine::store::StoreEngine;
use crate::engine::store::access::is_foreign;
use crate::engine::store::known::Known;
use crate::engine::store::take::foreign_holder;
use crate::engine::view::{View, ViewedHolder};
use crate::lock_info::LeaseInfo;
use crate::util::join_all::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most names that are asked for at once to find fewer.
const MAX_NAMES: usize = 1 << 20;

impl StoreEngine {
    pub(crate) async fn views(
        &self,
        names: &[Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> Result<Vec<View>, EngineError> {
        let is_only = names.len() == 1;
        let views = names.iter().map(async |name| {
            let mut known = self.core.known.get(name);
            match self.core.load(name, &mut known, deadline).await {
                Err(error) if is_foreign(&error) => return self.foreign(name, deadline).await,
                // Of a record of a later version there is nothing to be seen.
                Err(error) if error.is_retryable() || is_only => return Err(error),
                Err(_) => return Ok(View::default()),
                Ok(()) => {}
            }
            self.core.sweep(name, &known, deadline).await;
            Ok(self.view(&known, most))
        });
        join_all(views).await.into_iter().collect()
    }

    /// Shows a record that another program has written as a holder, since it keeps all others out.
    async fn foreign(&self, name: &str, deadline: Instant) -> Result<View, EngineError> {
        let loaded = self.core.look(name, deadline).await?;
        let holders = foreign_holder(&loaded).map(|token| ViewedHolder {
            token: token.into(),
            lease: LeaseInfo::Never,
            votes: None,
        });
        Ok(View {
            holders: holders.into_iter().collect(),
            ..View::default()
        })
    }

    fn view(&self, known: &Known, most: usize) -> View {
        let (record, now) = (&known.record, self.core.clock.now());
        let holders = record.holders.iter().filter_map(|holder| {
            let left = known.observer.left(holder, now, known.time);
            (holder.proof != 0 || !left.is_zero()).then(|| ViewedHolder {
                token: holder.token.to_string().into(),
                lease: LeaseInfo::Ends(left.min(Duration::from_millis(holder.ttl.into()))),
                votes: None,
            })
        });
        let waiters = record.waiters.iter().take(most);
        View {
            holders: holders.collect(),
            waiters: waiters.map(|it| it.token.to_string().into()).collect(),
            waiting: record.waiters.len() as u64,
        }
    }

    pub(crate) async fn names(
        &self,
        prefix: &str,
        most: usize,
        reading: Reading,
    ) -> Result<Vec<Arc<str>>, EngineError> {
        let (core, keys) = (&self.core, &self.core.keys);
        let mut asked = most;
        loop {
            let names = core.names(prefix, asked, reading.until).await?;
            let is_all = names.len() < asked || asked >= MAX_NAMES;
            let locks = names.into_iter().filter(|name| keys.is_lock(name));
            let locks = locks.map(async |name| {
                let name = Arc::from(name);
                let is_used = self.is_used(&name, reading.until).await?;
                Ok(is_used.then_some(name))
            });
            let locks: Result<Vec<_>, EngineError> = join_all(locks).await.into_iter().collect();
            let locks: Vec<_> = locks?.into_iter().flatten().take(most).collect();
            if is_all || locks.len() == most {
                return Ok(locks);
            }
            // Others are among them, and locks that are not in use.
            asked = asked.saturating_mul(2);
        }
    }

    /// Returns `false` if the record is only there for what it remembers.
    async fn is_used(&self, name: &Arc<str>, deadline: Instant) -> Result<bool, EngineError> {
        let mut known = self.core.known.get(name);
        match self.core.load(name, &mut known, deadline).await {
            Ok(()) => {
                self.core.sweep(name, &known, deadline).await;
                Ok(!known.record.is_idle())
            }
            Err(error) if error.is_retryable() => Err(error),
            // It can't be read: an operator should see that.
            Err(_) => Ok(true),
        }
    }
}
