//! Contenders in other languages. Their sources are in `peers/`: programs that follow the same orders as the
//! children of this program, and are compiled when the benchmark runs.

use super::Retry;
use crate::process;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Foreign {
    /// Redisson's `RLock`.
    Redisson,
    /// Redisson's `RFairLock`.
    RedissonFair,
    /// Retries after a random 50 to 250 ms.
    Redsync(Retry),
    /// Does not wait by default.
    Redislock(Retry),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    Java,
    Go,
}

impl Foreign {
    pub fn language(self) -> Language {
        match self {
            Foreign::Redisson | Foreign::RedissonFair => Language::Java,
            Foreign::Redsync(_) | Foreign::Redislock(_) => Language::Go,
        }
    }

    /// Returns the name, and the retry interval.
    pub fn parts(self) -> (&'static str, Retry) {
        match self {
            Foreign::Redisson => ("redisson", Retry::Default),
            Foreign::RedissonFair => ("redisson-fair", Retry::Default),
            Foreign::Redsync(retry) => ("redsync", retry),
            Foreign::Redislock(retry) => ("redislock", retry),
        }
    }
}

impl Language {
    /// Compiles the program, or returns why that failed.
    pub fn build(self) -> Result<(), String> {
        let folder = self.folder().map_err(|error| error.to_string())?;
        let mut build = match self {
            Language::Java => {
                let mut maven = Command::new("mvn");
                maven
                    .args(["--batch-mode", "--quiet"])
                    .arg(format!("-Dfolder={}", folder.display()))
                    .args(["compiler:compile", "dependency:copy-dependencies"]);
                maven
            }
            Language::Go => {
                let mut go = Command::new("go");
                // Another toolchain would be downloaded.
                go.env("GOTOOLCHAIN", "local").args(["build", "-o"]);
                go.arg(folder.join("peer")).arg(".");
                go
            }
        };
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let tool = build.get_program().to_string_lossy().into_owned();
        let output = build.current_dir(sources.join(self.name())).output();
        let output = output.map_err(|error| format!("`{tool}`: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("`{tool}`: {}", reason(&output))),
        }
    }

    /// Returns the command that starts the program, which has been built.
    pub fn command(self, core: Option<usize>) -> Command {
        let folder = self.folder().unwrap();
        let file = |name: &str| folder.join(name).into_os_string().into_string().unwrap();
        match self {
            Language::Java => {
                let java = match env::var("JAVA_HOME") {
                    Ok(home) => format!("{home}/bin/java"),
                    Err(_) => "java".to_owned(),
                };
                let mut command = process::command(&java, core);
                command
                    // The CPU time of threads that have ended cannot be read.
                    .arg("-XX:-UseDynamicNumberOfCompilerThreads")
                    .arg("-cp")
                    .arg(format!("{}:{}/*", file("classes"), file("dependency")))
                    .arg("Peer");
                command
            }
            Language::Go => process::command(&file("peer"), core),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Language::Java => "java",
            Language::Go => "go",
        }
    }

    /// Returns the folder of the compiled program, beside that of the benchmark.
    fn folder(self) -> io::Result<PathBuf> {
        let benchmark = env::current_exe()?;
        let folder = benchmark.with_file_name("peers").join(self.name());
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

/// Returns the line of a failed build that says why it failed.
fn reason(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    // Maven's first error, or the last line of Go.
    let error = text.lines().find_map(|line| line.split_once("[ERROR] "));
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    let reason = error.map(|(_, error)| error).or(last);
    reason.unwrap_or("failed").to_owned()
}
