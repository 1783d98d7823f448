//! The text of a report: lines of fields that tabs separate.
//!
//! Later versions append fields and add kinds of lines; both are skipped. PROTOCOL.md lists them.

use crate::engine::operations::{MAX_TEXT, StoredReport};
use crate::lock::report::identity::Identity;
use crate::process_info::{ProcessInfo, ReportedCounts, ReportedHold, ReportedWait, Unlisted};
use crate::silence::NextReport;
use crate::stats::Stats;
use std::fmt::Write;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// The first field of each report.
const LAYOUT: &str = "1";

/// The state of a hold that its process keeps without a guard, and of one whose guards were asked to end.
const KEPT: &str = "kept";
const REVOKED: &str = "revoked";

/// The report of a process that has shut down, which names no process.
pub(crate) const ENDED: &str = "";

/// The room for the last line, which counts what has no room.
const MAX_LAST: usize = 64;

/// The greatest number of holds, and that of waits.
pub(crate) const MOST: usize = 64;

/// The greatest length of a field in bytes.
const MAX_FIELD: usize = 200;

/// Returns the first line, which is the whole report where a server keeps all of them.
pub(crate) fn first_line(of: &Identity, next: NextReport) -> String {
    let started = of.started.duration_since(SystemTime::UNIX_EPOCH);
    let started = started.unwrap_or_default().as_secs();
    line(&[
        LAYOUT,
        &of.service,
        &of.version,
        &of.host,
        &of.pid.to_string(),
        &started.to_string(),
        &millis(next.regular),
        &millis(next.asked),
    ])
}

/// Returns a whole report: as many of the holds and waits as have room.
pub(crate) fn report(
    (of, next): (&Identity, NextReport),
    stats: &Stats,
    holds: &[ReportedHold],
    waits: &[ReportedWait],
    mut more: Unlisted,
) -> String {
    let mut text = first_line(of, next);
    let counts = [stats.held, stats.waiting, stats.lost].map(|count| count.to_string());
    text += &line(&["c", &counts[0], &counts[1], &counts[2]]);
    let holds = holds.iter().map(|hold| {
        let ReportedHold {
            token,
            held,
            handoffs,
            is_kept,
            is_revoked,
            ttl,
            template,
            place,
            label,
            key,
        } = hold;
        let (held, handoffs) = (held.as_millis().to_string(), handoffs.to_string());
        let state = match (is_kept, is_revoked) {
            (true, _) => KEPT,
            (false, true) => REVOKED,
            (false, false) => "",
        };
        let fields = [
            "h",
            token,
            &held,
            &handoffs,
            template,
            place,
            label,
            short_key(key),
            state,
            &millis(*ttl),
        ];
        (!is_kept, line(&fields))
    });
    let waits = waits.iter().map(|wait| {
        let ReportedWait {
            token,
            callers,
            key,
        } = wait;
        let fields = ["w", token, &callers.to_string(), short_key(key)];
        (false, line(&fields))
    });
    for (is_held, line) in holds.chain(waits) {
        match text.len() + line.len() + MAX_LAST <= MAX_TEXT {
            true => text += &line,
            false => more.add(is_held),
        }
    }
    if more != Unlisted::default() {
        text += &line(&["m", &more.held.to_string(), &more.other.to_string()]);
    }
    text
}

/// Returns the key, or nothing if it is so long that it would be cut: its lock is known by its token alone.
fn short_key(key: &str) -> &str {
    if key.len() > MAX_FIELD { "" } else { key }
}

/// Returns a time in milliseconds, if there is one.
fn millis(time: Option<Duration>) -> String {
    time.map_or(String::new(), |time| time.as_millis().to_string())
}

/// Returns a text as one field, without tabs, ends of lines and NUL, cut to the greatest length.
pub(crate) fn field(text: &str) -> String {
    whole_field(beginning(text, MAX_FIELD))
}

/// Does the same, and cuts nothing.
pub(crate) fn whole_field(text: &str) -> String {
    let mut field = String::new();
    for c in text.chars() {
        match c {
            '\\' => field.push_str("\\\\"),
            '\t' => field.push_str("\\t"),
            '\n' => field.push_str("\\n"),
            '\r' => field.push_str("\\r"),
            '\0' => field.push_str("\\0"),
            c => field.push(c),
        }
    }
    field
}

/// Returns the beginning of a text, of so many bytes at the most.
fn beginning(text: &str, most: usize) -> &str {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| *end <= most).last();
    &text[..end.unwrap_or(0)]
}

/// Returns the text of a field. An unknown escape stands for itself.
fn unescaped(field: &str) -> Box<str> {
    let mut text = String::with_capacity(field.len());
    let mut chars = field.chars();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('0') => '\0',
                Some(c) => c,
                None => '\\',
            },
            c => c,
        });
    }
    text.into()
}

