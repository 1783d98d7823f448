//! Exit codes, and what ends `locks` with one.

use crate::output::{end_unwritten, is_json, say_error};
use lock_runtime::LockError;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitStatus;

pub(crate) const DONE: u8 = 0;
/// The server check found a reason to worry.
pub(crate) const WARNINGS: u8 = 1;
pub(crate) const USAGE: u8 = 2;
// As in sysexits.h.
pub(crate) const UNAVAILABLE: u8 = 69;
pub(crate) const SYSTEM: u8 = 71;
pub(crate) const BUSY: u8 = 75;
pub(crate) const CONFIGURATION: u8 = 78;
// As those of timeout(1).
pub(crate) const LOST: u8 = 124;
pub(crate) const NOT_EXECUTABLE: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;

/// The code of a process that a signal has ended, as shells return it.
pub(crate) fn of_signal(signal: i32) -> u8 {
    128 | (signal as u8)
}

/// Returns the code that passes the end of a command on.
pub(crate) fn of_command(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => of_signal(signal.unwrap_or_default()),
    }
}

/// Prints what is wrong with the arguments, or the help or the version that they ask for. Returns the code.
pub(crate) fn of_arguments(error: &clap::Error) -> u8 {
    if error.use_stderr() && is_json() {
        let message = error.to_string();
        let message = message.trim_end().trim_start_matches("error: ");
        return Failure::new(USAGE, message).report();
    }
    let printed = error.print().and_then(|()| io::stdout().flush());
    match (printed, error.use_stderr()) {
        (_, true) => USAGE,
        (Ok(()), false) => DONE,
        (Err(error), false) => end_unwritten(&error),
    }
}

/// Why `locks` ends without a result.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Failure {
        let message = message.into();
        Failure { code, message }
    }

    /// Prints the message. Returns the code.
    pub(crate) fn report(self) -> u8 {
        say_error(&self.message, self.code);
        self.code
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Failure {
        let code = match &error {
            LockError::Unavailable { source, server, .. } if is_refusal(&**source) => {
                let message = format!(
                    "the lock server `{server}` refuses it to this user: {source}; grant the right that is named"
                );
                return Failure::new(CONFIGURATION, message);
            }
            LockError::Busy { .. } => BUSY,
            LockError::Lost { .. } => LOST,
            LockError::Unavailable { .. } | LockError::ShuttingDown { .. } => UNAVAILABLE,
            LockError::InvalidKey { .. } | LockError::InvalidOption { .. } => USAGE,
            _ => CONFIGURATION,
        };
        Failure::new(code, with_causes(&error))
    }
}

/// Returns `true` if the server is there, and the user lacks a right: the servers say so in words of their
/// own.
fn is_refusal(error: &dyn Error) -> bool {
    error.to_string().to_lowercase().contains("permission")
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::new(SYSTEM, error.to_string())
    }
}

/// Returns the messages of an error and of its causes, without those that it contains already.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    // The causes follow.
    let mut message = error
        .to_string()
        .replace("the source of this error names the cause: ", "");
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_runtime::LostCause;

    #[test]
    fn errors_have_codes() {
        for (error, code) in [
            (LockError::busy("k"), BUSY),
            (LockError::lost("k", LostCause::Expired), LOST),
            (LockError::unavailable("k", "refused"), UNAVAILABLE),
            (
                LockError::unavailable("k", "NOPERM no permissions"),
                CONFIGURATION,
            ),
            (LockError::NotInitialized, CONFIGURATION),
        ] {
            assert_eq!(Failure::from(error.clone()).code, code, "{error}");
        }
    }

    #[test]
    fn a_failure_names_the_cause() {
        let failure = Failure::from(LockError::unavailable("k", "refused"));
        assert!(failure.message.ends_with(": refused"), "{failure:?}");
    }
}
