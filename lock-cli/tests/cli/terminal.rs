//! `locks` at a terminal.

use crate::program::hold;
use lock_test_support::server::{Server, signal};
use lock_test_support::time::eventually;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;

/// A terminal, in whose foreground `locks` runs. Killed when dropped.
struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    process: Child,
}

impl Terminal {
    fn start(url: &str, arguments: &[&str], no_color: Option<&str>) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap());
        let theirs = theirs.unwrap();
        let mut locks = Command::new("setsid");
        locks
            .args(["--ctty", "env", "--default-signal=HUP,INT,QUIT"])
            .arg(env!("CARGO_BIN_EXE_locks"))
            .args(arguments)
            .env("LOCK_URL", url)
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .envs(no_color.map(|value| ("NO_COLOR", value)))
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs);
        let process = locks.spawn().unwrap();
        drop(locks);
        let keyboard = File::from(ours);
        let mut output = keyboard.try_clone().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let written = screen.clone();
        thread::spawn(move || {
            let mut bytes = [0; 1024];
            // Reading fails once no process has the terminal open.
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..length]);
                written.lock().unwrap().push_str(&text);
            }
        });
        Self {
            keyboard,
            screen,
            process,
        }
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        eventually(text, || self.screen.lock().unwrap().contains(text));
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    #[track_caller]
    fn ends(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("`locks` ends", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn keys_are_bold_unless_no_color_is_set() {
    for (no_color, first) in [
        (None, "\u{1b}[1mk\u{1b}[0m            free"),
        (Some(""), "\u{1b}[1mk\u{1b}[0m            free"),
        (Some("1"), "k            free"),
    ] {
        let mut terminal = Terminal::start("memory://", &["show", "k"], no_color);
        assert_eq!(terminal.ends(), Some(0));
        terminal.shows(first);
        let colored = terminal.screen.lock().unwrap().contains('\u{1b}');
        assert_eq!(colored, no_color != Some("1"));
    }
}

#[test]
fn command_is_in_the_foreground() {
    let server = Server::start();
    let script = "trap 'count=x$count; echo interrupted-$count' INT; trap 'echo \"ends with $count.\"; exit 6' TERM; \
                  echo 'is ready'; while :; do read line; echo \"got $line.\"; done";
    let arguments = ["run", "k", "--", "bash", "-c", script];
    let mut terminal = Terminal::start(&server.url(), &arguments, None);
    terminal.shows("is ready");
    terminal.types("\u{3}");
    terminal.shows("interrupted-x");
    terminal.types("a line\n");
    terminal.shows("got a line.");
    // The terminal has sent its own; only TERM is passed on.
    signal(terminal.process.id(), "INT");
    signal(terminal.process.id(), "TERM");
    terminal.shows("ends with x.");
    assert_eq!(terminal.ends(), Some(6));
}

#[test]
fn wait_is_shown_and_erased() {
    let server = Server::start();
    let mut holder = hold(&server, "k");
    let arguments = ["run", "k", "--wait", "1m", "--", "echo", "the command runs"];
    let mut terminal = Terminal::start(&server.url(), &arguments, None);
    terminal.shows("\r\u{1b}[Kwaiting for lock `k`, ");
    holder.order("end");
    holder.succeeds();
    terminal.shows("\r\u{1b}[Kthe command runs");
    assert_eq!(terminal.ends(), Some(0));
}
