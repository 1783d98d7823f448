//! Reads who holds a lock and who waits for it.

use crate::engine::common::line::Line;
use crate::engine::error::EngineError;
use crate::engine::etcd::keys::Keys;
use crate::engine::etcd::lock::core::Core;
use crate::engine::etcd::wire::error::Failure;
use crate::engine::etcd::wire::messages::{KeyValue, RangeRequest, RangeResponse};
use crate::engine::token::Token;
use crate::engine::view::View;
use prost::bytes::Bytes;
use std::sync::Arc;

impl Core {
    /// Looks at a lock, and at its first waiters. It reads the whole line as of now, since its limits tell who holds the lock.
    pub(crate) async fn view(
        self: Arc<Self>,
        line: (Bytes, Bytes),
        most: usize,
    ) -> Result<View, EngineError> {
        let (method, read) = ("/etcdserverpb.KV/Range", RangeRequest::in_order(&line));
        let connection = self.client.connection().await?;
        let reply = connection.channel.call(method, &read).await;
        let RangeResponse { kvs, .. } = reply.map_err(Failure::into_engine_error)?;
        Ok(Line::new(kvs).view(most, |entry| text(&self.keys, entry)))
    }
}

/// Returns the token of a claim. What another client writes as a value may be empty: its key identifies it.
fn text(keys: &Keys, entry: &KeyValue) -> Box<str> {
    match Token::read(&entry.value) {
        Some(_) => String::from_utf8_lossy(&entry.value).into(),
        None => keys.shown(&entry.key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
