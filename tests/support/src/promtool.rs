//! Prometheus' own tool for its files.

use std::io::Write;
use std::process::{Command, Stdio};

/// Returns what `promtool` prints, which must accept the input.
#[track_caller]
pub fn promtool(arguments: &[&str], input: &str) -> String {
    let mut process = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("`promtool` is installed");
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = process.wait_with_output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert!(output.status.success(), "{printed}\n{input}");
    printed
}
