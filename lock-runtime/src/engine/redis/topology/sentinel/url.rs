//! URLs of Sentinels: `redis-sentinel://user:password@h1:26379,h2/mymaster/0`.

use crate::engine::redis::address::invalid;
use crate::engine::url::MultiHostUrl;
use crate::error::LockError;

const DEFAULT_PORT: u16 = 26379;

/// Parses a URL into its hosts, the name of the master, and the database.
pub(crate) fn parse_url(url: &str) -> Result<(MultiHostUrl, String, i64), LockError> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let wrong = |what: &str| {
        let form = "write `redis-sentinel://user:password@h1:26379,h2,h3/mymaster/0`";
        invalid(&format!("the URL can't be read: {what}; {form}"), None)
    };
    let hosts = MultiHostUrl::parse(rest, DEFAULT_PORT).map_err(wrong)?;
    let (name, database) = match &hosts.path[..] {
        [] => return Err(wrong("the name of the master is missing")),
        [name] => (name, 0),
        [name, database] => match database.parse() {
            Ok(database @ 0..) => (name, database),
            _ => return Err(wrong("the database is not a number")),
        },
        _ => return Err(wrong("only a database can follow the name of the master")),
    };
    if name.is_empty() {
        return Err(wrong("the name of the master is empty"));
    }
    let name = name.clone();
    Ok((hosts, name, database))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_hosts_master_and_database() {
        let (hosts, name, database) =
            parse_url("redis-sentinel://u:p@h1:1,h2/my%2Fmaster/7").unwrap();
        assert_eq!(
            hosts.hosts,
            [("h1".to_owned(), 1), ("h2".to_owned(), DEFAULT_PORT)]
        );
        assert_eq!((&*name, database), ("my/master", 7));
        assert_eq!(parse_url("redis-sentinel://h1/mymaster").unwrap().2, 0);
        assert_eq!(
            parse_url("rediss-sentinel://h1/mymaster/").unwrap().1,
            "mymaster"
        );
    }

    #[test]
    fn an_invalid_url_is_rejected_with_the_reason() {
        for (rest, word) in [
            ("", "host"),
            ("h1", "name of the master"),
            ("h1,h2/", "name of the master"),
            ("h1//0", "empty"),
            ("h1/mymaster/x", "database"),
            ("h1/mymaster/-1", "database"),
            ("h1/mymaster/0/1", "database"),
            ("h1:x/mymaster", "port"),
        ] {
            let error = parse_url(&format!("redis-sentinel://{rest}"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(word), "`{rest}`: {error}");
            assert!(error.contains("h1:26379,h2,h3/mymaster/0"), "{error}");
        }
    }
}
