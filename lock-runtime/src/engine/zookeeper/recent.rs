//! Nodes whose data are the last texts that were added to them: processes read all of these, so that none is
//! missed although one notification may stand for several.

use crate::engine::zookeeper::conn::session::Session;
use crate::engine::zookeeper::keys::parent;
use crate::engine::zookeeper::lock::containers::create_containers;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::jute::{Reader, Writer};
use crate::engine::zookeeper::wire::reply::{Reply, Stat};
use crate::engine::zookeeper::wire::request::{NodeKind, Request};
use crate::util::backoff::Backoff;
use crate::util::time::{deadline_in, now, sleep_until};
use std::time::Duration;
use tokio::time::Instant;

/// The most bytes and texts that such a node keeps, which many processes read when one is added.
const MAX_BYTES: usize = 16 * 1024;
const MAX_TEXTS: usize = 512;

/// Reads the texts, the earliest first. Anything may be in a node: at most the last ones are read.
pub(crate) fn texts(data: &[u8]) -> Vec<String> {
    let mut texts = Reader(data).texts().unwrap_or_default();
    texts.drain(..texts.len().saturating_sub(MAX_TEXTS));
    texts
}

/// Returns the data with those texts as the last ones, and without the first ones if there are too many.
fn with(data: &[u8], added: &[String]) -> Vec<u8> {
    let mut texts = texts(data);
    texts.retain(|other| !added.contains(other));
    texts.extend_from_slice(added);
    let (mut bytes, mut kept) = (4, 0);
    for text in texts.iter().rev().take(MAX_TEXTS) {
        bytes += 4 + text.len();
        if bytes > MAX_BYTES {
            break;
        }
        kept += 1;
    }
    let kept = &texts[texts.len() - kept..];
    let count = Writer::new().int(i32::try_from(kept.len()).unwrap_or_default());
    let written = kept.iter().fold(count, |all, text| all.text(text));
    written.body()
}

/// Adds texts to the node, if there is one. Returns what the server says of that.
pub(crate) async fn add(
    session: &Session,
    path: &str,
    texts: &[String],
    deadline: Instant,
) -> Result<Stat, Failure> {
    let mut backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));
    loop {
        let read = Request::Data {
            path: path.to_owned(),
            watch: false,
        };
        let (data, stat) = match session.request(read, deadline).await {
            Ok(Reply::Data(data, stat)) => (data, stat),
            Ok(_) => return Err(Failure::Malformed),
            Err(failure) => return Err(failure),
        };
        let write = Request::SetData {
            path: path.to_owned(),
            data: with(&data, texts),
            version: Some(stat.version),
        };
        match session.request(write, deadline).await {
            Ok(Reply::Changed(stat)) => return Ok(stat),
            Ok(_) => return Err(Failure::Malformed),
            // Another client was faster.
            Err(Failure::BadVersion) if now() < deadline => {
                sleep_until(deadline_in(backoff.pause())).await
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Creates the node, unless it exists.
pub(crate) async fn create(
    session: &Session,
    path: &str,
    kind: NodeKind,
    deadline: Instant,
) -> Result<(), Failure> {
    for has_parent in [false, true] {
        let create = Request::create(path.to_owned(), kind);
        match session.request(create, deadline).await {
            Ok(_) | Err(Failure::Exists) => return Ok(()),
            Err(Failure::NoNode) if !has_parent => {
                create_containers(session, parent(path), deadline).await?;
            }
            Err(failure) => return Err(failure),
        }
    }
    Err(Failure::NoNode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_texts_are_kept() {
        let mut data = Vec::new();
        for n in 0..2000 {
            data = with(&data, &[n.to_string()]);
            assert!(data.len() <= MAX_BYTES);
        }
        let kept = texts(&data);
        assert_eq!(kept.len(), MAX_TEXTS);
        assert_eq!(kept.last().map(String::as_str), Some("1999"));
        data = with(&data, &["1999".into()]);
        assert_eq!(texts(&data), kept, "a text that is added again");
    }

    #[test]
    fn a_long_text_takes_the_place_of_others() {
        let mut data = with(&[], &["one".into(), "\0two\n".into()]);
        assert_eq!(texts(&data), ["one", "\0two\n"]);
        data = with(&data, &["x".repeat(MAX_BYTES - 12)]);
        assert_eq!(texts(&data).len(), 1);
        data = with(&data, &["x".repeat(MAX_BYTES)]);
        assert_eq!(texts(&data), [""; 0]);
    }

    #[test]
    fn anything_may_be_in_a_node() {
        let many = (0..9000).fold(Writer::new().int(9000), |all, _| all.text("x"));
        assert_eq!(texts(&many.body()).len(), MAX_TEXTS);
        for garbage in [
            &b"hello world"[..],
            &[0xff; 64],
            &[0, 0, 0, 1, 0, 0, 0, 1, 0xff],
        ] {
            assert_eq!(texts(garbage), [""; 0]);
            assert_eq!(texts(&with(garbage, &["ask".into()])), ["ask"]);
        }
    }
}
