//! Ranges that are read in pages, so that no reply is too large, whatever others have written.

use crate::engine::error::EngineError;
use crate::engine::etcd::keys::Range;
use crate::engine::etcd::lock::core::Core;
use crate::engine::etcd::wire::messages::{KeyValue, RangeRequest};
use crate::engine::operations::Reading;
use prost::bytes::Bytes;

/// The greatest number of keys in a page: a server stores no key and value of more than 1.5 MiB, unless it is
/// configured to.
const PAGE: usize = 32;

/// What is left to read of a range, in the order of the keys.
pub(crate) struct Pages<'a> {
    core: &'a Core,
    /// `None` at the end.
    rest: Option<Range>,
    keys_only: bool,
    reading: Reading,
}

impl Core {
    /// Reads a range.
    pub(crate) fn pages(&self, range: Range, keys_only: bool, reading: Reading) -> Pages<'_> {
        Pages {
            core: self,
            rest: Some(range),
            keys_only,
            reading,
        }
    }
}

impl Pages<'_> {
    /// Reads the next page; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<KeyValue>>, EngineError> {
        let Some((key, range_end)) = self.rest.take() else {
            return Ok(None);
        };
        let read = RangeRequest {
            key,
            range_end: range_end.clone(),
            limit: PAGE as i64,
            keys_only: self.keys_only,
            ..RangeRequest::default()
        };
        let page = self
            .core
            .reply_by(self.reading.next(), self.core.range(&read))
            .await?
            .kvs;
        if let Some(last) = page.get(PAGE - 1) {
            self.rest = Some((Bytes::from([&last.key[..], b"\0"].concat()), range_end));
        }
        Ok(Some(page))
    }

    /// Goes on at that key, unless all has been read.
    pub(crate) fn skip_to(&mut self, key: Bytes) {
        if let Some((next, _)) = &mut self.rest {
            *next = key;
        }
    }
}
