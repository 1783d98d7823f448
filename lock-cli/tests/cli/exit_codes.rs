//! Exit codes of `locks run`, by which scripts decide.

use crate::program::{code, hold, locks, output, text};
use lock_test_support::server::{Server, free_port, give_back_port};
use lock_test_support::time::eventually;
use serde_json::Value;
use std::fs::File;
use std::process::Stdio;

#[track_caller]
fn exits(url: &str, line: &str, command: &[&str], expected: i32, complaint: &str) {
    let ended = output(url, line, command);
    let errors = text(&ended.stderr);
    assert_eq!(code(&ended), expected, "{line} {command:?}: {errors}");
    assert!(errors.contains(complaint), "{line} {command:?}: {errors}");
    assert_eq!(complaint.is_empty(), errors.is_empty(), "{errors}");
}

#[test]
fn status_of_the_command_is_passed_on() {
    let server = Server::start();
    let url = server.url();
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        exits(&url, "run k", &["--", "sh", "-c", script], expected, "");
        assert!(!server.exists("lock:k"), "{script}");
    }
    exits(&url, "run k --", &["/no/such"], 127, "`/no/such`: ");
    exits(&url, "run k --", &["no-such-program"], 127, "No such file");
    exits(&url, "run k --", &["/dev/null"], 126, "Permission denied");
    assert!(!server.exists("lock:k"));
}

#[test]
fn command_finds_the_lock_in_its_environment() {
    let server = Server::start();
    let script = "echo $LOCK_KEY:${LOCK_FENCING_TOKEN-none}:$MARK";
    let mut tokens = Vec::new();
    for line in ["run k", "run k --read", "run k --permits 2"] {
        let mut locks = crate::program::locks(&server.url(), line, &["--", "sh", "-c", script]);
        let ended = locks.env("MARK", "unchanged").output().unwrap();
        let words = text(&ended.stdout);
        let words: Vec<_> = words.trim().split(':').collect();
        let [key, token, mark] = words[..] else {
            panic!("{words:?}");
        };
        assert_eq!((key, mark), ("k", "unchanged"));
        tokens.push(token.parse::<u64>().ok());
    }
    assert!(tokens[0].is_some() && tokens[0] < tokens[1], "{tokens:?}");
    assert_eq!(tokens[2], None);
}

/// The services refuse it, too: its locks would be others than theirs.
#[test]
fn empty_prefix_in_the_environment_is_an_error() {
    let server = Server::start();
    let mut run = locks(&server.url(), "run k", &["--", "true"]);
    let ended = run.env("LOCK_PREFIX", "").output().unwrap();
    assert_eq!(code(&ended), 78);
    assert!(text(&ended.stderr).contains("`LOCK_PREFIX` is empty"));
}

#[test]
fn lock_that_is_held_is_busy() {
    let server = Server::start();
    let url = server.url();
    let mut holder = hold(&server, "k");
    let command = ["--", "true"];
    exits(&url, "run k", &command, 75, "lock `k` is held");
    exits(
        &url,
        "run k --wait 1s",
        &command,
        75,
        "waiting for lock `k`",
    );
    exits(&url, "run k -E 9", &command, 9, "lock `k` is held");
    exits(&url, "--prefix other: run k", &command, 0, "");
    holder.order("end");
    holder.succeeds();
    exits(&url, "run k", &command, 0, "");

    let mut reader = hold(&server, "k --read");
    exits(&url, "run k --read", &command, 0, "");
    exits(&url, "run k", &command, 75, "lock `k` is held");
    reader.order("end");
    reader.succeeds();
    let mut one_of_two = hold(&server, "k --permits 2");
    exits(&url, "run k --permits 2", &command, 0, "");
    exits(&url, "run k --permits 1", &command, 75, "lock `k`");
    one_of_two.order("end");
    one_of_two.succeeds();
}

/// A single try learns only that another client holds the lock.
#[test]
fn busy_lock_names_its_holder() {
    let server = Server::start();
    let mut holder = hold(&server, "k");
    for (line, words) in [
        ("run k", ["lock `k` is held for ", "`--wait 10m`"]),
        (
            "run k --wait 1s",
            ["waiting for lock `k`, which is held for ", "raise `--wait`"],
        ),
    ] {
        // Who can't look in time says only what it has learned while it waited.
        eventually("the holder is named", || {
            let ended = output(&server.url(), line, &["--", "true"]);
            let said = text(&ended.stderr);
            assert_eq!(code(&ended), 75, "{line}: {said}");
            let mut all = words.iter().chain(&[" by locks at ", ", pid "]);
            all.all(|words| said.contains(words))
        });
    }
    holder.order("end");
    holder.succeeds();
    server
        .ask::<()>(&["SET", "lock:k", "worker-7", "PX", "300000"])
        .unwrap();
    let command = ["--", "true"];
    exits(&server.url(), "run k", &command, 75, "by another client");
    server.ask::<()>(&["DEL", "lock:k"]).unwrap();
}

