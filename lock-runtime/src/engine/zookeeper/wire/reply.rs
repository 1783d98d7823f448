//! The replies to the requests within a session.

use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::jute::Reader;
use crate::engine::zookeeper::wire::request::{NodeKind, Request};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Done,
    /// The path of a created node.
    Created(String),
    Changed(Stat),
    /// One for each request of the transaction.
    Together(Vec<Reply>),
    Data(Vec<u8>, Stat),
    /// The node exists.
    Found(Stat),
    Children(Vec<String>),
}

impl Request {
    /// Parses the part of a successful reply that follows the header.
    pub(crate) fn parse_reply(&self, body: &[u8]) -> Result<Reply, Failure> {
        let mut body = Reader(body);
        match self {
            Request::Together(requests) => parse_replies(requests, &mut body),
            _ => self.parse_own(&mut body).ok_or(Failure::Malformed),
        }
    }

    fn parse_own(&self, body: &mut Reader<'_>) -> Option<Reply> {
        Some(match self {
            Request::Create { kind, .. } => {
                let path = body.text()?.to_owned();
                if *kind == NodeKind::Container {
                    Stat::parse(body)?;
                }
                Reply::Created(path)
            }
            Request::SetData { .. } => Reply::Changed(Stat::parse(body)?),
            Request::Data { .. } => {
                let data = body.bytes()?.to_owned();
                Reply::Data(data, Stat::parse(body)?)
            }
            Request::Exists { .. } => Reply::Found(Stat::parse(body)?),
            Request::Children { .. } => Reply::Children(body.texts()?),
            Request::Together(_) => return None,
            Request::Delete { .. }
            | Request::Sync { .. }
            | Request::Ping
            | Request::CloseSession => Reply::Done,
        })
    }

    /// Returns what a transaction calls the reply.
    fn kind_of_reply(&self) -> i32 {
        match self.operation() {
            19 => 15,
            operation => operation,
        }
    }
}

/// Parses the replies of a transaction. If one of its requests was refused, none was carried out.
fn parse_replies(requests: &[Request], body: &mut Reader<'_>) -> Result<Reply, Failure> {
    let mut replies = Vec::with_capacity(requests.len());
    for request in requests {
        let mut header = || Some((body.int()?, body.bool()?, body.int()?));
        match header().ok_or(Failure::Malformed)? {
            (-1, false, _) => match body.int().ok_or(Failure::Malformed)? {
                // It was not at fault itself.
                0 | -2 => {}
                error => return Err(Failure::of(error)),
            },
            (kind, false, _) if kind == request.kind_of_reply() => {
                replies.push(request.parse_own(body).ok_or(Failure::Malformed)?);
            }
            _ => return Err(Failure::Malformed),
        }
    }
    match replies.len() == requests.len() {
        true => Ok(Reply::Together(replies)),
        false => Err(Failure::Malformed),
    }
}

/// What a server says of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    /// The id of the transaction that changed the data last.
    pub(crate) zxid: u64,
    /// When that was, by the clock of the leader, since the beginning of 1970.
    pub(crate) changed_at: Duration,
    /// How many times the data was changed.
    pub(crate) version: i32,
    /// The number of children.
    pub(crate) children: i32,
}

impl Stat {
    fn parse(body: &mut Reader<'_>) -> Option<Stat> {
        let (_created, zxid) = (body.long()?, u64::try_from(body.long()?).ok()?);
        let (_created_at, changed_at) = (body.long()?, u64::try_from(body.long()?).ok()?);
        let (version, _of_children, _of_access) = (body.int()?, body.int()?, body.int()?);
        let (_owner, _length) = (body.long()?, body.int()?);
        let (children, _zxid_of_children) = (body.int()?, body.long()?);
        Some(Stat {
            zxid,
            changed_at: Duration::from_millis(changed_at),
            version,
            children,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::zookeeper::wire::jute::Writer;

    #[test]
    fn malformed_replies_are_refused() {
        let request = Request::Children {
            path: "/a".into(),
            watch: false,
        };
        assert!(request.parse_reply(&[0, 0, 0, 9]).is_err());
    }

    /// Returns the reply to a claim's creation together with a write to its container.
    fn enter(results: impl FnOnce(Writer) -> Writer) -> Result<Reply, Failure> {
        let requests = vec![
            Request::create("/a/x-".into(), NodeKind::Numbered),
            Request::touch("/a".into()),
        ];
        let reply = results(Writer::new()).int(-1).bool(true).int(-1).finish();
        Request::Together(requests).parse_reply(&reply[4..])
    }

    #[test]
    fn a_transaction_counts_the_children() {
        let stat = |message: Writer| {
            let times = message.long(1).long(7).long(0).long(0);
            let versions = times.int(0).int(0).int(0);
            versions.long(0).int(0).int(3).long(7)
        };
        let reply = enter(|results| {
            let created = results.int(1).bool(false).int(0).text("/a/x-1");
            stat(created.int(5).bool(false).int(0))
        });
        let Ok(Reply::Together(replies)) = reply else {
            panic!("{reply:?}");
        };
        assert!(matches!(&replies[0], Reply::Created(path) if path == "/a/x-1"));
        let changed = &replies[1];
        assert!(matches!(
            changed,
            Reply::Changed(Stat {
                zxid: 7,
                children: 3,
                ..
            })
        ));
    }

    /// The server names the request at fault, and those before and behind it.
    #[test]
    fn a_refused_transaction_names_the_reason() {
        let refused = |errors: [i32; 2]| {
            enter(|results| {
                let each =
                    |results: Writer, error| results.int(-1).bool(false).int(error).int(error);
                errors.into_iter().fold(results, each)
            })
        };
        let reply = refused([0, -102]);
        assert!(matches!(reply, Err(Failure::NoPermission)), "{reply:?}");
        let reply = refused([-101, -2]);
        assert!(matches!(reply, Err(Failure::NoNode)), "{reply:?}");
        let reply = refused([0, 0]);
        assert!(matches!(reply, Err(Failure::Malformed)), "{reply:?}");
    }
}
