//! `locks ping` and `locks check`.

use crate::program::{code, hold_at, output, text};
use lock_test_support::certificates::Certificates;
use lock_test_support::postgres::Postgres;
use lock_test_support::preload::readable_directory;
use lock_test_support::server::{Server, temporary};
use lock_test_support::servers::Sqlite;
use lock_test_support::zookeeper::ZooKeeper;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

#[test]
fn ping_tells_whether_locks_can_be_acquired() {
    let mut server = Server::start();
    let url = server.url();
    let ended = output(&url, "ping", &[]);
    assert_eq!(code(&ended), 0);
    assert!(text(&ended.stdout).starts_with("locks can be acquired; "));
    let ended = output(&url, "--json ping", &[]);
    let found: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(found["ok"], true);
    assert!(found["ms"].as_f64().unwrap() > 0.0);

    server.pause();
    let ended = output(&url, "ping --timeout 50ms", &[]);
    assert_eq!(code(&ended), 69, "{}", text(&ended.stderr));
    assert!(ended.stdout.is_empty());
    server.kill();
    let ended = output(&url, "ping", &[]);
    assert_eq!(code(&ended), 69);
    assert!(text(&ended.stderr).contains("refused"));
}

#[test]
fn check_prints_warnings_and_fails_if_there_are_any() {
    let server = Server::start();
    let ended = output(&server.url(), "check", &[]);
    assert_eq!(code(&ended), 1);
    let text = text(&ended.stdout);
    assert!(
        text.contains("\n  remedy     set `appendonly yes`"),
        "{text}"
    );

    let ended = output(&server.url(), "check --json", &[]);
    assert_eq!(code(&ended), 1);
    let lines = crate::program::text(&ended.stdout);
    let warnings = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let warnings: Vec<_> = warnings.collect();
    assert_eq!(warnings.len(), text.matches("  remedy ").count());
    let durable = warnings
        .iter()
        .find(|warning| warning["kind"] == "NotDurable");
    for field in ["server", "finding", "consequence", "remedy"] {
        assert!(durable.unwrap()[field].is_string(), "{durable:?}");
    }

    let ended = output("memory://", "check", &[]);
    assert_eq!(
        (code(&ended), &*crate::program::text(&ended.stdout)),
        (0, "no warnings\n")
    );
    let ended = output("memory://", "check --json", &[]);
    assert_eq!(
        (code(&ended), &*crate::program::text(&ended.stdout)),
        (0, "")
    );
}

#[test]
fn password_is_never_shown() {
    let url = "redis://some:secret@127.0.0.1:1/";
    for line in [
        "--help",
        "run --help",
        "help",
        "ping",
        "check",
        "run k -- true",
        "show",
    ] {
        let ended = output(url, line, &[]);
        for shown in [text(&ended.stdout), text(&ended.stderr)] {
            assert!(!shown.contains("secret"), "{line}: {shown}");
        }
    }
}

#[test]
fn certificates_are_read_from_files() {
    let certificates = Certificates::demanded();
    let server = Server::with_tls(&certificates);
    let url = server.url().replace("redis:", "rediss:");
    let folder = temporary("locks-");
    let file = |name: &str, pem: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path.display().to_string()
    };
    let (certificate, key) = certificates.of_client("operator");
    let authority = file("authority.pem", &certificates.authority);
    let (certificate, key) = (file("client.pem", &certificate), file("client.key", &key));
    let ping = |options: &str| output(&url, &format!("ping {options}"), &[]);
    let ended = ping(&format!(
        "--cacert {authority} --cert {certificate} --key {key}"
    ));
    assert_eq!(code(&ended), 0, "{}", text(&ended.stderr));
    for (options, expected, word) in [
        (format!("--cacert {authority}"), 69, "`client_certificate`"),
        (
            format!("--cacert {authority} --cert {certificate}"),
            2,
            "--key",
        ),
        (format!("--cacert {authority} --key {key}"), 2, "--cert"),
        (
            format!("--cert {certificate} --key {certificate}"),
            78,
            "key",
        ),
        ("--cacert /nowhere".to_owned(), 78, "`/nowhere`"),
    ] {
        let ended = ping(&options);
        let said = text(&ended.stderr);
        assert_eq!(code(&ended), expected, "{options}: {said}");
        assert!(said.contains(word), "{options}: {said}");
    }
}

