//! Reads who holds a lock and who waits for it, and which locks there are.

use crate::engine::common::line::Line;
use crate::engine::error::EngineError;
use crate::engine::operations::Reading;
use crate::engine::view::View;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::lock::entry::Child;
use crate::engine::zookeeper::lock::look::look_in_sync;
use crate::engine::zookeeper::lock::read::{children_of, stat_in_reply, submit_stat};
use crate::limit::Limit;
use crate::util::join_all::join_all;
use std::sync::Arc;
use tokio::time::Instant;

/// How many nodes are asked for at once.
const WINDOW: usize = 256;

impl ZooKeeperEngine {
    /// Looks at locks, and at their first waiters, in the session of the locks with the default ttl.
    ///
    /// It sees all that was done before it, since the server first catches up with the leader. No write
    /// proves that this leader still is one: for the seconds that a replaced one takes to notice, a view may
    /// show the past.
    pub(crate) async fn views(
        &self,
        names: &[Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> Result<Vec<View>, EngineError> {
        let locks = names.iter().map(|name| self.claims.paths.lock(name));
        let (locks, session) = (
            locks.collect::<Vec<_>>(),
            self.claims.sessions.of(self.default_ttl),
        );
        let looks = async move {
            // As one that may share the lock, to which it matters whether the first claim was downgraded.
            let look = |lock| look_in_sync(&session, lock, Limit::UNLIMITED, deadline);
            let lines = join_all(locks.iter().map(|lock| look(lock))).await;
            lines.into_iter().collect::<Result<Vec<_>, _>>()
        };
        let lines = self.claims.run(deadline, looks).await?.into_iter();
        let view = |line: Line<Child>| line.view(most, Child::text);
        Ok(lines
            .map(|line| line.map_or_else(View::default, view))
            .collect())
    }

    /// Returns the names of locks whose nodes have children. The node of a lock stays for a while when it is
    /// free.
    pub(crate) async fn names(
        &self,
        prefix: &str,
        most: usize,
        reading: Reading,
    ) -> Result<Vec<Arc<str>>, EngineError> {
        let (claims, prefix) = (self.claims.clone(), prefix.to_owned());
        let session = claims.sessions.of(self.default_ttl);
        let names = async move {
            let paths = &claims.paths;
            let nodes = children_of(&session, paths.directory(), reading.next()).await?;
            let names = nodes.iter().filter_map(|node| paths.name(node));
            let mut names: Vec<_> = names.filter(|name| name.starts_with(&prefix)).collect();
            names.sort_unstable();
            let mut used: Vec<Arc<str>> = Vec::new();
            for names in names.chunks(WINDOW) {
                let deadline = reading.next();
                let asked = |name: &String| submit_stat(&session, paths.lock(name), deadline);
                let asked: Vec<_> = names.iter().map(asked).collect();
                for (name, asked) in names.iter().zip(asked) {
                    if used.len() == most {
                        return Ok(used);
                    }
                    let stat = stat_in_reply(asked).await?;
                    if stat.is_some_and(|stat| stat.children > 0) {
                        used.push(name.as_str().into());
                    }
                }
            }
            Ok(used)
        };
        self.claims.run(reading.until, names).await
    }
}
