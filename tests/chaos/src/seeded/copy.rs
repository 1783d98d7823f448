//! A copy of all sources, to which a patch is applied.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The manifests that differ from the originals.
const EDITED: [&str; 2] = ["tests/chaos/Cargo.toml", "Cargo.toml"];

/// It is kept between runs, so that unchanged parts are not built again.
pub struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Copies all sources into the target directory of this program.
    pub fn new() -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let target = program.ancestors().nth(2).expect("cargo built it");
        let copy = Self {
            root: target.join("seeded"),
            target: target.to_owned(),
        };
        copy.restore(Path::new(""))?;
        // Another name than this program's, and another version: cargo treats packages of one name and
        // version as the same, wherever they are.
        copy.edit(EDITED[0], |manifest| {
            manifest.replace("name = \"chaos\"", "name = \"chaos-seeded\"")
        })?;
        copy.edit(EDITED[1], |manifest| {
            let (before, rest) = manifest
                .split_once("\nversion = \"")
                .expect("the manifest has a version");
            let (version, after) = rest.split_once('"').expect("the version is quoted");
            format!("{before}\nversion = \"{version}+seeded\"{after}")
        })?;
        Ok(copy)
    }

    /// Makes the library equal to the sources, and removes the rule of the patch.
    pub fn prepare(&self, patch: Option<&Path>) -> io::Result<()> {
        self.restore(Path::new("lock-runtime"))?;
        patch.map_or(Ok(()), |patch| apply(patch, &self.root, &[]))
    }

    fn cargo(&self, words: &[&str]) -> Command {
        let mut cargo = Command::new("cargo");
        cargo
            .args(words)
            .args(["--quiet", "--offline", "--all-features"])
            .arg("--target-dir")
            .arg(&self.target)
            .current_dir(&self.root);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        cargo
    }

    /// Checks that the library that was prepared compiles. What the patch leaves unchanged is not compiled
    /// again.
    pub fn check(&self) -> io::Result<()> {
        let mut check = self.cargo(&["check", "--package", "lock-runtime"]);
        carry_out(check.env("CARGO_INCREMENTAL", "1"))
    }

    /// Runs one test. Returns how long it took to fail, or `None` if it passed.
    pub fn run_test(&self, target: &[&str], name: &str) -> io::Result<Option<Duration>> {
        let test = [&["test", "--workspace"], target].concat();
        carry_out(self.cargo(&test).arg("--no-run"))?;
        let start = Instant::now();
        let (name, case) = name.split_once(' ').unwrap_or((name, ""));
        // The orders of steps in which the rule matters may be rare.
        let mut test = self.cargo(&test);
        let test = test.arg(name).env("LOCK_SHUTTLE", "10000");
        let test = test.env("LOCK_SIMULATIONS", "600");
        if !case.is_empty() {
            test.args(["--", "--exact"]);
        }
        let output = test.env("LOCK_CASES", case).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.contains("test result: ok. 1 passed") {
            true => Ok(None),
            false if text.contains("1 failed") => Ok(Some(start.elapsed())),
            false => Err(io::Error::other(format!("`{name}` does not run:\n{text}"))),
        }
    }

    /// Builds this program with the library that was prepared.
    pub fn build(&self) -> io::Result<PathBuf> {
        carry_out(&mut self.cargo(&["build", "--workspace", "--bin", "chaos-seeded"]))?;
        let profile = if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        };
        Ok(self.target.join(profile).join("chaos-seeded"))
    }

    /// Writes an edited copy of a manifest.
    fn edit(&self, manifest: &str, edit: impl Fn(String) -> String) -> io::Result<()> {
        let text = fs::read_to_string(Path::new(SOURCES).join(manifest))?;
        write(&self.root.join(manifest), edit(text).as_bytes())
    }

    /// Makes a folder of the copy equal to the sources.
    fn restore(&self, folder: &Path) -> io::Result<()> {
        let from = Path::new(SOURCES).join(folder);
        for there in fs::read_dir(self.root.join(folder)).into_iter().flatten() {
            let there = there?;
            if !from.join(there.file_name()).exists() {
                match there.file_type()?.is_dir() {
                    true => fs::remove_dir_all(there.path())?,
                    false => fs::remove_file(there.path())?,
                }
            }
        }
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
            let is_ours = |name: &OsStr| {
                let name = name.to_string_lossy();
                !name.starts_with('.') && name != "target" && path != Path::new("tests/bench")
            };
            let is_built = entry.path() == self.target;
            if !is_ours(&name) || is_built || EDITED.iter().any(|edited| path == Path::new(edited))
            {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => self.restore(&path)?,
                false => write(&self.root.join(&path), &fs::read(entry.path())?)?,
            }
        }
        Ok(())
    }
}

/// Writes a file only if it differs, so that cargo does not build it again.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().expect("the path is a file"))?;
    fs::write(path, content)
}

/// Applies a patch to the sources in `folder`.
pub fn apply(patch: &Path, folder: &Path, options: &[&str]) -> io::Result<()> {
    let mut git = Command::new("git");
    git.arg("apply")
        .args(options)
        .arg(patch)
        .current_dir(folder);
    // The folder may lie inside another repository.
    if let Some(parent) = folder.parent() {
        git.env("GIT_CEILING_DIRECTORIES", parent);
    }
    carry_out(&mut git)
}

fn carry_out(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {output}")))
}
