//! `locks show`.

use crate::program::{code, hold, output, run, text};
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, eventually};
use serde_json::Value;

fn shown(server: &Server, key: &str) -> String {
    let ended = output(&server.url(), "show", &[key]);
    assert_eq!(code(&ended), 0, "{}", text(&ended.stderr));
    text(&ended.stdout)
}

fn shown_as_json(server: &Server, key: &str) -> Value {
    let ended = output(&server.url(), "show --json", &[key]);
    assert_eq!(code(&ended), 0, "{}", text(&ended.stderr));
    let text = text(&ended.stdout);
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn holder_and_waiters_are_shown() {
    let server = Server::start();
    assert_eq!(shown(&server, "order:42"), "order:42     free\n");
    let mut holder = hold(&server, "order:42 --ttl 30s");
    let mut waiter = run(&server, "order:42 --read --wait 1m", "echo '@ runs'");
    server.until_waiting("order:42", 1);

    let found = shown_as_json(&server, "order:42");
    assert_eq!(found["key"], "order:42");
    let [held] = &found["holders"].as_array().unwrap()[..] else {
        panic!("{found}");
    };
    let token: String = server.query("GET lock:order:42");
    // A plus sign says that there are waiters.
    let token = token.trim_end_matches('+');
    assert_eq!(held["token"], token);
    assert_eq!(
        (&held["mode"], &held["lease"]),
        (&"exclusive".into(), &"ends".into())
    );
    let left = held["left_ms"].as_u64().unwrap();
    assert!((1..=30_000).contains(&left), "{found}");
    let process = held["process"].as_str().unwrap();
    assert_eq!(process.len(), 7);
    let since = humantime::parse_rfc3339(held["since"].as_str().unwrap()).unwrap();
    assert!(since.elapsed().unwrap() < PATIENCE, "{found}");
    assert_eq!(found["waiting"], 1);
    assert_eq!(found["waiters"][0]["mode"], "read");
    let waits = found["waiters"][0]["process"].as_str().unwrap();
    assert_ne!(waits, process);

    // Both processes have told who they are by then.
    let (mut text, locks) = (String::new(), "locks at ");
    eventually("both are named", || {
        text = shown(&server, "order:42");
        text.matches(locks).count() == 2
    });
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].starts_with("order:42     held for "), "{text}");
    assert!(lines[0].contains(&format!(" s by {locks}")), "{text}");
    assert!(lines[0].ends_with(", exclusive"), "{text}");
    assert_eq!(lines[1], "  label      sh");
    assert!(lines[2].starts_with("  lease      "), "{text}");
    assert!(
        lines[2].ends_with(&format!(" s left   token {token}")),
        "{text}"
    );
    let first = format!("  waiting    1  {locks}");
    assert!(lines[3].starts_with(&first), "{text}");
    assert!(lines[3].ends_with(" s   read"), "{text}");

    holder.order("end");
    holder.succeeds();
    waiter.expect("runs");
    waiter.succeeds();
    assert_eq!(shown(&server, "order:42"), "order:42     free\n");
}

#[test]
fn keys_and_tokens_cannot_control_a_terminal() {
    let server = Server::start();
    let key = "\u{1b}[2J\r\u{9b}31mé\u{202e}\n";
    let token = "\u{1b}]0;owned\u{7}\u{9b}A\u{7f}";
    server
        .ask::<()>(&["SET", &format!("lock:{key}"), token])
        .unwrap();

    let text = shown(&server, key);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[0],
        "\\u{1b}[2J\\r\\u{9b}31mé\\u{202e}\\n  held by another client, exclusive"
    );
    assert_eq!(
        lines[1],
        "  lease      never ends   token \\u{1b}]0;owned\\u{7}\\u{9b}A\\u{7f}"
    );
    assert_eq!(lines.len(), 2, "{text}");

    let ended = output(&server.url(), "show --json", &[key]);
    let json = crate::program::text(&ended.stdout);
    assert!(json.trim_end().chars().all(|c| !c.is_control()), "{json:?}");
    let found: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&found["key"], &found["holders"][0]["token"]),
        (&key.into(), &token.into())
    );
    assert_eq!(found["holders"][0]["lease"], "never");

    let ended = output(&server.url(), "run", &[key, "--", "true"]);
    let errors = crate::program::text(&ended.stderr);
    assert_eq!((code(&ended), errors.lines().count()), (75, 1), "{errors}");
    assert!(
        errors.trim_end().chars().all(|c| !c.is_control()),
        "{errors:?}"
    );
    server.ask::<()>(&["DEL", &format!("lock:{key}")]).unwrap();
}

#[test]
fn hidden_key_is_no_key() {
    let server = Server::start();
    for key in ["", ":reserved"] {
        let ended = output(&server.url(), "show", &[key]);
        assert_eq!(code(&ended), 2, "{}", text(&ended.stderr));
    }
}
