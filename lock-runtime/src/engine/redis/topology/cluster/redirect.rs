//! Redirects: a node's reply that another node owns the slot, and where the request goes then.

use crate::engine::error::EngineError;
use crate::engine::redis::topology::cluster::nodes::{Node, Nodes};
use crate::engine::redis::wire::error::redis_error;
use crate::engine::url::NodeAddress;
use redis::{ErrorKind, ServerErrorKind};
use std::sync::Arc;

/// The node that a request is redirected to. The redirecting node has not carried it out.
#[derive(Debug, PartialEq)]
pub(crate) enum Redirect {
    /// To that node from now on.
    Moved(NodeAddress),
    /// To that node, this time only.
    Ask(NodeAddress),
}

impl Redirect {
    /// Parses an error that the node at `host` returned.
    pub(crate) fn parse(error: &EngineError, host: &str) -> Option<Redirect> {
        let error = redis_error(error)?;
        let (text, _) = error.redirect_node()?;
        let (there, port) = text.rsplit_once(':')?;
        let there = match there {
            "" => host,
            "?" => return None,
            there => there,
        };
        let address = (there.to_owned(), port.parse().ok()?);
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::Moved) => Some(Redirect::Moved(address)),
            _ => Some(Redirect::Ask(address)),
        }
    }

    /// Sends the slot's requests to its new owner from now on, or returns the node to ask this time.
    pub(crate) fn follow(self, nodes: &Nodes, slot: u16) -> Result<Option<Arc<Node>>, EngineError> {
        match self {
            Redirect::Moved(address) => {
                nodes.set_owner(slot, nodes.node(&address)?);
                nodes.seeds.request_refresh();
                Ok(None)
            }
            Redirect::Ask(address) => nodes.node(&address).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::error::EngineErrorKind;

    fn at(host: &str, port: u16) -> NodeAddress {
        (host.to_owned(), port)
    }

    fn redirect(error: &str) -> Option<Redirect> {
        let value = redis::parse_redis_value(format!("-{error}\r\n").as_bytes()).unwrap();
        let error = EngineError::new(
            EngineErrorKind::Rejected,
            value.extract_error().unwrap_err(),
        );
        Redirect::parse(&error, "asked")
    }

    #[test]
    fn redirects_are_parsed() {
        use Redirect::{Ask, Moved};
        for (error, expected) in [
            ("MOVED 1 h:7", Some(Moved(at("h", 7)))),
            ("ASK 1 h:7", Some(Ask(at("h", 7)))),
            ("MOVED 1 :7", Some(Moved(at("asked", 7)))),
            ("ASK 1 ::1:7", Some(Ask(at("::1", 7)))),
            ("MOVED 1 ?:7", None),
            ("MOVED 1 h", None),
            ("MOVED 1 h:x", None),
            ("MOVED", None),
            ("TRYAGAIN Multiple keys request", None),
        ] {
            assert_eq!(redirect(error), expected, "{error}");
        }
    }
}
