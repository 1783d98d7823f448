//! Text as people read it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Writes out what could not be seen, or would turn the direction of writing: keys come from anywhere.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\'' | '\\' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// Returns a duration in the unit that matters at its size. The script writes the same.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Returns a duration of which the milliseconds matter.
pub(crate) fn latency(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..10_000_000 => format!("{:.1} s", micros as f64 / 1e6),
        _ => duration(time),
    }
}

/// Returns the time since then. The clock of another machine may be ahead.
pub(crate) fn age(since: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(since).unwrap_or_default()
}

/// Returns a point in time in milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns `1 lock`, `2 locks`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ if thing.ends_with('s') => format!("{number} {thing}es"),
        _ => format!("{number} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        for (text, shown) in [
            ("order:42", "order:42"),
            ("zażółć 订单 'a' \"b\"", "zażółć 订单 'a' \"b\""),
            ("<script>", "<script>"),
            ("a\r\n\0", "a\\r\\n\\0"),
            ("\u{202e}txt", "\\u{202e}txt"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn durations_are_short() {
        for (seconds, shown) in [
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7_199, "119 min"),
            (7_200, "2 h"),
            (172_800, "2 days"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), shown);
        }
        assert_eq!(latency(Duration::from_micros(412)), "0.4 ms");
        assert_eq!(latency(Duration::from_millis(41)), "41 ms");
        assert_eq!(latency(Duration::from_millis(1_250)), "1.2 s");
    }

    #[test]
    fn plurals() {
        assert_eq!(count(1, "process"), "1 process");
        assert_eq!(count(2, "process"), "2 processes");
        assert_eq!(count(0, "lock"), "0 locks");
    }
}