#[test]
fn missing_servers_and_wrong_arguments_have_codes() {
    let port = free_port();
    let url = format!("redis://127.0.0.1:{port}/");
    let command = ["--", "true"];
    exits(&url, "run k", &command, 69, "refused");
    exits("", "run k", &command, 78, "`LOCK_URL`");
    exits("mongodb://there", "run k", &command, 78, "`mongodb://`");
    for wrong in ["run k --", "run -- true", "run k --permits 0 -- true"] {
        let ended = output("memory://", wrong, &[]);
        assert_eq!(code(&ended), 2, "{wrong}: {}", text(&ended.stderr));
    }
    for wrong in ["k --read --permits 2", "k --ttl 0s", "k --ttl soon", ":k"] {
        let ended = output("memory://", &format!("run {wrong}"), &command);
        assert_eq!(code(&ended), 2, "{wrong}: {}", text(&ended.stderr));
    }
    let ended = output(&url, "list --json", &[]);
    let error: Value = serde_json::from_slice(&ended.stderr).unwrap();
    assert_eq!((code(&ended), &error["code"]), (69, &69.into()));
    assert!(error["error"].as_str().unwrap().contains("refused"));
    exits(
        "redis://127.0.0.1,127.0.0.2/",
        "run k",
        &command,
        78,
        "`redis-cluster://`",
    );
    give_back_port(port);
}

#[test]
fn every_error_is_an_object_for_programs() {
    for (line, command, expected) in [
        ("show --json", &[][..], 2),
        ("--json nothing", &[], 2),
        ("top --every soon --json", &[], 2),
        ("run k --json", &["--", "/nowhere/nothing"], 127),
        ("run k --json", &["--", "/"], 126),
    ] {
        let ended = output("memory://", line, command);
        let said = text(&ended.stderr);
        let error: Value = serde_json::from_str(said.trim()).expect(&said);
        assert_eq!((code(&ended), &error["code"]), (expected, &expected.into()));
        assert!(error["error"].is_string(), "{said}");
    }
    let own = output(
        "memory://",
        "run k",
        &["--", "sh", "-c", "exit 3", "--json"],
    );
    assert_eq!(code(&own), 3);
    let wrong = output("memory://", "show", &["--", "--json", "more"]);
    assert!(text(&wrong.stderr).starts_with("error: "));
}

/// The disk is full, or the reader has left.
#[test]
fn output_that_cannot_be_written_ends_with_a_code() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for line in [
        "ping",
        "list",
        "show k",
        "man",
        "ping --json",
        "--version",
        "show --help",
    ] {
        let ended = locks("memory://", line, &[]).stdout(full()).output();
        let ended = ended.unwrap();
        let said = text(&ended.stderr);
        assert_eq!(code(&ended), 74, "{line}: {said}");
        assert!(said.contains("can't be written: No space left"), "{said}");
    }
    let mut watch = locks("memory://", "top --watch --every 10ms", &[]);
    let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut watch = watch.unwrap();
    drop(watch.stdout.take());
    let ended = watch.wait_with_output().unwrap();
    assert_eq!(code(&ended), 74);
    assert!(text(&ended.stderr).contains("Broken pipe"));
}

#[test]
fn refused_commands_are_named() {
    let server = Server::start();
    server.query::<()>("ACL SETUSER some on >secret ~* &* +@all -set -eval -evalsha -hello");
    let url = format!("redis://some:secret@127.0.0.1:{}/", server.port());
    let ended = output(&url, "run k", &["--", "true"]);
    let errors = text(&ended.stderr);
    assert_eq!(code(&ended), 78, "{errors}");
    assert_eq!(
        errors.matches("run the 'eval' command").count(),
        1,
        "{errors}"
    );
    assert!(!errors.contains("secret"), "{errors}");
}

#[test]
fn port_that_is_in_use_is_named() {
    let server = Server::start();
    let line = format!("serve --port {}", server.port());
    let complaint = format!("`127.0.0.1:{}` can't be listened on: ", server.port());
    exits(&server.url(), &line, &[], 78, &complaint);
}
