//! What the compiler says about a wrong annotation, and what it must not complain about.
//!
//! `UPDATE_EXPECT=1 cargo test --features full --test attribute ui::` renews the expected texts.
//!
//! The compiler is called directly, with the libraries that this test was itself linked with: a build by
//! cargo, in a directory of its own, would compile all of them again.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use expect_test::expect_file;

/// The package whose cases these are. The tests are another's: what the tests of a macro depend on is
/// compiled for the host, once more.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/lock-macros");

#[test]
fn what_is_right_compiles_without_a_warning() {
    for_each_case("pass", |case| {
        let said = diagnostics(&compile(case, &["-D", "warnings"]));
        assert_eq!(said, "", "{}", case.display());
    });
}

#[test]
fn what_is_wrong_is_said_in_the_users_words() {
    for_each_case("fail", |case| {
        let output = compile(case, &[]);
        assert!(!output.status.success(), "{} compiles", case.display());
        let path = Path::new(PACKAGE).join(case);
        expect_file![path.with_extension("stderr")].assert_eq(&diagnostics(&output));
    });
}

/// As many at a time as there are processors.
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
    // Cargo has put this test where it has put what the test was linked with.
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
        // With the features that this test has, since errors name what they implement.
        .args([
            "--extern",
            &library("lock_runtime", "src/integrations/axum.rs"),
        ])
        // With `tokio::main`.
        .args(["--extern", &library("tokio", "src/macros/select.rs")])
        .args(["--diagnostic-width", "140"])
        .args(options)
        .arg(case)
        .output()
        .expect("`rustc` is installed")
}

/// The library that was built last of those with that source file in them: cargo has seen to it that it is
/// up to date.
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

/// What the compiler says, without its summary, and without the lines of other crates, which change.
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
