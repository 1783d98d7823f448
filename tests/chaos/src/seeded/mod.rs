//! Tests the harness: it removes one rule from a copy of the library, and must detect the damage.
//!
//! The patches are beside these sources, and each names the rule that it removes.

mod classes;
mod copy;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use classes::{CLASSES, Class, Finder};
use copy::Copy;

use crate::checker::check;
use crate::deployment::Topology;
use crate::scene::Scene;

/// The time limit for detecting a removed rule.
const LIMIT: Duration = Duration::from_secs(120);

/// The result of the schedules of a class.
#[derive(Debug, PartialEq)]
enum Finding {
    /// The promise that was broken, and the time it took.
    Found(String, Duration),
    /// The number of schedules without a violation; none if a test passed.
    Clean(usize),
}

/// Returns the classes of these names, or all if there are none.
fn named(names: &[&str]) -> impl Iterator<Item = &'static Class> {
    let named = |class: &&Class| names.is_empty() || names.contains(&class.name);
    CLASSES.iter().filter(named)
}

/// Compiles the library without each of the named rules, or of all rules. Fails if one of these does not
/// compile.
pub fn compile(names: &[&str]) -> ExitCode {
    let copy = Copy::new().unwrap();
    let mut all = true;
    for class in named(names) {
        let checked = copy
            .prepare(Some(&class.path()))
            .and_then(|()| copy.check());
        match &checked {
            Ok(()) => println!("{} {}: it compiles", class.name, class.patch),
            Err(error) => println!("{} {}: {error}", class.name, class.patch),
        }
        all &= checked.is_ok();
    }
    ExitCode::from(u8::from(!all))
}

/// Removes each named rule, or all, one by one. Fails if one was not detected, or if the unchanged library
/// had a violation.
///
/// Scenes are played on each of these topologies instead of their own.
pub fn run(names: &[&str], on: &[Topology]) -> ExitCode {
    let copy = Copy::new().unwrap();
    let mut rows = Vec::new();
    let on: Vec<_> = match on {
        [] => vec![None],
        on => on.iter().copied().map(Some).collect(),
    };
    for class in named(names) {
        copy.prepare(Some(&class.path())).unwrap();
        let played = match class.finder {
            Finder::Scene(scene) => play(&copy, scene, &on),
            Finder::UnitTest(test) => vec![run_test(&copy, &["--lib"], test)],
            Finder::ServerTest(test) => vec![run_test(&copy, &["--test", "servers"], test)],
        };
        for [found, with] in played {
            println!(
                "{} {}: {found:?}; with it {with:?}",
                class.name, class.patch
            );
            rows.push((class, found, with));
        }
    }
    println!(
        "\n| class | left out | found by | after | with it |\n| --- | --- | --- | --- | --- |"
    );
    let mut all = true;
    for (class, found, with) in rows {
        let rule = class.patch.split_once('-').expect("the name has words").1;
        let (by, after) = match &found {
            Finding::Found(by, after) => (by.as_str(), format!("{:.1} s", after.as_secs_f64())),
            Finding::Clean(_) => ("nothing", String::new()),
        };
        let clean = match &with {
            Finding::Clean(0) => "clean".to_owned(),
            Finding::Clean(1) => "clean, 1 schedule".to_owned(),
            Finding::Clean(schedules) => format!("clean, {schedules} schedules"),
            Finding::Found(by, _) => format!("**{by}**"),
        };
        println!(
            "| {} | {} | {by} | {after} | {clean} |",
            class.name,
            rule.replace('-', " ")
        );
        all &= matches!((found, with), (Finding::Found(..), Finding::Clean(_)));
    }
    ExitCode::from(u8::from(!all))
}

/// Plays the scene without the rule, and with it for the same time, on each topology.
fn play(copy: &Copy, scene: &str, on: &[Option<Topology>]) -> Vec<[Finding; 2]> {
    let without = copy.build().unwrap();
    let on = on.iter().map(|on| {
        let found = provoked(&without, scene, *on, LIMIT);
        let took = match &found {
            Finding::Found(_, after) => *after,
            Finding::Clean(_) => Duration::ZERO,
        };
        let with = provoked(&std::env::current_exe().unwrap(), scene, *on, took);
        [found, with]
    });
    on.collect()
}

