//! `locks __exec`: becomes the command of `locks run`, which the kernel kills when `locks` has died.

use crate::exit::{Failure, NOT_EXECUTABLE, NOT_FOUND};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Returns only if the command can't be executed.
pub(crate) fn exec(parent: i32, command: &[OsString]) -> Failure {
    if let Err(failure) = die_with(parent) {
        return failure;
    }
    let [program, arguments @ ..] = command else {
        return Failure::new(NOT_FOUND, "there is no command");
    };
    let error = Command::new(program).args(arguments).exec();
    let code = match error.kind() {
        ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    Failure::new(code, format!("`{}`: {error}", program.display()))
}

#[cfg(target_os = "linux")]
fn die_with(parent: i32) -> Result<(), Failure> {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from)?;
    // It may have died before.
    match Pid::as_raw(getppid()) == parent {
        true => Ok(()),
        false => Err(Failure::new(NOT_EXECUTABLE, "`locks run` has ended")),
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_parent: i32) -> Result<(), Failure> {
    Ok(())
}
