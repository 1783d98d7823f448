//! Reads who holds a lock and who waits for it, and which locks there are.

use crate::engine::common::line::Line;
use crate::engine::error::EngineError;
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::keys::{Keys, Range};
use crate::engine::etcd::lock::core::Core;
use crate::engine::etcd::wire::messages::{KeyValue, TxnRequest};
use crate::engine::etcd::wire::txn;
use crate::engine::operations::Reading;
use crate::engine::token::Token;
use crate::engine::view::View;
use std::sync::Arc;
use tokio::time::Instant;

impl EtcdEngine {
    pub(crate) async fn views(
        &self,
        names: &[Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> Result<Vec<View>, EngineError> {
        let lines = names.iter().map(|name| self.core.keys.line(name));
        let lines: Vec<_> = lines.collect();
        self.core
            .run(deadline, move |core| core.views(lines, most))
            .await
    }

    pub(crate) async fn names(
        &self,
        prefix: &str,
        most: usize,
        reading: Reading,
    ) -> Result<Vec<Arc<str>>, EngineError> {
        let ranges = self.core.keys.lines(prefix);
        let names = move |core: Arc<Core>| core.names(ranges, most, reading);
        self.core.run(reading.until, names).await
    }
}

impl Core {
    /// Looks at locks, and at their first waiters. It reads the whole lines as of now, since who holds a lock
    /// depends on the limits of all.
    pub(crate) async fn views(
        self: Arc<Self>,
        lines: Vec<Range>,
        most: usize,
    ) -> Result<Vec<View>, EngineError> {
        let read = TxnRequest {
            success: lines.iter().map(txn::range).collect(),
            ..TxnRequest::default()
        };
        let lines = self.execute(read).await?.ranges();
        let views = lines.map(|line| Line::new(line).view(most, |entry| text(&self.keys, entry)));
        Ok(views.collect())
    }

    /// Returns the first locks in those ranges that have claims.
    pub(crate) async fn names(
        self: Arc<Self>,
        ranges: Vec<Range>,
        most: usize,
        reading: Reading,
    ) -> Result<Vec<Arc<str>>, EngineError> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for range in ranges {
            let mut pages = self.pages(range, true, reading);
            while names.len() < most
                && let Some(page) = pages.next().await?
            {
                names.extend(
                    page.iter()
                        .filter_map(|entry| self.keys.name_of(&entry.key))
                        .map(Arc::from),
                );
                // The claims of a line are side by side.
                names.dedup();
                let last = page.last().and_then(|entry| self.keys.name_of(&entry.key));
                if let Some(name) = last {
                    pages.skip_to(self.keys.line(&name).1);
                }
            }
        }
        names.truncate(most);
        Ok(names)
    }
}

/// Returns the token of a claim. What another client writes as a value may be empty: its key identifies it.
pub(crate) fn text(keys: &Keys, entry: &KeyValue) -> Box<str> {
    match Token::read(&entry.value) {
        Some(_) => String::from_utf8_lossy(&entry.value).into(),
        None => keys.shown(&entry.key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::bytes::Bytes;

    #[test]
    fn a_claim_is_shown_by_its_token_and_another_client_by_its_key() {
        let keys = Keys::new("app/lock:");
        let reader = b"e823e7be01c58c509a20e4619a300481/2047";
        let mutex = b"app/lock:a/694d8c1c1b0e5a0f";
        for (key, value, expected) in [
            (
                &mutex[..],
                &reader[..],
                "e823e7be01c58c509a20e4619a300481/2047",
            ),
            (mutex, b"", "a/694d8c1c1b0e5a0f"),
            (mutex, b"worker-7", "a/694d8c1c1b0e5a0f"),
            (
                mutex,
                b"e823e7be01c58c509a20e4619a300481/0",
                "a/694d8c1c1b0e5a0f",
            ),
            (b"app/lock:a/\xff", b"\xff", "a/\u{fffd}"),
        ] {
            let entry = KeyValue {
                key: Bytes::from_static(key),
                value: Bytes::from_static(value),
                ..KeyValue::default()
            };
            assert_eq!(&*text(&keys, &entry), expected);
        }
    }
}