fn line(fields: &[&str]) -> String {
    let mut line = String::new();
    for (nth, text) in fields.iter().enumerate() {
        let _ = write!(line, "{}{}", if nth == 0 { "" } else { "\t" }, field(text));
    }
    line.push('\n');
    line
}

/// Parses what a server has stored as a report; `None` if it is none, or one of another layout.
pub(crate) fn parse(stored: &StoredReport) -> Option<ProcessInfo> {
    let mut lines = stored.text.lines();
    let mut first = Fields::of(lines.next()?);
    if first.next()? != LAYOUT {
        return None;
    }
    let mut info = ProcessInfo {
        id: stored.process,
        service: first.text()?,
        version: first.text()?,
        host: first.text()?,
        pid: first.number()?,
        started: SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(first.number()?))?,
        counts: None,
        age: stored.age,
        elapsed: Duration::ZERO,
        next: NextReport {
            regular: first.millis(),
            asked: first.millis(),
        },
        unanswered: None,
        holds: Vec::new(),
        waits: Vec::new(),
        unlisted: Unlisted::default(),
    };
    for line in lines {
        let mut fields = Fields::of(line);
        match fields.next() {
            Some("c") => info.counts = counts(&mut fields).or(info.counts),
            // Another program may have written more.
            Some("h") if info.holds.len() < MOST => info.holds.extend(hold(&mut fields)),
            Some("w") if info.waits.len() < MOST => info.waits.extend(wait(&mut fields)),
            Some("m") => info.unlisted = unlisted(&mut fields).unwrap_or_default(),
            _ => {}
        }
    }
    for hold in info.holds.iter().filter(|hold| hold.key.is_empty()) {
        info.unlisted.add(!hold.is_kept);
    }
    for _ in info.waits.iter().filter(|wait| wait.key.is_empty()) {
        info.unlisted.add(false);
    }
    Some(info)
}

fn counts(fields: &mut Fields<'_>) -> Option<ReportedCounts> {
    Some(ReportedCounts {
        held: fields.count()?,
        waiting: fields.count()?,
        lost: fields.count()?,
    })
}

fn unlisted(fields: &mut Fields<'_>) -> Option<Unlisted> {
    Some(Unlisted {
        held: fields.count()?,
        other: fields.count()?,
    })
}

fn hold(fields: &mut Fields<'_>) -> Option<ReportedHold> {
    let mut hold = ReportedHold {
        token: fields.text()?,
        held: fields.millis()?,
        handoffs: fields.number()?,
        template: fields.text()?,
        place: fields.text()?,
        label: fields.text()?,
        key: fields.text()?,
        is_kept: false,
        is_revoked: false,
        ttl: None,
    };
    let state = fields.next();
    hold.is_kept = state == Some(KEPT);
    hold.is_revoked = state == Some(REVOKED);
    hold.ttl = fields.millis();
    Some(hold)
}

fn wait(fields: &mut Fields<'_>) -> Option<ReportedWait> {
    Some(ReportedWait {
        token: fields.text()?,
        callers: fields.count()?,
        key: fields.text()?,
    })
}

/// The fields of a line that are left.
pub(crate) struct Fields<'a>(std::str::Split<'a, char>);

