//! The slot map: which node owns which slot.

use crate::engine::redis::hash_slot::SLOT_COUNT;
use crate::engine::url::NodeAddress;
use redis::{FromRedisValue, Value};
use std::ops::RangeInclusive;

/// The slot map as one node reports it.
#[derive(Debug, PartialEq)]
pub(crate) struct SlotMap {
    pub(crate) ranges: Vec<(RangeInclusive<u16>, NodeAddress)>,
    /// All nodes, those that own slots first.
    pub(crate) nodes: Vec<NodeAddress>,
}

impl SlotMap {
    /// Parses the reply to `CLUSTER SLOTS` from the node at `host`; returns `None` if no slot has an owner.
    pub(crate) fn parse(reply: &Value, host: &str) -> Option<SlotMap> {
        let Value::Array(entries) = reply else {
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
                && last < SLOT_COUNT
            {
                ranges.push((first..=last, master));
            }
            replicas.extend(others.iter().filter_map(|node| address(node, host)));
        }
        let mut nodes: Vec<NodeAddress> = Vec::new();
        for address in ranges.iter().map(|(_, master)| master).chain(&replicas) {
            if !nodes.contains(address) {
                nodes.push(address.clone());
            }
        }
        (!ranges.is_empty()).then_some(SlotMap { ranges, nodes })
    }
}

fn number(value: &Value) -> Option<u16> {
    u16::from_redis_value_ref(value).ok()
}

/// Parses a node's address. A node that does not know its own host is the one that replied; a node that must
/// not reveal its host name reports its IP address.
fn address(node: &Value, host: &str) -> Option<NodeAddress> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reply: &[u8]) -> Option<SlotMap> {
        SlotMap::parse(&redis::parse_redis_value(reply).unwrap(), "asked")
    }

    fn at(host: &str, port: u16) -> NodeAddress {
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
        let expected = SlotMap {
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
            let reply = format!("*1\r\n*3\r\n:0\r\n:9\r\n*3\r\n{host}:7\r\n$1\r\ni\r\n");
            assert_eq!(read(reply.as_bytes()).unwrap().nodes, [at("asked", 7)]);
        }
        let nameless = |more: &str| {
            let reply = format!("*1\r\n*3\r\n:0\r\n:9\r\n*4\r\n$1\r\n?\r\n:7\r\n$1\r\ni\r\n{more}");
            read(reply.as_bytes()).map(|map| map.nodes)
        };
        let number = "*2\r\n$2\r\nip\r\n$8\r\n10.0.0.1\r\n";
        assert_eq!(nameless(number), Some(vec![at("10.0.0.1", 7)]));
        assert_eq!(nameless("*0\r\n"), None);
    }

    #[test]
    fn an_invalid_reply_is_no_map() {
        for reply in [
            "*0\r\n",
            "$2\r\nOK\r\n",
            "*1\r\n*0\r\n",
            "*1\r\n:1\r\n",
            "*1\r\n*3\r\n:0\r\n:16384\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\ni\r\n",
            "*1\r\n*3\r\n:9\r\n:1\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\ni\r\n",
            "*1\r\n*3\r\n:0\r\n:-1\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\ni\r\n",
            "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\nh\r\n",
        ] {
            assert_eq!(read(reply.as_bytes()), None, "{reply}");
        }
    }
}
