//! The compiler's output for invalid annotations, and for annotations that must compile without warnings.
//!
//! `UPDATE_EXPECT=1 cargo test --features full --test api ui::` updates the expected texts.
//!
//! The test calls the compiler directly, with the libraries that it was itself linked with: cargo would
//! compile all of them again in a separate directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use expect_test::expect_file;

/// The package with the cases. The tests belong to another package, since the dependencies of a macro's
/// tests would be compiled once more, for the host.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/lock-macros");

#[test]
fn valid_annotations_compile_without_warnings() {
    for_each_case("pass", |case| {
        let said = diagnostics(&compile(case, &["-D", "warnings"]));
        assert_eq!(said, "", "{}", case.display());
    });
}

#[test]
fn invalid_annotations_are_reported_at_the_users_tokens() {
    for_each_case("fail", |case| {
        let output = compile(case, &[]);
        assert!(!output.status.success(), "{} compiles", case.display());
        let path = Path::new(PACKAGE).join(case);
        expect_file![path.with_extension("stderr")].assert_eq(&diagnostics(&output));
    });
}

/// Checks all cases of a folder, one per processor at a time.
fn for_each_case(folder: &str, check: impl Fn(&Path) + Sync) {
    let folder = Path::new("tests/ui").join(folder);
    let files = std::fs::read_dir(Path::new(PACKAGE).join(&folder)).unwrap();
    let mut cases: Vec<PathBuf> = files
        .map(|file| folder.join(file.unwrap().file_name()))
        .filter(|file| file.extension().is_some_and(|it| it == "rs"))
        .collect();
    cases.sort();
    assert!(!cases.is_empty(), "no cases in {}", folder.display());
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Relaxed)) {
            check(case);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}

fn compile(case: &Path, options: &[&str]) -> Output {
    // Cargo has put the libraries beside this test.
    let test = std::env::current_exe().unwrap();
    let libraries = test.parent().unwrap();
    let library = |name: &str, source: &str| {
        let path = newest(libraries, name, source);
        format!("{name}={}", path.display())
    };
    Command::new("rustc")
        .current_dir(PACKAGE)
        .args(["--edition", "2024", "--emit", "metadata", "--out-dir"])
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .arg("-L")
        .arg(format!("dependency={}", libraries.display()))
        // With the features of this test, since errors list the types that implement a trait.
        .args([
            "--extern",
            &library("lock_runtime", "src/integrations/axum.rs"),
        ])
        // The build with `tokio::main`.
        .args([
            "--extern",
            &library("tokio", "src/runtime/scheduler/multi_thread/worker.rs"),
        ])
        .args(["--diagnostic-width", "140"])
        .args(options)
        .arg(case)
        .output()
        .expect("`rustc` is installed")
}

/// Returns the library built last of those that contain the source file: cargo has just updated it.
fn newest(libraries: &Path, name: &str, source: &str) -> PathBuf {
    let files = std::fs::read_dir(libraries).unwrap().flatten();
    let libraries = files.filter_map(|file| {
        let sources = file.path();
        let hash = sources.file_stem()?.to_str()?.strip_prefix(name)?;
        let is_in = std::fs::read_to_string(&sources).ok()?.contains(source);
        let library = libraries.join(format!("lib{name}{hash}.rlib"));
        let built = library.metadata().ok()?.modified().ok()?;
        (hash.starts_with('-') && is_in).then_some((built, library))
    });
    let (_, library) = libraries
        .max()
        .unwrap_or_else(|| panic!("`{name}` was built"));
    library
}

/// Returns the compiler's output without its summary and without line numbers in other crates, which change.
fn diagnostics(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let (text, _) = text
        .split_once("error: aborting due to")
        .unwrap_or((&text, ""));
    let mut said = String::new();
    for line in text.trim_end().lines() {
        let elsewhere = line.contains("--> ") && !line.contains("tests/ui/");
        let place = line.find(".rs:").filter(|_| elsewhere);
        said += place.map_or(line, |place| &line[..place + 3]);
        said.push('\n');
    }
    said
}
