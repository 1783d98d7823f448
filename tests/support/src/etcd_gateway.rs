//! Another client of etcd, which sends its requests in JSON: sooner than `etcdctl` does.

use std::io::{Error, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The value of an exclusive claim in base64 is this long; that of one that shares the lock is longer.
const EXCLUSIVE: usize = 44;

/// Deletes all claims on a lock. `name` has neither a slash nor a percent sign.
pub fn delete_line(port: u16, name: &str) -> Result<()> {
    ask(port, "kv/deleterange", &format!("{{{}}}", line(name))).map(drop)
}

/// Deletes the claim of the first waiter if the one before it is exclusive, and still there.
pub fn delete_place(port: u16, name: &str) -> Result<bool> {
    let sorted = r#""sort_target":"CREATE","sort_order":"ASCEND","limit":"2""#;
    let found = ask(port, "kv/range", &format!("{{{},{sorted}}}", line(name)))?;
    let field = |of: &str, name: &str| {
        let (_, rest) = of.split_once(&format!(r#""{name}":""#))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let claims: Vec<_> = found.split(r#"{"key":"#).skip(1).collect();
    let [holder, waiter] = &claims[..] else {
        return Ok(false);
    };
    let key_of = |claim: &str| claim.split('"').nth(1).map(str::to_owned);
    let (Some(holder_key), Some(waiter)) = (key_of(holder), key_of(waiter)) else {
        return Ok(false);
    };
    let value = field(holder, "value").unwrap_or_default();
    if value.len() != EXCLUSIVE {
        return Ok(false);
    }
    let lasts = format!(r#"{{"key":"{holder_key}","target":"VALUE","value":"{value}"}}"#);
    let delete = format!(r#"{{"request_delete_range":{{"key":"{waiter}"}}}}"#);
    let done = format!(r#"{{"compare":[{lasts}],"success":[{delete}]}}"#);
    let answer = ask(port, "kv/txn", &done)?;
    Ok(answer.contains(r#""succeeded":true"#) && answer.contains(r#""deleted":"1""#))
}

/// Returns the range of a lock's claims.
fn line(name: &str) -> String {
    let (first, end) = (base64(&format!("{name}/")), base64(&format!("{name}0")));
    format!(r#""key":"{first}","range_end":"{end}""#)
}

/// Returns the answer to a request.
pub(crate) fn ask(port: u16, method: &str, body: &str) -> Result<String> {
    ask_within(Duration::from_secs(5), port, method, body)
}

/// Returns the answer to a request if it comes in time.
pub fn ask_within(limit: Duration, port: u16, method: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(limit))?;
    let length = body.len();
    let head = format!("POST /v3/{method} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.contains(" 200 OK") {
        true => Ok(answer),
        false => Err(Error::other(answer)),
    }
}

pub(crate) fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let chunk = |chunk: &[u8]| {
        let bytes = [0, 1, 2].map(|at| u32::from(chunk.get(at).copied().unwrap_or(0)));
        let number = bytes[0] << 16 | bytes[1] << 8 | bytes[2];
        let digit = move |at: u32| char::from(DIGITS[(number >> (18 - 6 * at) & 63) as usize]);
        let digits: String = (0..=chunk.len() as u32).map(digit).collect();
        digits + &"=".repeat(3 - chunk.len())
    };
    text.as_bytes().chunks(3).map(chunk).collect()
}
