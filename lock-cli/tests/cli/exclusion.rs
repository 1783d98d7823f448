//! Commands under the same lock exclude each other.

use crate::program::{code, output, text};
use lock_test_support::server::{Server, temporary};
use lock_test_support::servers::Sqlite;
use std::fs;
use std::thread;

/// Reads, waits a moment, and writes: a command beside it would lose a count.
const COUNT: &str = r#"read count <"$1"; sleep 0.01; echo $((count + 1)) >"$1"; echo $LOCK_FENCING_TOKEN >>"$1.tokens""#;

#[test]
fn loops_over_one_file_never_interleave() {
    let server = Server::start();
    never_interleave(&server.url());
}

#[test]
fn loops_under_a_lock_in_a_file_never_interleave() {
    let file = Sqlite::start();
    never_interleave(&file.url());
}

fn never_interleave(url: &str) {
    let runs = std::env::var("LOCK_RUNS").ok();
    let runs = runs.map_or(20, |runs| runs.parse::<u64>().unwrap());
    let directory = temporary("locks-");
    let file = directory.path().join("count");
    fs::write(&file, "0\n").unwrap();
    let path = file.to_str().unwrap();
    let count = || {
        for _ in 0..runs {
            let command = ["--", "sh", "-c", COUNT, "count", path];
            let ended = output(url, "run count --wait forever", &command);
            assert_eq!(code(&ended), 0, "{}", text(&ended.stderr));
        }
    };
    thread::scope(|scope| {
        scope.spawn(count);
        scope.spawn(count);
    });
    let counted = fs::read_to_string(path).unwrap();
    assert_eq!(counted.trim(), (2 * runs).to_string());
    let tokens = fs::read_to_string(format!("{path}.tokens")).unwrap();
    let tokens: Vec<u64> = tokens.lines().map(|token| token.parse().unwrap()).collect();
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}
