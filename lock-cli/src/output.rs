//! What `locks` prints.

use crate::text::escaped;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code if the output cannot be written, as in sysexits.h.
const UNWRITTEN: u8 = 74;

static JSON: AtomicBool = AtomicBool::new(false);

/// Prints lines of text. Ends the program if that is impossible: the disk is full, or the reader has left.
pub(crate) fn print(text: &str) {
    let mut stdout = std::io::stdout();
    let written = stdout.write_all(text.as_bytes());
    if let Err(error) = written.and_then(|()| stdout.flush()) {
        end_unwritten(&error);
    }
}

/// Ends the program, whose output can't be written.
pub(crate) fn end_unwritten(error: &std::io::Error) -> ! {
    let message = format!("the output can't be written: {error}");
    say_error(&message, UNWRITTEN);
    std::process::exit(UNWRITTEN.into())
}

/// Sets whether a program reads the output.
pub(crate) fn set_json(is_json: bool) {
    JSON.store(is_json, Ordering::Relaxed);
}

pub(crate) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Prints an object on a line of its own.
pub(crate) fn print_json(object: &Value) {
    print(&format!("{}\n", encoded(object)));
}

/// Reports a problem, or what to know of the output.
pub(crate) fn say(message: &str) {
    if is_json() {
        return say_json(&json!({ "note": message }));
    }
    let _ = writeln!(std::io::stderr(), "locks: {}", escaped(message));
}

/// Reports why the program ends with that code.
pub(crate) fn say_error(message: &str, code: u8) {
    match is_json() {
        true => say_json(&json!({ "error": message, "code": code })),
        false => say(message),
    }
}

fn say_json(object: &Value) {
    let _ = writeln!(std::io::stderr(), "{}", encoded(object));
}

/// Clears the terminal.
pub(crate) fn clear() {
    if std::io::stdout().is_terminal() {
        print("\u{1b}[H\u{1b}[2J");
    }
}

/// Returns the number of lines of the terminal, if it is one.
pub(crate) fn height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(size.ws_row.into()).filter(|rows| *rows > 0)
}

/// Asks whether something is meant. Returns `None` without a terminal.
pub(crate) fn ask(question: &str) -> Option<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    let _ = write!(std::io::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).ok()?;
    Some(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Returns a heading, bold if a terminal shows it.
pub(crate) fn heading(text: &str) -> String {
    match std::io::stdout().is_terminal() && wants_color() {
        true => format!("\u{1b}[1m{text}\u{1b}[0m"),
        false => text.to_owned(),
    }
}

fn wants_color() -> bool {
    let is_set = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !is_set && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Returns JSON without any control character: JSON itself permits those above U+007E.
fn encoded(object: &Value) -> String {
    let mut safe = String::new();
    for c in object.to_string().chars() {
        match c.is_control() {
            true => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_control_characters() {
        let key = "\u{1b}[2J\u{9b}\u{7f}\n";
        let text = encoded(&json!({ "key": key }));
        assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["key"], key);
    }
}
