//! The requests within a session.

use crate::engine::zookeeper::wire::jute::Writer;
use crate::engine::zookeeper::wire::messages::Watch;

/// A request within a session.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Create {
        path: String,
        kind: NodeKind,
        data: Vec<u8>,
    },
    Delete {
        path: String,
    },
    /// Asks for the node if it exists.
    Exists {
        path: String,
    },
    Data {
        path: String,
        watch: bool,
    },
    SetData {
        path: String,
        data: Vec<u8>,
        /// The version that the data must have until then; any if there is none.
        version: Option<i32>,
    },
    Children {
        path: String,
        watch: bool,
    },
    /// Has the server catch up with the leader before later reads.
    Sync {
        path: String,
    },
    /// All of these or none, in one transaction.
    Together(Vec<Request>),
    Ping,
    CloseSession,
}

/// Who may read and change the nodes that a client creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Anyone,
    /// Those who log in with the same credentials.
    Creator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// Ends with the session.
    Ephemeral,
    /// Ends with the session; the server appends a number that increases from child to child.
    Numbered,
    /// Ends when it has no children any more.
    Container,
    /// Ends when it is deleted.
    Persistent,
}

impl Request {
    /// Returns the request that creates a node without data.
    pub(crate) fn create(path: String, kind: NodeKind) -> Request {
        let data = Vec::new();
        Request::Create { path, kind, data }
    }

    /// Returns the request that writes a node that has no data, so that its reply describes the node.
    pub(crate) fn touch(path: String) -> Request {
        Request::SetData {
            path,
            data: Vec::new(),
            version: None,
        }
    }

    /// Returns `true` if the reply needs the consent of a majority of the servers.
    pub(crate) fn is_write(&self) -> bool {
        matches!(
            self,
            Request::Create { .. }
                | Request::Delete { .. }
                | Request::SetData { .. }
                | Request::Together(_)
        )
    }

    /// Returns the watch that the request leaves on the server.
    pub(crate) fn watch(&self) -> Option<Watch> {
        match self {
            Request::Data { path, watch: true } => Some(Watch::Node(path.clone())),
            Request::Children { path, watch: true } => Some(Watch::Children(path.clone())),
            _ => None,
        }
    }

    pub(crate) fn encode(&self, xid: i32, access: Access) -> Vec<u8> {
        let header = Writer::new().int(xid).int(self.operation());
        self.write(header, access).finish()
    }

    pub(crate) fn operation(&self) -> i32 {
        match self {
            Request::Create { kind, .. } => match kind {
                NodeKind::Ephemeral | NodeKind::Numbered | NodeKind::Persistent => 1,
                NodeKind::Container => 19,
            },
            Request::Delete { .. } => 2,
            Request::Exists { .. } => 3,
            Request::Data { .. } => 4,
            Request::SetData { .. } => 5,
            Request::Children { .. } => 8,
            Request::Sync { .. } => 9,
            Request::Ping => 11,
            Request::Together(_) => 14,
            Request::CloseSession => -11,
        }
    }

    /// Writes the part that follows the header.
    fn write(&self, message: Writer, access: Access) -> Writer {
        match self {
            Request::Create { path, kind, data } => {
                let (scheme, id) = match access {
                    Access::Anyone => ("world", "anyone"),
                    Access::Creator => ("auth", ""),
                };
                let flags = match kind {
                    NodeKind::Persistent => 0,
                    NodeKind::Ephemeral => 1,
                    NodeKind::Numbered => 3,
                    NodeKind::Container => 4,
                };
                let message = message.text(path).bytes(data);
                // A list of one entry, with all permissions.
                let message = message.int(1).int(31).text(scheme).text(id);
                message.int(flags)
            }
            Request::Delete { path } => message.text(path).int(-1),
            Request::Exists { path } => message.text(path).bool(false),
            Request::Data { path, watch } | Request::Children { path, watch } => {
                message.text(path).bool(*watch)
            }
            Request::SetData {
                path,
                data,
                version,
            } => {
                let message = message.text(path).bytes(data);
                message.int(version.unwrap_or(-1))
            }
            Request::Sync { path } => message.text(path),
            Request::Together(requests) => {
                let all = requests.iter().fold(message, |message, request| {
                    let header = message.int(request.operation()).bool(false).int(-1);
                    request.write(header, access)
                });
                all.int(-1).bool(true).int(-1)
            }
            Request::Ping | Request::CloseSession => message,
        }
    }
}
