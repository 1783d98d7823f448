//! A running example.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{LazyLock, Mutex};
use std::thread::{self, JoinHandle};

use lock_test_support::server::signal;
use lock_test_support::time::{PATIENCE, eventually};

/// Killed when dropped.
pub struct Program {
    name: &'static str,
    process: Child,
    lines: Mutex<Receiver<String>>,
    errors: Mutex<Option<JoinHandle<String>>>,
}

/// The output of a program that has ended.
pub struct Ended {
    pub status: ExitStatus,
    /// The lines that were not read before.
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
            errors: Mutex::new(Some(errors)),
        }
    }

    /// Returns the next line that contains `part`.
    #[track_caller]
    pub fn line(&self, part: &str) -> String {
        loop {
            match self.lines.lock().unwrap().recv_timeout(PATIENCE) {
                Ok(line) if line.contains(part) => return line,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => panic!("`{}` prints no `{part}`", self.name),
                Err(RecvTimeoutError::Disconnected) => {
                    let errors = self.errors();
                    panic!("`{}` ended without `{part}`: {errors}", self.name);
                }
            }
        }
    }

    pub fn terminate(&self) {
        self.signal("TERM");
    }

    pub fn signal(&self, name: &str) {
        signal(self.process.id(), name);
    }

    #[track_caller]
    pub fn end(mut self) -> Ended {
        let mut status = None;
        eventually(&format!("`{}` ends", self.name), || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        Ended {
            status: status.unwrap(),
            lines: self.lines.lock().unwrap().iter().collect(),
            errors: self.errors(),
        }
    }

    /// Returns the error output of a program that has ended.
    fn errors(&self) -> String {
        let errors = self.errors.lock().unwrap().take();
        errors.unwrap().join().unwrap()
    }

    /// Returns its lines; asserts success without error output.
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

    /// Returns its error output; asserts failure.
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

/// The directory of the built examples. `cargo test --test servers` alone would not build them.
static EXAMPLES: LazyLock<PathBuf> = LazyLock::new(|| {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let name = match profile.file_name().and_then(|name| name.to_str()).unwrap() {
        "debug" => "dev",
        name => name,
    };
    let mut build = Command::new(env!("CARGO"));
    // Cargo's variables about the tested package would rerun build scripts and recompile their dependents.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            build.env_remove(&*name);
        }
    }
    let built = build
        // With the same features as the test command, so that nothing is recompiled.
        .args(["build", "--quiet", "--examples", "--workspace"])
        .args(["--all-features", "--profile", name])
        .arg("--target-dir")
        .arg(profile.parent().unwrap())
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .status();
    assert!(built.unwrap().success(), "the examples cannot be built");
    profile.join("examples")
});
