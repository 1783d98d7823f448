//! Contents of a lock's keys that no client of this library writes.

use lock_test_support::rng::Rng;

/// The keys of one lock.
#[derive(Clone, Copy)]
pub enum Key {
    Lock,
    Queue,
    Waiters,
}

pub type Words = Vec<Vec<u8>>;

/// Scores of holders are a limit times this, and the time in milliseconds when the lease ends.
pub const BAND: f64 = 4_398_046_511_104.0;

/// A token whose key outlasts the lease.
pub const MARKED: &[u8] = b"d15710cc89ab8def8123456789abcdef+";

/// Names of holders and waiters; some could be tokens.
pub const TOKENS: [&[u8]; 15] = [
    MARKED,
    b"0123456789abcdef0123456789abcdef",
    b"0123456789abcdef0123456789abcdee/2",
    b"0123456789abcdef0123456789abcded/5",
    b"0123456789abcdef0123456789abcdec/2047",
    b"a/0",
    b"a/1",
    b"a/2048",
    b"a/99999999999999999999999999",
    b"/2",
    b"x/2",
    b"::reserved",
    b"",
    b"\xff\x00 \r\n",
    b"a b c",
];

const SCORES: [&str; 14] = [
    "inf",
    "-inf",
    "nan",
    "1e308",
    "-1",
    "0",
    "0.5",
    "4398046511104",
    "8796093022208.5",
    "13194139533311.5",
    "9007199254740991",
    "9007199254740992",
    "9007199254740994",
    "-9007199254740994",
];

const LIMITS: [f64; 8] = [0.0, 1.0, 2.0, 3.0, 5.0, 2046.0, 2047.0, 2048.0];

const WAITERS: [&[u8]; 12] = [
    b"",
    b"x",
    b"0 0 ",
    b"1 2",
    b"-5 -5 nonsense",
    b"1e9 5 nonsense",
    b"99999999999999999999999 1000 nonsense",
    b"99999999999999999999999 0 nonsense",
    b"99999999999999999999999 0 hears",
    b"99999999999999999999999 1000 hears",
    b"99999999999999999999999 99999999999999999999999 hears",
    b"\xff\xfe \x00 \r\n",
];

pub fn one<'a, T: ?Sized>(of: &[&'a T], rng: &mut Rng) -> &'a T {
    of[rng.below(of.len() as u64) as usize]
}

/// Returns a score, of which most are those of a holder at that time in milliseconds.
fn score(rng: &mut Rng, now: u64) -> String {
    if rng.one_in(3) {
        return one(&SCORES, rng).to_owned();
    }
    let limit = LIMITS[rng.below(LIMITS.len() as u64) as usize];
    let now = now as f64;
    let ends = [
        0.0,
        now - 10_000.0,
        now + 60_000.0,
        now + 60_000.5,
        BAND - 1.0,
        BAND - 0.5,
    ];
    let end = ends[rng.below(ends.len() as u64) as usize];
    format!("{}", limit * BAND + end)
}

/// Returns a command that writes nonsense to a key with that name. The server may refuse it.
pub fn nonsense(key: Key, name: &str, rng: &mut Rng, now: u64) -> Words {
    let token = one(&TOKENS, rng).to_vec();
    let (command, arguments) = match (key, rng.below(8)) {
        (_, 0) => foreign(rng),
        (Key::Lock, 1..3) => ("SET", vec![token]),
        (Key::Lock | Key::Queue, _) => ("ZADD", vec![score(rng, now).into_bytes(), token]),
        (Key::Waiters, _) => ("HSET", vec![token, one(&WAITERS, rng).to_vec()]),
    };
    let words = [command.as_bytes().to_vec(), name.as_bytes().to_vec()];
    words.into_iter().chain(arguments).collect()
}

/// Returns a command and its arguments that create a value of any type.
fn foreign(rng: &mut Rng) -> (&'static str, Words) {
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    match rng.below(7) {
        0 => ("SET", words(&["nonsense"])),
        1 => ("SETBIT", words(&["12", "1"])),
        2 => ("RPUSH", words(&["a", "b"])),
        3 => ("SADD", words(&["a", "b"])),
        4 => ("HSET", words(&["a", "b"])),
        5 => ("PFADD", words(&["a"])),
        _ => ("XADD", words(&["*", "a", "b"])),
    }
}