impl<'a> Fields<'a> {
    pub(crate) fn of(line: &'a str) -> Fields<'a> {
        Fields(line.split('\t'))
    }

    pub(crate) fn next(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    /// Another program may have written a longer one.
    pub(crate) fn text(&mut self) -> Option<Box<str>> {
        let field = self.next()?;
        Some(unescaped(beginning(field, 2 * MAX_FIELD)))
    }

    pub(crate) fn whole_text(&mut self) -> Option<Box<str>> {
        self.next().map(unescaped)
    }

    pub(crate) fn number<T: FromStr>(&mut self) -> Option<T> {
        self.next()?.parse().ok()
    }

    fn millis(&mut self) -> Option<Duration> {
        self.number().map(Duration::from_millis)
    }

    /// A count of which many can be added up: another program may have written any number.
    fn count(&mut self) -> Option<u64> {
        self.number::<u32>().map(u64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcessId;

    fn stored(text: &str) -> StoredReport {
        StoredReport {
            process: ProcessId(7),
            text: text.into(),
            age: Some(Duration::from_secs(1)),
            revision: 0,
        }
    }

    fn identity() -> Identity {
        Identity {
            service: "orders\teu\n\\".into(),
            version: "2.3.1".into(),
            host: "web-7".into(),
            pid: 812,
            started: SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_536_000),
        }
    }

    fn hold(key: &str) -> ReportedHold {
        ReportedHold {
            token: "e823e7be01c58c509a20e4619a300481".into(),
            held: Duration::from_millis(6_200),
            handoffs: 3,
            is_kept: false,
            is_revoked: true,
            ttl: Some(Duration::from_secs(30)),
            template: "order:<id>".into(),
            place: "shop::ship (src/orders.rs:42)".into(),
            label: "4bf9".into(),
            key: key.into(),
        }
    }

    #[test]
    fn a_report_is_parsed_as_it_was_composed() {
        let stats = Stats {
            held: 1,
            waiting: 12,
            lost: 2,
            ..Stats::default()
        };
        let wait = ReportedWait {
            token: "51c0a7be01c58c509a20e4619a300481/2047".into(),
            callers: 12,
            key: "order:\t7\0\r\\0".into(),
        };
        let kept = ReportedHold {
            is_kept: true,
            is_revoked: false,
            ttl: None,
            ..hold("order:7")
        };
        let holds = [hold("order:\n42"), kept];
        let more = Unlisted {
            held: 336,
            other: 7,
        };
        let next = NextReport {
            regular: None,
            asked: Some(Duration::from_secs(10)),
        };
        let text = report(
            (&identity(), next),
            &stats,
            &holds,
            std::slice::from_ref(&wait),
            more,
        );
        assert!(!text.contains('\0'), "{text:?}");
        let found = parse(&stored(&text)).unwrap();
        assert_eq!(found.service(), "orders\teu\n\\");
        let named = (found.version(), found.host(), found.pid());
        assert_eq!(named, (Some("2.3.1"), Some("web-7"), 812));
        assert_eq!(found.started(), identity().started);
        let counts = (found.held(), found.waiting(), found.lost());
        assert_eq!(counts, (Some(1), Some(12), Some(2)));
        assert_eq!((found.unlisted_held(), found.unlisted()), (336, 343));
        assert_eq!(found.next, next);
        assert_eq!((found.holds, found.waits), (holds.to_vec(), vec![wait]));
    }

    #[test]
    fn a_report_is_bounded() {
        let holds: Vec<_> = (0..64).map(|_| hold(&"ä".repeat(100))).collect();
        let identity = Identity {
            service: "x".repeat(100_000),
            ..identity()
        };
        let none = Unlisted::default();
        let of = (&identity, NextReport::default());
        let text = report(of, &Stats::default(), &holds, &[], none);
        assert!(text.len() <= MAX_TEXT, "{}", text.len());
        let found = parse(&stored(&text)).unwrap();
        assert_eq!(found.service().len(), MAX_FIELD);
        assert!(found.holds.len() > 30 && found.holds.iter().all(|hold| hold.key.len() == 200));
        assert_eq!(found.holds.len() as u64 + found.unlisted_held(), 64);
        let many = first_line(&identity, of.1) + &"h\t?\t0\t0\t\t\t\tk\nw\t?\t1\tk\n".repeat(1000);
        let found = parse(&stored(&many)).unwrap();
        assert_eq!((found.holds.len(), found.waits.len()), (MOST, MOST));
        let long = [hold(&"k".repeat(201))];
        let text = report(of, &Stats::default(), &long, &[], none);
        let found = parse(&stored(&text)).unwrap();
        assert_eq!((&*found.holds[0].key, found.unlisted_held()), ("", 1));
    }

    #[test]
    fn anything_else_names_no_process() {
        let first = first_line(&identity(), NextReport::default());
        for text in [
            ENDED,
            "\n",
            "9\torders\t2\tweb\t1\t1",
            "1\torders",
            "1\torders\t2\tweb\t-1\t1",
            "1\torders\t2\tweb\t1\t99999999999999999999",
            "1\torders\t2\tweb\t1\t18446744073709551615",
            "\0\t\t\t",
        ] {
            assert_eq!(parse(&stored(text)), None, "{text:?}");
        }
        for rest in [
            "c\t1",
            "h\t?\tx",
            "w",
            "z\t1\t2",
            "\t\t\t",
            "h\ta\t-1\t0\t\t\t\t",
            "\\",
        ] {
            let found = parse(&stored(&format!("{first}{rest}\n"))).unwrap();
            assert_eq!(found.pid(), 812, "{rest:?}");
            assert!(found.holds.is_empty() && found.waits.is_empty() && found.counts.is_none());
        }
        // Many can be added up.
        let huge = format!(
            "{first}m\t{0}\t{0}\nc\t{0}\t1\t1\nh\tt\t1\t0\t\t\t\t\n",
            u64::MAX
        );
        let found = parse(&stored(&huge)).unwrap();
        assert_eq!((found.unlisted_held(), found.held()), (1, None));
        let long = format!("1\t{}\t\t\t1\t1", "é".repeat(100_000));
        assert!(parse(&stored(&long)).unwrap().service().len() <= 2 * MAX_FIELD);
        let more = "1\torders\t2\tweb\t1\t1\tlater\nc\t1\t2\t3\tlater\n\
                    h\tt\t1\t0\t\t\t\ta\nh\tt\t1\t0\t\t\t\tb\tkept\tlater\nh\tt\t1\t0\t\t\t\tc\tlater\n";
        let found = parse(&stored(more)).unwrap();
        assert_eq!(found.lost(), Some(3));
        let kept: Vec<_> = found.holds.iter().map(|hold| hold.is_kept).collect();
        assert_eq!(kept, [false, true, false]);
    }
}