/// Runs the test without the rule, and with it.
fn run_test(copy: &Copy, target: &[&str], name: &str) -> [Finding; 2] {
    let run = || match copy.run_test(target, name).unwrap() {
        Some(after) => Finding::Found(format!("`{name}`"), after),
        None => Finding::Clean(0),
    };
    let found = run();
    copy.prepare(None).unwrap();
    [found, run()]
}

/// Plays the scene with `program`, this one or the changed one, and returns the outcome that it prints.
fn provoked(program: &Path, scene: &str, on: Option<Topology>, limit: Duration) -> Finding {
    let seconds = limit.as_secs_f64().to_string();
    let options = on.into_iter().flat_map(|it| ["--on", it.name()]);
    let output = Command::new(program)
        .args(["provoke", scene, &seconds])
        .args(options)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let words: Vec<_> = printed
        .lines()
        .last()
        .unwrap_or_default()
        .split(' ')
        .collect();
    match words[..] {
        ["found", rule, after] => {
            let after = Duration::from_secs_f64(after.parse().unwrap());
            let place = on.map(|it| format!(" on {}", it.name()));
            Finding::Found(rule.to_owned() + &place.unwrap_or_default(), after)
        }
        ["clean", schedules, _] => Finding::Clean(schedules.parse().unwrap()),
        _ => panic!("{printed}\n{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// Repeats a scene, at least once, until a violation is found or the time is over.
pub fn provoke(name: &str, on: Option<Topology>, seconds: &str) {
    let scene = Scene::named(name).expect("the scene is known");
    let limit = Duration::from_secs_f64(seconds.parse().unwrap());
    let start = Instant::now();
    for schedule in 1.. {
        let verdict = check(&scene.play(on, schedule).history);
        let after = start.elapsed();
        println!(
            "schedule {schedule}: {} holds, {} lost, {} samples, longest gap {} ms, {:.1} s",
            verdict.holds,
            verdict.lost,
            verdict.believed,
            verdict.longest_gap / 1_000_000,
            after.as_secs_f64()
        );
        for violation in &verdict.violations {
            println!("  {violation}");
        }
        if let Some(violation) = verdict.violations.first() {
            println!("found {:?} {}", violation.rule, after.as_secs_f64());
            return;
        }
        if after >= limit {
            println!("clean {schedule} {}", after.as_secs_f64());
            return;
        }
    }
}

/// Returns `true` if a rule is left out in the scene.
#[cfg(test)]
pub fn plays(scene: &str) -> bool {
    let mut classes = CLASSES.iter();
    classes.any(|class| matches!(class.finder, Finder::Scene(name) if name == scene))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_classes_are_recorded() {
        let text = include_str!("../../../../RELIABILITY.md");
        for class in CLASSES {
            let (_, rule) = class.patch.split_once('-').unwrap();
            let row = format!("| {} | {} | ", class.name, rule.replace('-', " "));
            assert!(text.contains(&row), "`{}` has no row", class.name);
        }
    }

    #[test]
    fn tests_that_find_a_class_are_there() {
        let mut sources = String::new();
        let folders = ["lock-runtime/src", "tests"];
        let mut folders = folders.map(|it| Path::new(copy::SOURCES).join(it)).to_vec();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|it| it == "rs") {
                    sources += &std::fs::read_to_string(path).unwrap();
                }
            }
        }
        for class in CLASSES {
            if let Finder::UnitTest(names) | Finder::ServerTest(names) = class.finder {
                for name in names.split(' ') {
                    let function = name.rsplit("::").next().unwrap();
                    let is_there = sources.contains(&format!("fn {function}("));
                    assert!(is_there, "{}: there is no test `{name}`", class.name);
                }
            }
        }
    }

    #[test]
    fn seeded_patch_applies_to_the_sources() {
        let sources = Path::new(copy::SOURCES);
        for class in CLASSES {
            copy::apply(&class.path(), sources, &["--check"]).unwrap();
        }
    }
}
