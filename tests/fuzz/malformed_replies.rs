//! Replies that no server should send.

use lock_test_support::rng::Rng;

/// The kinds of false replies, as the report names them.
pub const KINDS: [&str; 12] = [
    "another type",
    "error",
    "odd numbers",
    "nested",
    "truncated",
    "byte by byte",
    "garbage",
    "huge length",
    "too deep",
    "closed",
    "unrequested",
    "odd push",
];

/// The bytes that replace a frame of the server, and how they are sent.
pub struct Lie {
    pub kind: usize,
    pub bytes: Vec<u8>,
    pub bit_by_bit: bool,
    pub closes: bool,
}

const ERRORS: [&str; 30] = [
    "ERR",
    "ERR unknown",
    "",
    " ",
    "MOVED",
    "MOVED 1",
    "MOVED 99999999 127.0.0.1:1",
    "MOVED x :",
    "MOVED 5 127.0.0.1:99999",
    "MOVED 5 ::1:0",
    "ASK",
    "ASK 5 127.0.0.1:1",
    "ASK -1 \u{fffd}:5",
    "ASK 1 ?:7",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "CROSSSLOT",
    "CLUSTERDOWN Hash slot not served",
    "NOSCRIPT No matching script",
    "READONLY You can't write against a read only replica.",
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script",
    "OOM command not allowed",
    "NOREPLICAS Not enough good replicas to write.",
    "MISCONF Redis is configured to save",
    "MASTERDOWN Link with MASTER is down",
    "NOAUTH Authentication required.",
    "NOPERM this user has no permissions",
    "WRONGTYPE Operation against a key",
    "EXECABORT",
    "UNKILLABLE \t`{}%s\\ ",
];

const NUMBERS: [&str; 10] = [
    "0",
    "-1",
    "1",
    "2",
    "7",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "99999999999999999999999",
];

const TEXTS: [&[u8]; 8] = [
    b"",
    b"OK",
    b"grant",
    b"\xff\xfe\x00",
    b"18446744073709551615",
    b"-1",
    b"master",
    b"id=x addr=:0 \r\n",
];

fn one<'a, T: ?Sized>(of: &[&'a T], rng: &mut Rng) -> &'a T {
    of[rng.below(of.len() as u64) as usize]
}

fn bulk(text: &[u8]) -> Vec<u8> {
    let head = format!("${}\r\n", text.len());
    [head.as_bytes(), text, b"\r\n"].concat()
}

/// Returns a complete frame of any type.
fn value(rng: &mut Rng, depth: u64) -> Vec<u8> {
    let number = one(&NUMBERS, rng);
    match rng.below(if depth == 0 { 11 } else { 16 }) {
        0 => b"$-1\r\n".to_vec(),
        1 => b"*-1\r\n".to_vec(),
        2 => b"_\r\n".to_vec(),
        3 => format!(":{number}\r\n").into_bytes(),
        4 => b"+OK\r\n".to_vec(),
        5 => bulk(one(&TEXTS, rng)),
        6 => format!("({number}\r\n").into_bytes(),
        7 => b",nan\r\n".to_vec(),
        8 => b"#t\r\n".to_vec(),
        9 => b"=7\r\ntxt:one\r\n".to_vec(),
        10 => b"!3\r\nERR\r\n".to_vec(),
        11 => format!("-{}\r\n", one(&ERRORS, rng)).into_bytes(),
        several => {
            let length = rng.below(6);
            let (sign, times) = match several {
                12 => ('%', 2),
                13 => ('~', 1),
                _ => ('*', 1),
            };
            let mut frame = format!("{sign}{length}\r\n").into_bytes();
            for _ in 0..length * times {
                frame.extend(value(rng, depth - 1));
            }
            frame
        }
    }
}

/// Returns the frame with other numbers; lengths are kept.
fn odd(frame: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut changed = Vec::new();
    let mut counted = false;
    for line in frame.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\r\n").unwrap_or(line);
        match text.first() {
            Some(b':') => changed.extend(format!(":{}\r\n", one(&NUMBERS, rng)).into_bytes()),
            Some(b'$') if !counted => {
                counted = true;
                continue;
            }
            Some(_) if counted => {
                let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
                let odd = words.iter().map(|word| {
                    let is_number = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
                    match is_number && rng.one_in(2) {
                        true => one(&NUMBERS, rng).as_bytes(),
                        false => *word,
                    }
                });
                changed.extend(bulk(&odd.collect::<Vec<_>>().join(&b' ')));
                counted = false;
            }
            _ => changed.extend(line),
        }
    }
    changed
}

fn push(rng: &mut Rng) -> Vec<u8> {
    let token = "0123456789abcdef0123456789abcdef";
    let (at, lease) = (one(&NUMBERS, rng), one(&NUMBERS, rng));
    let text = match rng.below(6) {
        0 => format!("grant {token} {at} {lease} lock:hot-0"),
        1 => format!("grant {token} {at}"),
        2 => format!("first {token}"),
        3 => format!("others {token} {token}"),
        4 => "first first".to_owned(),
        _ => format!("grant {at}"),
    };
    let kinds: [&[u8]; 5] = [b"message", b"subscribe", b"invalidate", b"unsubscribe", b""];
    let mut push = b">3\r\n".to_vec();
    push.extend(bulk(one(&kinds, rng)));
    push.extend(bulk(b"channel"));
    push.extend(bulk(text.as_bytes()));
    push
}

impl Lie {
    /// Returns a false reply in place of `frame`.
    pub fn about(frame: &[u8], rng: &mut Rng) -> Self {
        let mut lie = Self {
            // Kinds that break the connection are rare, since reconnecting takes longer.
            kind: match rng.below(100) {
                0..30 => 0,
                30..48 => 1,
                48..66 => 2,
                66..76 => 3,
                76..80 => 5,
                80..82 => 10,
                82..92 => 11,
                92 => 4,
                93..95 => 6,
                95..97 => 7,
                97 => 8,
                _ => 9,
            },
            bytes: Vec::new(),
            bit_by_bit: false,
            closes: false,
        };
        lie.bytes = match KINDS[lie.kind] {
            "another type" => value(rng, 0),
            "error" => format!("-{}\r\n", one(&ERRORS, rng)).into_bytes(),
            "odd numbers" => odd(frame, rng),
            "nested" => value(rng, 4),
            "truncated" => {
                lie.closes = rng.one_in(2);
                frame[..rng.below(frame.len() as u64) as usize].to_vec()
            }
            "byte by byte" => {
                lie.bit_by_bit = true;
                frame.to_vec()
            }
            "garbage" => (0..1 + rng.below(64))
                .map(|_| rng.below(256) as u8)
                .collect(),
            "huge length" => {
                let sign = b"$*%~>|=!"[rng.below(8) as usize] as char;
                let length = one(
                    &[
                        "999999999999",
                        "9223372036854775807",
                        "4611686018427387903",
                        "-9223372036854775808",
                    ],
                    rng,
                );
                format!("{sign}{length}\r\n:1\r\n:2\r\n").into_bytes()
            }
            "too deep" => b"*1\r\n".repeat(rng.below(20_000) as usize),
            "unrequested" => [frame, frame].concat(),
            "odd push" => [push(rng), frame.to_vec()].concat(),
            _ => {
                lie.closes = true;
                Vec::new()
            }
        };
        lie
    }
}
