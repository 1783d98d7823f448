//! Finds the replies in the bytes of a server. The frequent ones are parsed here, all others by the redis
//! crate.

use crate::engine::error::EngineError;
use crate::engine::redis::wire::error::{error_kind, with_message};
use redis::{FromRedisValue, RedisError, RedisResult, Value};

/// The bytes are not those of a Redis server.
#[derive(Debug, PartialEq)]
pub(crate) struct Malformed;

/// Returns the length of the first reply, or `None` if its end has not arrived.
pub(crate) fn length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let (mut at, mut values) = (0_usize, 1_usize);
    while values > 0 {
        let Some(line) = bytes.get(at..).and_then(first_line) else {
            return Ok(None);
        };
        at += line.len() + 2;
        values -= 1;
        let (kind, rest) = line.split_first().ok_or(Malformed)?;
        match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {}
            b'$' | b'!' | b'=' => {
                if let Some(length) = count(rest)? {
                    at = add(add(at, length)?, 2)?;
                }
            }
            b'*' | b'~' | b'>' => values = add(values, count(rest)?.unwrap_or(0))?,
            b'%' => values = add(values, pairs(rest)?)?,
            // The value that the attributes belong to follows them.
            b'|' => values = add(add(values, pairs(rest)?)?, 1)?,
            _ => return Err(Malformed),
        }
    }
    Ok((at <= bytes.len()).then_some(at))
}

/// Parses one whole reply.
pub(crate) fn parse(bytes: &[u8]) -> RedisResult<Value> {
    match bytes {
        b"+OK\r\n" => Ok(Value::Okay),
        b"$-1\r\n" | b"_\r\n" => Ok(Value::Nil),
        [b'$', b'1'..=b'9', b'\r', b'\n', text @ .., b'\r', b'\n']
        | [
            b'$',
            b'1'..=b'9',
            b'0'..=b'9',
            b'\r',
            b'\n',
            text @ ..,
            b'\r',
            b'\n',
        ] => Ok(Value::BulkString(text.to_vec())),
        _ => redis::parse_redis_value(bytes),
    }
}

/// Converts a reply.
pub(crate) fn decode<T: FromRedisValue>(reply: Value) -> Result<T, EngineError> {
    T::from_redis_value(reply).map_err(|error| {
        let error = RedisError::from(error);
        with_message(error_kind(&error), error)
    })
}

/// Returns the number of locks that this reply to an acquisition grants, whatever else it says.
pub(crate) fn granted(reply: &Value) -> usize {
    match reply {
        Value::Nil | Value::ServerError(_) => 0,
        Value::Int(count) => usize::try_from(*count).unwrap_or(0),
        // Replicas have been awaited.
        Value::Array(both) => both.first().map_or(0, granted),
        _ => 1,
    }
}

/// Returns the first line without its end.
fn first_line(bytes: &[u8]) -> Option<&[u8]> {
    let mut from = 0;
    loop {
        let end = from + bytes[from..].iter().position(|byte| *byte == b'\n')?;
        if let Some(line) = bytes[..end].strip_suffix(b"\r") {
            return Some(line);
        }
        from = end + 1;
    }
}

/// Parses a length; a negative one stands for nil.
fn count(digits: &[u8]) -> Result<Option<usize>, Malformed> {
    if digits == b"-1" {
        return Ok(None);
    }
    let text = std::str::from_utf8(digits).map_err(|_| Malformed)?;
    text.parse().map(Some).map_err(|_| Malformed)
}

fn pairs(digits: &[u8]) -> Result<usize, Malformed> {
    let count = count(digits)?.unwrap_or(0);
    count.checked_mul(2).ok_or(Malformed)
}

fn add(one: usize, other: usize) -> Result<usize, Malformed> {
    one.checked_add(other).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: [&[u8]; 20] = [
        b"+OK\r\n",
        b"+QUEUED\r\n",
        b"-ERR no\r\n",
        b":12\r\n",
        b"$-1\r\n",
        b"$0\r\n\r\n",
        b"$3\r\na\r\n\r\n",
        b"$12\r\nabcdefghijkl\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
        b"%1\r\n+a\r\n:1\r\n",
        b"|1\r\n+a\r\n:1\r\n+OK\r\n",
        b"~1\r\n#t\r\n",
        b">2\r\n+message\r\n+b\r\n",
        b"_\r\n",
        b",1.5\r\n",
        b"(123\r\n",
        b"!5\r\nERR x\r\n",
        b"=5\r\ntxt:a\r\n",
    ];

    #[test]
    fn the_end_of_a_reply_is_found_wherever_the_bytes_are_cut() {
        for reply in REPLIES {
            let two = [reply, b"+OK\r\n"].concat();
            assert_eq!(length(&two), Ok(Some(reply.len())), "{reply:?}");
            for cut in 0..reply.len() {
                assert_eq!(length(&reply[..cut]), Ok(None), "{reply:?} to {cut}");
            }
        }
    }

    #[test]
    fn replies_are_parsed_as_the_redis_crate_parses_them() {
        for reply in REPLIES {
            let expected = redis::parse_redis_value(reply);
            assert_eq!(parse(reply).ok(), expected.ok(), "{reply:?}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"\r\n",
            b"$x\r\n",
            b"$-2\r\n",
            b"*99999999999999999999\r\n",
            b"%18446744073709551615\r\n",
            b"$18446744073709551615\r\n",
        ] {
            assert_eq!(length(bytes), Err(Malformed), "{bytes:?}");
        }
    }
}
