//! URLs that name several hosts: `user:password@h1:26379,h2,[::1]:26380/path/of/words`.

use std::net::Ipv6Addr;

/// Host and port.
pub(crate) type NodeAddress = (String, u16);

/// The parts of a URL after `scheme://`.
#[derive(Debug, PartialEq)]
pub(crate) struct MultiHostUrl {
    pub(crate) credentials: Option<(String, String)>,
    pub(crate) hosts: Vec<NodeAddress>,
    pub(crate) path: Vec<String>,
}

impl MultiHostUrl {
    /// Parses the text after `scheme://`; `port` applies to hosts that name none. Errors quote nothing of the
    /// text, which may be a secret.
    pub(crate) fn parse(rest: &str, port: u16) -> Result<MultiHostUrl, &'static str> {
        if rest.contains(['?', '#']) {
            return Err(
                "it cannot contain `?` or `#`; percent-encode special characters in \
                        a password",
            );
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, authority),
        };
        Ok(MultiHostUrl {
            credentials: credentials.map(parse_credentials).transpose()?,
            hosts: hosts
                .split(',')
                .map(|host| parse_host(host, port))
                .collect::<Result<_, _>>()?,
            path: match path.strip_suffix('/').unwrap_or(path) {
                "" => Vec::new(),
                path => path
                    .split('/')
                    .map(percent_decode)
                    .collect::<Result<_, _>>()?,
            },
        })
    }
}

/// Formats a host and a port as in a URL.
pub(crate) fn format_address((host, port): &NodeAddress) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

fn parse_credentials(text: &str) -> Result<(String, String), &'static str> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    Ok((percent_decode(user)?, percent_decode(password)?))
}

fn parse_host(text: &str, port: u16) -> Result<NodeAddress, &'static str> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(text) => {
            let (address, rest) = text.split_once(']').ok_or("a `[` is not closed")?;
            let address: Ipv6Addr = address
                .parse()
                .map_err(|_| "the text in brackets is not an IPv6 address")?;
            (address.to_string(), rest)
        }
        None if text.matches(':').count() > 1 => {
            return Err("an IPv6 address must be in brackets: `[::1]:26379`");
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            let host = percent_decode(&text[..end])?;
            if host.is_empty() {
                return Err("a host is missing");
            }
            if host.contains(|c: char| c.is_whitespace() || c.is_control() || "@[]/".contains(c)) {
                return Err("invalid characters in a host name");
            }
            (host, &text[end..])
        }
    };
    if rest.is_empty() {
        return Ok((host, port));
    }
    let number = rest
        .strip_prefix(':')
        .ok_or("only a port can follow an address in brackets")?;
    match number.parse() {
        // Rust reads `+1` as a number too.
        Ok(port @ 1..) if !number.starts_with('+') => Ok((host, port)),
        _ => Err("a port is not a number from 1 to 65535"),
    }
}

pub(crate) fn percent_decode(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((16 * high + low) as u8),
            _ => return Err("a `%` is not followed by two hexadecimal digits; write `%25`"),
        }
    }
    String::from_utf8(bytes).map_err(|_| "the percent-encoded text is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rest: &str) -> Result<MultiHostUrl, &'static str> {
        MultiHostUrl::parse(rest, 26379)
    }

    fn hosts(rest: &str) -> Vec<NodeAddress> {
        parse(rest).unwrap().hosts
    }

    #[test]
    fn hosts_and_ports() {
        assert_eq!(hosts("one"), [("one".to_owned(), 26379)]);
        let several = hosts("one:1,two,[::1],[2001:DB8::2]:65535,10.0.0.3:26380/mymaster");
        let expected = [
            ("one", 1),
            ("two", 26379),
            ("::1", 26379),
            ("2001:db8::2", 65535),
            ("10.0.0.3", 26380),
        ];
        let again: Vec<_> = several.iter().map(format_address).collect();
        assert_eq!(hosts(&again.join(",")), several);
        assert_eq!(
            several,
            expected.map(|(host, port)| (host.to_owned(), port))
        );
    }

    #[test]
    fn credentials_and_path_are_decoded() {
        let parsed = parse("us%40er:p%2Fa%3Ass@one/my%20master/3/").unwrap();
        let credentials = ("us@er".to_owned(), "p/a:ss".to_owned());
        assert_eq!(parsed.credentials, Some(credentials));
        assert_eq!(parsed.path, ["my master", "3"]);
        // A password that was not encoded is accepted where it is unambiguous.
        let parsed = parse(":p@ss@one").unwrap();
        assert_eq!(parsed.credentials, Some((String::new(), "p@ss".to_owned())));
        assert!(parsed.path.is_empty());
        let user = parse("user@one").unwrap().credentials;
        assert_eq!(user, Some(("user".to_owned(), String::new())));
    }

    #[test]
    fn errors_reveal_no_secret() {
        for (rest, word) in [
            ("", "host"),
            ("one,", "host"),
            (",one", "host"),
            ("/mymaster", "host"),
            ("user:secret@/mymaster", "host"),
            ("one:", "port"),
            ("one:0", "port"),
            ("one:65536", "port"),
            ("one:+1", "port"),
            ("one:secret", "port"),
            ("::1", "brackets"),
            ("[::1", "closed"),
            ("[secret]", "IPv6"),
            ("[::1]1", "port"),
            ("user:secret@o ne", "characters"),
            ("one?secret", "percent"),
            ("one#secret", "percent"),
            ("user:%secret@one", "%25"),
            ("user:secret%2@one", "%25"),
            ("user:secret%ff@one", "UTF-8"),
        ] {
            let error = parse(rest).unwrap_err();
            assert!(error.contains(word), "`{rest}`: {error}");
            assert!(!error.contains("secret"), "`{rest}`: {error}");
        }
    }

    /// Any text is parsed or rejected.
    #[test]
    fn nothing_panics() {
        let parts = [
            "",
            "a",
            "é",
            "%",
            "%4",
            "%zz",
            "%00",
            "%F0%9F",
            ":",
            "::",
            "@",
            "/",
            "//",
            ",",
            "[",
            "]",
            "[::]",
            "26379",
            "99999999999999999999",
            "-1",
            " ",
            "\0",
            "\u{7f}",
            "🔒",
            "?",
            "#",
            "+",
            ".",
            "mymaster",
        ];
        let mut seed: usize = 1;
        for _ in 0..50_000 {
            let mut rest = String::new();
            for _ in 0..8 {
                // Knuth's MMIX generator.
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                rest += parts[(seed >> 33) % parts.len()];
            }
            if let Ok(read) = parse(&rest) {
                assert!(!read.hosts.is_empty(), "{rest}");
                assert!(
                    read.hosts
                        .iter()
                        .all(|(host, port)| !host.is_empty() && *port > 0)
                );
            }
        }
    }
}
