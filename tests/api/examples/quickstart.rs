use super::program::Program;
use lock_test_support::server::Server;

#[test]
fn quickstart_in_memory_shows_lock_behavior() {
    shows_what_the_lock_does(&Program::start("quickstart", &[], None).succeeds());
}

#[test]
fn quickstart_on_server_shows_lock_behavior() {
    let server = Server::start();
    let program = Program::start("quickstart", &[], Some(&server.url()));
    shows_what_the_lock_does(&program.succeeds());
}

#[test]
fn quickstart_without_server_fails() {
    let program = Program::start("quickstart", &[], Some("redis://127.0.0.1:1/"));
    let errors = program.fails();
    assert!(
        errors.starts_with("quickstart: the lock server"),
        "{errors}"
    );
}

fn shows_what_the_lock_does(lines: &[String]) {
    println!("{}", lines.join("\n"));
    assert!(lines.len() <= 30, "the output fits a screen");
    assert!(
        lines.iter().all(|line| line.len() <= 90),
        "the lines fit a terminal"
    );

    let mut scenes = lines
        .split(|line| line.is_empty())
        .skip(1)
        .map(|scene| &scene[1..]);
    let mut scene = || scenes.next().unwrap().iter().map(|line| Line::parse(line));

    let turns: Vec<Line> = scene().collect();
    let starts = turns
        .iter()
        .filter(|line| line.what == "packs order 1")
        .map(|line| line.at);
    let starts: Vec<u64> = starts.collect();
    assert_eq!(starts.len(), 3);
    assert!(
        starts.is_sorted_by(|a, b| a + 149 <= *b),
        "they take turns: {starts:?}"
    );
    let other = turns
        .iter()
        .find(|line| line.what == "packs order 2")
        .unwrap();
    assert!(other.at < starts[2], "another lock does not block it");

    let limits: Vec<Line> = scene().collect();
    let said = |name: &str| limits.iter().find(|line| line.name == name).unwrap();
    assert_eq!(said("ann").what, "packs order 1");
    assert_eq!(said("cem").what, "leaves it to the other");
    let waited = said("bob")
        .what
        .strip_prefix("gives up on `order:1` after ");
    let waited = waited.unwrap().strip_suffix(" ms").unwrap();
    assert!(waited.parse::<u64>().unwrap() >= 50);

    let ways_out: Vec<(&str, &str)> = scene().map(|line| (line.name, line.what)).collect();
    let expected = [
        ("ann", "packs order 1"),
        ("ann", "fails: no boxes left"),
        ("bob", "packs order 1"),
        ("bob", "panics: the roof fell in"),
        ("cem", "packs order 1"),
        ("cem", "is canceled half-way"),
        ("dot", "packs order 1"),
    ];
    assert_eq!(ways_out, expected);

    let holds: Vec<&str> = scene().map(|line| line.what).collect();
    assert!(
        holds[0].starts_with("holds `order:1`, which has "),
        "{}",
        holds[0]
    );
    let token = |line: &str| {
        line.strip_prefix("had the fencing token ")
            .unwrap()
            .parse::<u64>()
    };
    assert!(token(holds[3]).unwrap() > token(holds[1]).unwrap());
}

struct Line<'a> {
    at: u64,
    name: &'a str,
    what: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Self {
        let (at, rest) = line.split_once(" ms  ").unwrap();
        let (name, what) = rest.split_once("  ").unwrap();
        Line {
            at: at.trim().parse().unwrap(),
            name,
            what,
        }
    }
}