#[test]
fn database_that_no_service_uses_is_named_as_such() {
    let server = Postgres::start();
    for line in [
        "show k",
        "list",
        "processes",
        "ping",
        "check",
        "revoke k --reason no --yes --all",
    ] {
        let ended = output(&server.url(), &format!("{line} --timeout 10s"), &[]);
        let said = text(&ended.stderr);
        assert_eq!(code(&ended), 78, "{line}: {said}");
        let reason = "no service has used locks in this database";
        assert!(said.contains(reason), "{line}: {said}");
        assert!(said.contains("check that it is the right one"), "{said}");
        assert!(!said.contains("`create_schema`"), "{line}: {said}");
    }
}

/// The default ttl of 30 s is longer than this ensemble allows it.
#[test]
fn ensemble_with_short_sessions_is_looked_at_and_used() {
    let server = ZooKeeper::with(1, "maxSessionTimeout=10000");
    let url = server.url();
    for line in [
        "ping",
        "list",
        "show k",
        "processes",
        "revoke k --reason no --yes --all",
        "run k --ttl 5s -- true",
    ] {
        let ended = output(&url, line, &[]);
        assert_eq!(code(&ended), 0, "{line}: {}", text(&ended.stderr));
    }
    let ended = output(&url, "run k --ttl 20s -- true", &[]);
    let said = text(&ended.stderr);
    assert_eq!(code(&ended), 78, "{said}");
    assert!(said.contains("the ttl of 20s is longer"), "{said}");
}

/// A tool with a wrong URL makes no file.
#[test]
fn file_that_no_service_uses_is_named_as_such() {
    let file = Sqlite::start();
    let url = file.url();
    for line in ["show k", "list", "processes", "ping", "check"] {
        let ended = output(&url, line, &[]);
        let said = text(&ended.stderr);
        assert_eq!(code(&ended), 78, "{line}: {said}");
        assert!(said.contains("no service has used locks in it"), "{said}");
    }
    assert!(!file.path().exists());
    let mut holder = hold_at(&url, "k");
    let shown = output(&url, "show k", &[]);
    assert!(text(&shown.stdout).contains("held for"), "{shown:?}");
    let ended = output(&url, "run k -- true", &[]);
    assert_eq!(code(&ended), 75);
    holder.order("end");
    holder.succeeds();
}

/// Root may do anything, so it tries as another user.
#[test]
fn user_who_may_not_write_looks_at_locks_alone() {
    let file = Sqlite::start();
    let url = file.url();
    let program = readable_directory();
    let set_mode =
        |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let copy = program.path().join("locks");
    fs::copy(env!("CARGO_BIN_EXE_locks"), &copy).unwrap();
    set_mode(&copy, 0o755);
    let try_as_another = |line: &str| {
        let mut command = match rustix::process::geteuid().is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
                command.arg(&copy);
                command
            }
            false => Command::new(&copy),
        };
        let ended = command.args(line.split_whitespace()).env("LOCK_URL", &url);
        ended.output().unwrap()
    };

    let mut holder = hold_at(&url, "k");
    let path = file.path();
    let folder = path.parent().unwrap();
    for found in fs::read_dir(folder).unwrap() {
        set_mode(&found.unwrap().path(), 0o444);
    }
    set_mode(folder, 0o555);
    let shown = try_as_another("show k");
    let refused = try_as_another("run other -- true");
    set_mode(folder, 0o755);
    for found in fs::read_dir(folder).unwrap() {
        set_mode(&found.unwrap().path(), 0o644);
    }
    holder.order("end");
    holder.succeeds();
    assert_eq!(code(&shown), 0, "{}", text(&shown.stderr));
    assert!(text(&shown.stdout).contains("held for"), "{shown:?}");
    let said = text(&refused.stderr);
    assert_eq!(code(&refused), 78, "{said}");
    assert!(
        said.contains("let its user write to the file and its directory"),
        "{said}"
    );

    set_mode(folder, 0o700);
    if rustix::process::geteuid().is_root() {
        let refused = try_as_another("show k");
        let said = text(&refused.stderr);
        assert_eq!(code(&refused), 78, "{said}");
        assert!(said.contains("let it read and write"), "{said}");
    }
}

#[test]
fn url_that_needs_no_server_is_named() {
    let ended = output("", "ping", &[]);
    assert_eq!(code(&ended), 78);
    let said = text(&ended.stderr);
    assert!(
        said.contains("`sqlite:///var/lib/locks.db` needs no server"),
        "{said}"
    );
}
