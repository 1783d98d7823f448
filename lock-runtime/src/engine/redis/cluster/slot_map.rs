//! Which node serves which slot, as the nodes say.

use crate::engine::error::EngineError;
use crate::engine::redis::hash_slot::SLOTS;
use redis::{ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value};
use std::ops::RangeInclusive;

/// Host and port.
pub(crate) type Address = (String, u16);

/// What a node knows of its cluster.
#[derive(Debug, PartialEq)]
pub(crate) struct Map {
    pub(crate) ranges: Vec<(RangeInclusive<u16>, Address)>,
    /// All nodes, those that serve slots first.
    pub(crate) nodes: Vec<Address>,
}

impl Map {
    /// Reads the answer to `CLUSTER SLOTS` of the node at that host; none if it serves for nothing.
    pub(crate) fn read(answer: &Value, host: &str) -> Option<Map> {
        let Value::Array(entries) = answer else {
            return None;
        };
        let mut ranges = Vec::new();
        let mut replicas = Vec::new();
        for entry in entries {
            let Value::Array(entry) = entry else {
                return None;
            };
            let [first, last, master, others @ ..] = &entry[..] else {
                continue;
            };
            let (first, last) = (number(first)?, number(last)?);
            if let Some(master) = address(master, host)
                && first <= last
                && last < SLOTS
            {
                ranges.push((first..=last, master));
            }
            replicas.extend(others.iter().filter_map(|node| address(node, host)));
        }
        let mut nodes: Vec<Address> = Vec::new();
        for address in ranges.iter().map(|(_, master)| master).chain(&replicas) {
            if !nodes.contains(address) {
                nodes.push(address.clone());
            }
        }
        (!ranges.is_empty()).then_some(Map { ranges, nodes })
    }
}

fn number(value: &Value) -> Option<u16> {
    u16::from_redis_value_ref(value).ok()
}

/// A node that doesn't know its own host is where it was asked; one that may not tell it tells its
/// number.
fn address(node: &Value, host: &str) -> Option<Address> {
    let Value::Array(node) = node else {
        return None;
    };
    let port = number(node.get(1)?)?;
    let text = match node.first()? {
        Value::Nil => String::new(),
        text => String::from_redis_value_ref(text).ok()?,
    };
    let host = match &*text {
        "" => host.to_owned(),
        "?" => {
            let more = node.get(3)?.as_map_iter()?;
            let named = |(name, value): (&Value, &Value)| {
                let name = String::from_redis_value_ref(name).ok()?;
                (name == "ip").then(|| String::from_redis_value_ref(value).ok())?
            };
            more.filter_map(named).next()?
        }
        _ => text,
    };
    Some((host, port))
}

/// Where a node sends a request that it has not carried out.
#[derive(Debug, PartialEq)]
pub(crate) enum Redirection {
    /// There, from now on.
    Moved(Address),
    /// There, this time.
    Ask(Address),
}

impl Redirection {
    /// Whether it was sent elsewhere, wherever that is.
    pub(crate) fn is_one(error: &EngineError) -> bool {
        let error = error.source.downcast_ref::<RedisError>();
        error.is_some_and(|error| error.redirect_node().is_some())
    }

    /// Reads the error of the node at that host.
    pub(crate) fn read(error: &EngineError, host: &str) -> Option<Redirection> {
        let error = error.source.downcast_ref::<RedisError>()?;
        let (text, _) = error.redirect_node()?;
        let (there, port) = text.rsplit_once(':')?;
        let there = match there {
            "" => host,
            "?" => return None,
            there => there,
        };
        let address = (there.to_owned(), port.parse().ok()?);
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::Moved) => Some(Redirection::Moved(address)),
            _ => Some(Redirection::Ask(address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::error::Fault;

    fn read(answer: &[u8]) -> Option<Map> {
        Map::read(&redis::parse_redis_value(answer).unwrap(), "asked")
    }

    fn at(host: &str, port: u16) -> Address {
        (host.to_owned(), port)
    }

    #[test]
    fn ranges_and_nodes() {
        let map = read(
            b"*3\r\n\
              *4\r\n:0\r\n:5460\r\n*3\r\n$2\r\nh1\r\n:1\r\n$2\r\ni1\r\n*3\r\n$2\r\nh4\r\n:4\r\n$2\r\ni4\r\n\
              *3\r\n:5461\r\n:5461\r\n*4\r\n$2\r\nh2\r\n:2\r\n$2\r\ni2\r\n*0\r\n\
              *3\r\n:5462\r\n:16383\r\n*3\r\n$2\r\nh1\r\n:1\r\n$2\r\ni1\r\n",
        );
        let expected = Map {
            ranges: vec![
                (0..=5460, at("h1", 1)),
                (5461..=5461, at("h2", 2)),
                (5462..=16383, at("h1", 1)),
            ],
            nodes: vec![at("h1", 1), at("h2", 2), at("h4", 4)],
        };
        assert_eq!(map, Some(expected));
    }

    #[test]
    fn a_host_may_be_unknown() {
        for host in ["$-1\r\n", "$0\r\n\r\n"] {
            let answer = format!("*1\r\n*3\r\n:0\r\n:9\r\n*3\r\n{host}:7\r\n$1\r\ni\r\n");
            assert_eq!(read(answer.as_bytes()).unwrap().nodes, [at("asked", 7)]);
        }
        let nameless = |more: &str| {
            let answer =
                format!("*1\r\n*3\r\n:0\r\n:9\r\n*4\r\n$1\r\n?\r\n:7\r\n$1\r\ni\r\n{more}");
            read(answer.as_bytes()).map(|map| map.nodes)
        };
        let number = "*2\r\n$2\r\nip\r\n$8\r\n10.0.0.1\r\n";
        assert_eq!(nameless(number), Some(vec![at("10.0.0.1", 7)]));
        assert_eq!(nameless("*0\r\n"), None);
    }

    #[test]
    fn nonsense_is_no_map() {
        for answer in [
            "*0\r\n",
            "$2\r\nOK\r\n",
            "*1\r\n*0\r\n",
            "*1\r\n:1\r\n",
            "*1\r\n*3\r\n:0\r\n:16384\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\ni\r\n",
            "*1\r\n*3\r\n:9\r\n:1\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\ni\r\n",
            "*1\r\n*3\r\n:0\r\n:-1\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\ni\r\n",
            "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\nh\r\n",
        ] {
            assert_eq!(read(answer.as_bytes()), None, "{answer}");
        }
    }

    fn redirection(error: &str) -> Option<Redirection> {
        let value = redis::parse_redis_value(format!("-{error}\r\n").as_bytes()).unwrap();
        let error = EngineError::new(Fault::Refused, value.extract_error().unwrap_err());
        Redirection::read(&error, "asked")
    }

    #[test]
    fn redirections() {
        use Redirection::{Ask, Moved};
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
            assert_eq!(redirection(error), expected, "{error}");
        }
    }
}
