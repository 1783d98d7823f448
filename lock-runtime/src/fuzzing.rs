//! The parsers of what servers send and users write, each as a function that `tests/parsers` calls with any
//! bytes.
//!
//! A function panics if its parser does, or if what it finds depends on how the bytes arrived.

/// Reads the replies of Redis.
#[cfg(feature = "redis")]
pub fn redis(bytes: &[u8]) {
    use crate::engine::redis::conn::subscription::{Channels, parse_message};
    use crate::engine::redis::topology::cluster::redirect::Redirect;
    use crate::engine::redis::topology::cluster::slot_map::SlotMap;
    use crate::engine::redis::wire::error::{error_kind, with_message};
    use crate::engine::redis::wire::reply::{granted, length, parse};
    use ::redis::Value;

    let mut rest = bytes;
    while let Ok(Some(end)) = length(rest) {
        let (reply, others) = rest.split_at(end);
        rest = others;
        assert_eq!(length(reply), Ok(Some(end)), "alone");
        assert_eq!(length(&reply[..end - 1]), Ok(None), "without its last byte");
        let value = parse(reply);
        let expected = ::redis::parse_redis_value(reply);
        match (&value, &expected) {
            // Not compared as values, of which one is not a number.
            (Ok(value), Ok(expected)) => assert_eq!(format!("{value:?}"), format!("{expected:?}")),
            (value, expected) => assert_eq!(value.is_ok(), expected.is_ok(), "{expected:?}"),
        }
        let Ok(value) = value else { continue };
        granted(&value);
        SlotMap::parse(&value, "asked");
        if let Value::Array(message) | Value::Push { data: message, .. } = &value {
            let known = Channels {
                asks: "lock:::asks".to_owned(),
                recalls: "lock:::recalls:7be01c5".to_owned(),
            };
            parse_message(message, &known);
        }
        if let Err(error) = value.extract_error() {
            Redirect::parse(&with_message(error_kind(&error), error), "asked");
        }
    }
}

/// Reads the messages of other clients on PostgreSQL.
#[cfg(feature = "postgres")]
pub fn postgres(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        crate::engine::postgres::conn::listen::reconnect::MESSAGES.parse(text);
    }
}

/// Reads the frames of gRPC, and their messages as each of those that etcd sends.
#[cfg(feature = "etcd")]
pub fn etcd(bytes: &[u8]) {
    use crate::engine::common::line::Line;
    use crate::engine::etcd::wire::frames::Frames;
    use crate::engine::etcd::wire::messages::{
        AlarmResponse, AuthenticateResponse, KeepAliveResponse, LeaseGrantResponse,
        MemberListResponse, RangeResponse, StatusResponse, TxnResponse, WatchResponse,
    };
    use crate::limit::Limit;
    use prost::Message;

    let messages = |parts: &[&[u8]]| {
        let (mut frames, mut messages) = (Frames::default(), Vec::new());
        for part in parts {
            frames.extend(part);
            while let Ok(Some(message)) = frames.next_message() {
                messages.push(message);
            }
        }
        messages
    };
    let found = messages(&[bytes]);
    let (one, other) = bytes.split_at(bytes.len() / 2);
    assert_eq!(messages(&[one, other]), found, "in two parts");
    for message in found {
        let _ = AlarmResponse::decode(&*message);
        let _ = AuthenticateResponse::decode(&*message);
        let _ = KeepAliveResponse::decode(&*message);
        let _ = LeaseGrantResponse::decode(&*message);
        let _ = MemberListResponse::decode(&*message);
        let _ = StatusResponse::decode(&*message);
        let _ = WatchResponse::decode(&*message);
        let _ = TxnResponse::decode(&*message).map(TxnResponse::parts);
        if let Ok(range) = RangeResponse::decode(message) {
            let line = Line::new(range.kvs);
            let last = line.entries().last().cloned();
            line.place_of(|entry| Some(entry) == last.as_ref());
            line.has_room_for(Limit::EXCLUSIVE);
        }
    }
}

/// Reads the messages of ZooKeeper, and the replies in them as that to each request.
#[cfg(feature = "zookeeper")]
pub fn zookeeper(bytes: &[u8]) {
    use crate::engine::zookeeper::lock::entry::line_of;
    use crate::engine::zookeeper::wire::frames::Frames;
    use crate::engine::zookeeper::wire::messages::{Incoming, Welcome};
    use crate::engine::zookeeper::wire::reply::Reply;
    use crate::engine::zookeeper::wire::request::{NodeKind, Request};

    let messages = |parts: &[&[u8]]| {
        let (mut frames, mut messages) = (Frames::default(), Vec::new());
        for part in parts {
            frames.extend(part);
            while let Ok(Some(message)) = frames.next_message() {
                messages.push(message.to_vec());
            }
        }
        messages
    };
    let path = || "/a".to_owned();
    let create = |kind| Request::create(path(), kind);
    let set_data = || Request::touch(path());
    let watch = true;
    let requests = [
        create(NodeKind::Numbered),
        create(NodeKind::Container),
        set_data(),
        Request::Data {
            path: path(),
            watch,
        },
        Request::Children {
            path: path(),
            watch,
        },
        Request::Exists { path: path() },
        Request::Together(vec![create(NodeKind::Numbered), set_data()]),
        Request::Together(vec![
            create(NodeKind::Container),
            create(NodeKind::Numbered),
        ]),
    ];
    let found = messages(&[bytes]);
    let (one, other) = bytes.split_at(bytes.len() / 2);
    assert_eq!(messages(&[one, other]), found, "in two parts");
    for message in found {
        Welcome::parse(&message);
        let Some(Incoming::Reply {
            result: Ok(body), ..
        }) = Incoming::parse(&message)
        else {
            continue;
        };
        for request in &requests {
            let Ok(Reply::Children(mut names)) = request.parse_reply(body) else {
                continue;
            };
            let line = line_of(&names);
            names.reverse();
            assert_eq!(line_of(&names).entries(), line.entries(), "in reverse");
        }
    }
}

