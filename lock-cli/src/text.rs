//! Text that a terminal shows as it is meant.

use std::time::{Duration, SystemTime};

/// Escapes what could move the cursor, change colors or the direction of writing: keys and tokens may come
/// from anywhere.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\'' => escaped.push(c),
            c => escaped.extend(c.escape_debug()),
        }
    }
    escaped
}

/// Returns a duration with the precision that matters at its size.
pub(crate) fn duration(time: Duration) -> String {
    if time < Duration::from_secs(120) {
        return format!("{:.1} s", time.as_secs_f64());
    }
    humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
}

/// Returns a duration in milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a point in time, as RFC 3339 has it. One that no calendar has is shown as its beginning.
pub(crate) fn timestamp(time: SystemTime) -> String {
    // The year 9999 is the last one that can be written.
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    let time = if time > last {
        SystemTime::UNIX_EPOCH
    } else {
        time
    };
    humantime::format_rfc3339_millis(time).to_string()
}

/// Returns the time since then. The clock of another machine may be ahead.
pub(crate) fn age(since: SystemTime) -> Duration {
    since.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_interpret_is_escaped() {
        for (text, shown) in [
            ("order:42", "order:42"),
            ("zażółć 订单 'a' \"b\"", "zażółć 订单 'a' \"b\""),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\r\nb\tc\0", "a\\r\\nb\\tc\\0"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("\u{202e}txt", "\\u{202e}txt"),
            ("\\n", "\\\\n"),
        ] {
            assert_eq!(escaped(text), shown);
        }
    }

    #[test]
    fn durations_are_short() {
        for (millis, shown) in [
            (0, "0.0 s"),
            (6_234, "6.2 s"),
            (119_000, "119.0 s"),
            (312_900, "5m 12s"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), shown);
        }
    }
}
