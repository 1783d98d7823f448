//! The library compiles with every combination of its features, and an engine that is off brings no
//! dependency.

use std::process::Command;

/// Features that the code of an engine depends on.
const FEATURES: [&str; 6] = ["redis", "postgres", "etcd", "zookeeper", "tls", "tracing"];
/// Features that concern no engine.
const OTHERS: [&[&str]; 14] = [
    &["axum"],
    &["actix"],
    &["tonic"],
    &["axum", "actix"],
    &["redis", "axum", "actix"],
    &["testing"],
    &["redis", "testing", "tracing"],
    &["store"],
    &["store", "zookeeper"],
    &["mysql"],
    &["mysql", "tls", "tracing"],
    &["sqlite"],
    &["sqlite", "postgres", "tls"],
    &["sqlite", "redis", "tracing"],
];

fn cargo(arguments: &[&str], features: &str) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args([
            "--package",
            "lock-runtime",
            "--no-default-features",
            "--features",
            features,
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", "-D warnings")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "with `{features}`: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn engine_that_is_off_brings_no_dependency() {
    let tree = [
        "tree", "--edges", "normal", "--prefix", "none", "--format", "{p}",
    ];
    for (features, engine, expected) in [
        ("", "redis", false),
        ("tls", "redis", false),
        ("tls", "tokio-postgres", false),
        ("tls", "h2", false),
        ("postgres,tls", "redis", false),
        ("redis,tls", "tokio-postgres", false),
        ("zookeeper,tls", "redis", false),
        ("redis", "redis", true),
        ("postgres", "tokio-postgres", true),
        ("store,tls", "mysql_common", false),
        ("mysql", "redis", false),
        ("etcd", "h2", true),
        ("mysql", "mysql_common", true),
        ("store", "rusqlite", false),
        ("redis,store,tls", "libsqlite3-sys", false),
        ("sqlite", "libsqlite3-sys", true),
    ] {
        let packages = cargo(&tree, features);
        let found = packages
            .lines()
            .any(|line| line.split(' ').next() == Some(engine));
        assert_eq!(found, expected, "`{engine}` with `{features}`");
    }
}

/// It takes minutes: `tests/run.sh full` plays it.
#[test]
fn every_combination_of_features_compiles() {
    let target = target_folder();
    let check = ["check", "--quiet", "--target-dir", &target];
    for chosen in 0..1_u32 << FEATURES.len() {
        let features: Vec<_> = (0..FEATURES.len())
            .filter(|n| chosen >> n & 1 == 1)
            .map(|n| FEATURES[n])
            .collect();
        cargo(&check, &features.join(","));
    }
    for features in OTHERS {
        cargo(&check, &features.join(","));
    }
}

/// Returns a folder for the results, since other flags would compile everything in the usual one again.
fn target_folder() -> String {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("features");
    folder.to_str().unwrap().to_owned()
}