/// Reads what servers of MySQL send: the dialog of a login, and replies.
#[cfg(feature = "mysql")]
pub fn mysql(bytes: &[u8]) {
    use crate::config::Config;
    use crate::engine::mysql::address::Address;
    use crate::engine::mysql::wire::login::{FLAGS, log_in};
    use crate::engine::mysql::wire::reply::{Format, read_reply};
    use std::pin::pin;
    use std::task::{Context, Waker};

    let url = "mysql://me@h/shop?get-server-public-key=true";
    let Ok(address) = Address::parse(url, &Config::new(url)) else {
        unreachable!("`{url}` is an address");
    };
    let login = ("me".to_owned(), "secret".to_owned());
    let read = async {
        for host in [Some("h"), None] {
            let stream = tokio::io::join(std::io::Cursor::new(bytes.to_vec()), tokio::io::sink());
            let _ = log_in(Box::new(stream), host, &address, &login).await;
        }
        for format in [Format::Binary, Format::Text, Format::Statement] {
            let mut rest = bytes;
            while read_reply(&mut rest, FLAGS, format).await.is_ok() {}
        }
    };
    let read = pin!(read).poll(&mut Context::from_waker(Waker::noop()));
    assert!(read.is_ready(), "all bytes are there");
}

/// Reads the records that others have stored.
#[cfg(feature = "store")]
pub fn records(bytes: &[u8]) {
    use crate::engine::store::record::{Record, STAMP};
    use crate::engine::store::texts::Texts;
    use crate::own_store::{Loaded, Version};

    if let Ok(record) = Record::decode(bytes) {
        let stamp = bytes.first_chunk::<STAMP>().copied().unwrap_or_default();
        assert_eq!(record.encode(stamp), bytes, "written as it was read");
    }
    let loaded = Loaded::found(bytes, Version::stamp_of(bytes));
    let mut texts = Texts::read(&loaded);
    texts.add("stopped");
    let record = texts.encode();
    let again = Texts::read(&Loaded::found(&*record, Version::stamp_of(&record)));
    assert_eq!(again, texts, "read as it was written");
}

/// Reads URLs of each engine, with a password that must not be shown, and without one.
pub fn urls(bytes: &[u8]) {
    use crate::config::Config;
    use crate::error::LockError;

    const PASSWORD: &str = "xyzzy";

    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let check = |scheme: &str, parse: &dyn Fn(&str, &Config) -> Result<String, LockError>| {
        for user in ["", &format!("me:{PASSWORD}@")] {
            let url = format!("{scheme}://{user}{text}");
            let shown = parse(&url, &Config::new(&url)).unwrap_or_else(|error| {
                let source = std::error::Error::source(&error);
                format!("{error} {source:?}")
            });
            assert!(
                !shown.contains(PASSWORD) || text.contains(PASSWORD),
                "{shown}"
            );
        }
    };
    #[cfg(feature = "redis")]
    {
        use crate::engine::redis::address::Address;
        use crate::engine::redis::topology::cluster::seeds::SeedNodes;
        use crate::engine::redis::topology::sentinel::url::parse_url;

        let config = Config::new("");
        for scheme in ["redis", "redis+unix"] {
            check(scheme, &|url, _| {
                Ok(Address::parse(url, &config)?.to_string())
            });
        }
        check("redis-sentinel", &|url, _| {
            let (hosts, name, database) = parse_url(url)?;
            Ok(format!("{:?} {name} {database}", hosts.hosts))
        });
        check("redis-cluster", &|url, _| {
            Ok(format!(
                "{:?}",
                SeedNodes::parse_url(url, &config)?.addresses()
            ))
        });
    }
    #[cfg(feature = "postgres")]
    check("postgres", &|url, config| {
        use crate::engine::postgres::address::Address;

        Ok(Address::parse(url, config)?.servers.to_string())
    });
    #[cfg(feature = "mysql")]
    check("mysql", &|url, config| {
        use crate::engine::mysql::address::Address;

        Ok(Address::parse(url, config)?.to_string())
    });
    #[cfg(feature = "etcd")]
    check("etcd", &|url, config| {
        use crate::engine::etcd::address::Address;

        Ok(Address::parse(url, config)?.to_string())
    });
    #[cfg(feature = "zookeeper")]
    check("zookeeper", &|url, config| {
        use crate::engine::zookeeper::address::Address;

        Ok(Address::parse(url, config)?.to_string())
    });
}
