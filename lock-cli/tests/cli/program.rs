//! `locks`, started without a terminal.

use lock_test_support::server::Server;
use lock_test_support::worker::Worker;
use std::fs;
use std::process::{Command, Output};

/// Prepares `locks` with the words of a line as its arguments, and `command` as its last ones.
pub(crate) fn locks(url: &str, line: &str, command: &[&str]) -> Command {
    // Tests may run at a terminal, or in the background of a script.
    let mut locks = Command::new("setsid");
    locks
        .args(["env", "--default-signal=HUP,INT,QUIT"])
        .arg(env!("CARGO_BIN_EXE_locks"))
        .args(line.split_whitespace())
        .args(command)
        .env_remove("LOCK_PREFIX")
        .env("LOCK_URL", url);
    locks
}

/// Starts `locks run KEY OPTIONS -- sh -c SCRIPT`, whose events are awaited.
pub(crate) fn run(server: &Server, line: &str, script: &str) -> Worker {
    run_at(&server.url(), line, script)
}

/// Like [`run`], on any server.
pub(crate) fn run_at(url: &str, line: &str, script: &str) -> Worker {
    let command = ["--", "sh", "-c", script];
    // A busy machine replies late.
    let line = format!("run {line} --timeout 10s");
    Worker::run(locks(url, &line, &command))
}

/// Holds a lock until the next order, which is reported when it is acquired.
pub(crate) fn hold(server: &Server, line: &str) -> Worker {
    hold_at(&server.url(), line)
}

/// Like [`hold`], on any server.
pub(crate) fn hold_at(url: &str, line: &str) -> Worker {
    let holder = run_at(url, line, "echo '@ holds'; read _");
    holder.expect("holds");
    holder
}

/// Runs `locks` to its end.
pub(crate) fn output(url: &str, line: &str, command: &[&str]) -> Output {
    locks(url, line, command).output().unwrap()
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns `true` if no code of the process runs any more.
pub(crate) fn is_dead(pid: &str) -> bool {
    // The state follows the name, which is in parentheses.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| {
        stat.rsplit(") ").next().unwrap().starts_with(['Z', 'X'])
    })
}
