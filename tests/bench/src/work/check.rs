//! The compile time of annotations, compared with those of `tracing`.

use crate::Bench;
use crate::report::Table;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const HANDLERS: usize = 200;

pub fn check(bench: &mut Bench) {
    let site = Site::new();
    let plain = site.package("plain", "");
    let locked = site.package(
        "locked",
        "#[lock_runtime::distributed_lock(key = \"order:<id>\")]",
    );
    let traced = site.package("traced", "#[tracing::instrument]");
    let packages = [plain, traced, locked];
    // The first check builds all dependencies.
    for package in &packages {
        site.check(package);
    }
    let mut best = [Duration::MAX; 3];
    for _ in 0..bench.rounds(5).max(3) {
        for (package, best) in packages.iter().zip(&mut best) {
            *best = site.check(package).min(*best);
        }
    }
    let mut table = Table::new(
        &format!("cargo check, {HANDLERS} handlers"),
        &["best s", "/ plain"],
    );
    for (name, time) in ["plain", "#[instrument]", "#[distributed_lock]"]
        .iter()
        .zip(best)
    {
        let ratio = time.as_secs_f64() / best[0].as_secs_f64();
        table.row(
            name,
            vec![format!("{:.2}", time.as_secs_f64()), format!("{ratio:.2}")],
        );
    }
    println!();
    table.print();
    let ratio = best[2].as_secs_f64() / best[1].as_secs_f64();
    bench.report.target(
        &format!("`cargo check` of {HANDLERS} annotated handlers"),
        format!("{ratio:.2} × #[instrument]"),
        "≤ 1.00 × #[instrument]",
        ratio <= 1.0,
    );
}

/// A temporary directory for packages.
struct Site {
    directory: PathBuf,
}

impl Site {
    fn new() -> Site {
        let name = format!("lock-bench-{}-check", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        Site { directory }
    }

    /// Creates a package. All have the same dependencies; only the annotation differs.
    fn package(&self, name: &str, annotation: &str) -> PathBuf {
        let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lock-runtime");
        let package = self.directory.join(name);
        fs::create_dir_all(package.join("src")).unwrap();
        let manifest = format!(
            "[workspace]\n[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             [dependencies]\nlock-runtime = {{ path = {runtime:?} }}\ntokio = {{ version = \"1\", \
             features = [\"rt\"] }}\ntracing = \"0.1\"\n"
        );
        fs::write(package.join("Cargo.toml"), manifest).unwrap();
        let handlers = (0..HANDLERS).map(|number| {
            format!(
                "{annotation}\npub async fn handler_{number}(id: u64, name: String) -> \
                 Result<String, lock_runtime::LockError> {{\n    let text = format!(\"{{name}}:{{id}}\");\n    \
                 tokio::task::yield_now().await;\n    Ok(text)\n}}\n"
            )
        });
        fs::write(package.join("src/lib.rs"), handlers.collect::<String>()).unwrap();
        package
    }

    fn check(&self, package: &Path) -> Duration {
        // Touch the file, as an edit does.
        let source = package.join("src/lib.rs");
        let text = fs::read_to_string(&source).unwrap();
        fs::write(&source, text).unwrap();
        let start = Instant::now();
        let status = Command::new("cargo")
            .args(["check", "--quiet"])
            .current_dir(package)
            .env("CARGO_TARGET_DIR", self.directory.join("target"))
            .env("CARGO_INCREMENTAL", "0")
            .status()
            .expect("`cargo` is installed");
        assert!(status.success(), "the handlers do not compile");
        start.elapsed()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
