//! The packages that are published, and their front pages on the registry, where no link leads to the
//! repository.

use std::fs;
use std::path::Path;

use crate::documents::{anchors, definitions, inline_targets};

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Each after those that it depends on.
const PACKAGES: [&str; 4] = ["lock-macros", "lock-runtime", "lock-admin", "lock-cli"];

/// Returns the file that is the package's front page.
fn front_page(package: &str) -> String {
    match package {
        "lock-runtime" => "README.md".to_owned(),
        other => format!("{other}/README.md"),
    }
}

#[test]
fn packages_say_all_that_a_registry_wants() {
    for (at, package) in PACKAGES.iter().enumerate() {
        let manifest = read(&format!("{package}/Cargo.toml"));
        for field in [
            "description = ",
            "include = ",
            "categories",
            "keywords",
            "license.workspace",
            "repository.workspace",
            "rust-version.workspace",
        ] {
            let has = manifest.lines().any(|line| line.starts_with(field));
            assert!(has, "`{package}` has no `{field}`");
        }
        for later in &PACKAGES[at..] {
            assert!(
                !manifest.contains(&format!("\n{later} = ")),
                "`{package}`: `{later}`"
            );
        }
    }
    let workspace = read("Cargo.toml");
    let (_, members) = workspace.split_once("members = [").unwrap();
    for member in members.split_once(']').unwrap().0.split(", ") {
        let member = member.trim_matches('"');
        let is_published = !read(&format!("{member}/Cargo.toml")).contains("publish = false");
        assert_eq!(is_published, PACKAGES.contains(&member), "`{member}`");
    }
}

#[test]
fn releases_check_and_publish_all_packages() {
    let workflow = read(".github/workflows/ci.yml");
    let (_, oldest) = workflow.split_once("  msrv:\n").unwrap();
    let (_, oldest) = oldest.split_once(" check ").unwrap();
    let (_, semver) = workflow.split_once("cargo semver-checks ").unwrap();
    // The others have no API but the attribute, or none.
    let checks = [
        (oldest, &PACKAGES[..]),
        (semver, &["lock-runtime", "lock-admin"]),
    ];
    for (check, packages) in checks {
        let check = check.lines().next().unwrap();
        for package in packages {
            let named = check.contains(&format!("--package {package} "));
            assert!(named || check.ends_with(package), "`{package}`: {check}");
        }
    }
    let order = PACKAGES.map(|package| format!("`{package}`")).join(", ");
    let steps = read("RELEASING.md")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(steps.contains(&order), "{order}");
}

/// Returns the targets of the links and pictures of a text.
fn targets(text: &str) -> Vec<String> {
    let attributes = ["src=\"", "srcset=\""].into_iter();
    let pictures = attributes.flat_map(|it| text.split(it).skip(1));
    let pictures = pictures.filter_map(|rest| rest.split('"').next());
    let pictures = pictures.chain(definitions(text).into_values());
    let links = text.lines().flat_map(inline_targets);
    links.chain(pictures.map(str::to_owned)).collect()
}

/// Returns the file of a page on docs.rs, of one of these packages.
fn source(page: &str) -> Option<String> {
    let page = page.strip_prefix("https://docs.rs/")?;
    if let Some(page) = page.strip_prefix("crate/") {
        let (package, file) = page.split_once("/latest")?;
        return Some(match file.strip_prefix("/source/") {
            Some(file) => format!("{package}/{file}"),
            None => front_page(package),
        });
    }
    let Some((package, page)) = page.split_once('/') else {
        return Some(format!("{page}/src/lib.rs"));
    };
    let (_, page) = page.strip_prefix("latest/")?.split_once('/')?;
    Some(match page.strip_suffix("/index.html") {
        Some("guide") => format!("{package}/src/guide.rs"),
        Some(guide) => format!("{package}/src/{guide}.md"),
        None if page == "attr.distributed_lock.html" => format!("{package}/src/api/attribute.md"),
        None => format!("{package}/src/lib.rs"),
    })
}

#[test]
fn front_pages_are_whole_on_the_registry() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut followed = 0;
    for package in PACKAGES {
        for target in targets(&read(&front_page(package))) {
            let (page, section) = target.split_once('#').unwrap_or((&target, ""));
            let file = source(page).unwrap_or_else(|| panic!("`{package}`: `{target}`"));
            assert!(
                root.join(&file).exists(),
                "`{package}`: `{target}`: no {file}"
            );
            if !section.is_empty() {
                let sections = anchors(&read(&file));
                assert!(sections.iter().any(|it| it == section), "`{target}`");
            }
            // Pictures come with the package.
            if let (Some(of), Some((_, rest))) =
                (file.split('/').next(), page.split_once("/source/"))
            {
                let manifest = read(&format!("{of}/Cargo.toml"));
                let folder = rest.split('/').next().unwrap();
                assert!(manifest.contains(&format!("\"/{folder}\"")), "`{target}`");
            }
            followed += 1;
        }
    }
    assert!(followed > 15, "{followed}");
}
