//! An example, running.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{LazyLock, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::support::server::signal;
use crate::support::time::eventually;

const LIMIT: Duration = Duration::from_secs(20);

/// Killed when dropped.
pub struct Program {
    name: &'static str,
    process: Child,
    lines: Mutex<Receiver<String>>,
    errors: Option<JoinHandle<String>>,
}

/// What a program that has ended left behind.
pub struct Ended {
    pub status: ExitStatus,
    /// The lines that nobody has read before.
    pub lines: Vec<String>,
    pub errors: String,
}

impl Program {
    pub fn start(name: &'static str, arguments: &[&str], lock: Option<&str>) -> Self {
        let mut command = Command::new(EXAMPLES.join(name));
        command.args(arguments).env_remove("LOCK_URL");
        command.envs(lock.map(|url| ("LOCK_URL", url)));
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut errors = process.stderr.take().unwrap();
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let errors = thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        Self {
            name,
            process,
            lines: Mutex::new(lines),
            errors: Some(errors),
        }
    }

    /// The next line that has this in it.
    #[track_caller]
    pub fn line(&self, part: &str) -> String {
        loop {
            match self.lines.lock().unwrap().recv_timeout(LIMIT) {
                Ok(line) if line.contains(part) => return line,
                Ok(_) => {}
                Err(error) => panic!("`{}` prints no `{part}`: {error}", self.name),
            }
        }
    }

    pub fn terminate(&self) {
        signal(self.process.id(), "TERM");
    }

    #[track_caller]
    pub fn end(mut self) -> Ended {
        let mut status = None;
        eventually(LIMIT, &format!("`{}` ends", self.name), || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        Ended {
            status: status.unwrap(),
            lines: self.lines.lock().unwrap().iter().collect(),
            errors: self.errors.take().unwrap().join().unwrap(),
        }
    }

    /// Its lines, if it ends well and has no complaints.
    #[track_caller]
    pub fn succeeds(self) -> Vec<String> {
        let name = self.name;
        let Ended {
            status,
            lines,
            errors,
        } = self.end();
        assert!(
            status.success() && errors.is_empty(),
            "`{name}`: {status}\n{errors}"
        );
        lines
    }

    /// What it complains about.
    #[track_caller]
    pub fn fails(self) -> String {
        let name = self.name;
        let Ended {
            status,
            lines,
            errors,
        } = self.end();
        assert!(
            !status.success() && lines.is_empty(),
            "`{name}`: {status}\n{lines:#?}"
        );
        errors
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where cargo has put the examples. `cargo test --test servers` alone wouldn't build them.
static EXAMPLES: LazyLock<PathBuf> = LazyLock::new(|| {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let name = match profile.file_name().and_then(|name| name.to_str()).unwrap() {
        "debug" => "dev",
        name => name,
    };
    let mut build = Command::new(env!("CARGO"));
    // What cargo says of the package that is tested would have build scripts run again, and all that
    // depends on theirs compiled anew.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            build.env_remove(&*name);
        }
    }
    let built = build
        // With the features of the whole test command, so that nothing is compiled anew.
        .args(["build", "--quiet", "--examples", "--workspace"])
        .args(["--all-features", "--profile", name])
        .arg("--target-dir")
        .arg(profile.parent().unwrap())
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .status();
    assert!(built.unwrap().success(), "the examples can't be built");
    profile.join("examples")
});
