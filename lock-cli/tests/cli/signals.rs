//! Without a terminal, the command gets the signals that `locks` gets.

use crate::program::run;
use lock_test_support::server::Server;

#[test]
fn signals_are_passed_on() {
    let server = Server::start();
    for (number, signal) in ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"]
        .iter()
        .enumerate()
    {
        let code = number + 10;
        let script = format!(
            "trap 'echo \"@ got {signal}\"; exit {code}' {signal}; echo '@ runs'; while :; do sleep 0.05; done"
        );
        let mut worker = run(&server, "k", &script);
        worker.expect("runs");
        worker.signal(signal);
        worker.expect(&format!("got {signal}"));
        assert_eq!(worker.ends().code(), Some(code as i32));
        assert!(!server.exists("lock:k"));
    }
}

#[test]
fn lock_is_held_until_a_terminated_command_has_ended() {
    let server = Server::start();
    let script =
        "trap 'echo \"@ ends\"; read _; exit 0' TERM; echo '@ runs'; while :; do sleep 0.05; done";
    let mut worker = run(&server, "k", script);
    worker.expect("runs");
    worker.signal("TERM");
    worker.expect("ends");
    assert!(server.exists("lock:k"));
    worker.order("end");
    worker.succeeds();
    assert!(!server.exists("lock:k"));
}

#[test]
fn signal_reaches_the_whole_group() {
    let server = Server::start();
    let child =
        "trap 'echo \"@ child ends\"; exit 0' TERM; echo '@ runs'; while :; do sleep 0.05; done";
    let script = format!("trap : TERM; ({child}) & wait; wait; exit 4");
    let mut worker = run(&server, "k", &script);
    worker.expect("runs");
    worker.signal("TERM");
    worker.expect("child ends");
    assert_eq!(worker.ends().code(), Some(4));
}
