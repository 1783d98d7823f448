//! The command as a process.

use crate::output::is_json;
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::ExitStatus;
use tokio::process::Child;

/// A running command. Killed when dropped.
pub(crate) struct Command {
    process: Child,
    pid: Pid,
    /// Leads a process group of its own.
    leads_group: bool,
}

impl Command {
    pub(crate) fn start(
        command: &[OsString],
        environment: Vec<(&'static str, OsString)>,
    ) -> io::Result<Command> {
        // At a terminal it needs to be in the foreground, to read and to be stopped together with `locks`.
        let leads_group = File::open("/dev/tty").is_err();
        let mut start = std::process::Command::new(this_program()?);
        start
            .args(is_json().then_some("--json"))
            .args(["__exec", &getpid().to_string(), "--"])
            .args(command)
            .envs(environment);
        if leads_group {
            start.process_group(0);
        }
        let mut start = tokio::process::Command::from(start);
        let process = start.kill_on_drop(true).spawn()?;
        let pid = process.id().and_then(|id| Pid::from_raw(id as i32));
        let pid = pid.ok_or(io::ErrorKind::NotFound)?;
        Ok(Command {
            process,
            pid,
            leads_group,
        })
    }

    /// Waits until it has ended. Cancel safe.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Passes on a signal that `locks` got, unless the terminal sends it to all of the foreground.
    pub(crate) fn forward(&self, signal: Signal) {
        if self.leads_group || [Signal::TERM, Signal::HUP].contains(&signal) {
            self.send(signal);
        }
    }

    /// Asks it to end, also if it is stopped.
    pub(crate) fn terminate(&self) {
        self.send(Signal::TERM);
        self.send(Signal::CONT);
    }

    pub(crate) fn kill(&self) {
        self.send(Signal::KILL);
    }

    /// Sends a signal, before [`wait`](Self::wait) has returned: the process cannot have a successor yet.
    fn send(&self, signal: Signal) {
        // It may have ended.
        let _ = match self.leads_group {
            true => kill_process_group(self.pid, signal),
            false => kill_process(self.pid, signal),
        };
    }
}

/// Returns the path of the program that runs, even if another version has replaced its file.
fn this_program() -> io::Result<std::path::PathBuf> {
    match cfg!(target_os = "linux") {
        true => Ok("/proc/self/exe".into()),
        false => std::env::current_exe(),
    }
}
