//! Parses durations such as `"1m 30s"` at compile time.

use std::time::Duration;

const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Parses a sum of whole hours, minutes, seconds and milliseconds. Returns a description of the problem as
/// the error.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    let mut units = UNITS.iter();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return Err("the duration is empty".into());
    }
    while !rest.is_empty() {
        let (digits, after) = split_while(rest, |c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(format!("`{text}` is not a duration"));
        }
        let (unit, after) = split_while(after.trim_start(), |c| {
            !c.is_ascii_digit() && !c.is_whitespace()
        });
        if unit.is_empty() {
            return Err(format!("`{text}` lacks a unit"));
        }
        if unit.starts_with(['.', ',']) {
            return Err(format!("`{text}` has a fraction"));
        }
        if !UNITS.iter().any(|(name, _)| *name == unit) {
            return Err(format!("`{unit}` is not a unit of time"));
        }
        let Some((_, millis)) = units.find(|(name, _)| *name == unit) else {
            return Err(format!(
                "`{text}` does not go from the larger unit to the smaller"
            ));
        };
        total = digits
            .parse::<u64>()
            .ok()
            .and_then(|count| count.checked_mul(*millis)?.checked_add(total))
            .ok_or_else(|| format!("`{text}` is too long to be counted in milliseconds"))?;
        rest = after.trim_start();
    }
    Ok(Duration::from_millis(total))
}

fn split_while(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn valid_durations_are_parsed() {
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1m 30s", 90_000),
            ("1m30s", 90_000),
            ("1h 2m 3s 4ms", 3_723_004),
            (" 30 s ", 30_000),
            ("0s", 0),
            ("007s", 7_000),
            ("18446744073709551615ms", u64::MAX),
        ] {
            assert_eq!(
                parse(text).map(|d| d.as_millis()),
                Ok(millis.into()),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for (text, error) in [
            ("", "the duration is empty"),
            ("  ", "the duration is empty"),
            ("30", "`30` lacks a unit"),
            ("1m 30", "`1m 30` lacks a unit"),
            ("fast", "`fast` is not a duration"),
            ("-5s", "`-5s` is not a duration"),
            ("forever", "`forever` is not a duration"),
            ("1.5s", "`1.5s` has a fraction"),
            ("1,5s", "`1,5s` has a fraction"),
            ("30sec", "`sec` is not a unit of time"),
            ("30S", "`S` is not a unit of time"),
            ("10us", "`us` is not a unit of time"),
            ("1d", "`d` is not a unit of time"),
            ("30s, 5ms", "`s,` is not a unit of time"),
            (
                "30s 1m",
                "`30s 1m` does not go from the larger unit to the smaller",
            ),
            (
                "1s 1s",
                "`1s 1s` does not go from the larger unit to the smaller",
            ),
            (
                "18446744073709551616ms",
                "`18446744073709551616ms` is too long to be counted in milliseconds",
            ),
            (
                "9999999999999999h",
                "`9999999999999999h` is too long to be counted in milliseconds",
            ),
            ("١s", "`١s` is not a duration"),
        ] {
            assert_eq!(parse(text), Err(error.into()), "{text}");
        }
    }
}
