//! Tests the harness: it removes one rule from a copy of the library, and must detect the damage.
//!
//! The first fourteen rules are those that a model of the protocol showed to be necessary. Without the
//! others, leases, queues, subscriptions and connections have failed before. The patch beside this file shows
//! which rule it removes.

mod copy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use copy::Copy;

use crate::checker::check;
use crate::scene::Scene;

/// The time limit for detecting a removed rule.
const LIMIT: Duration = Duration::from_secs(120);

/// A rule that a patch removes.
struct Class {
    name: &'static str,
    patch: &'static str,
    scene: &'static str,
}

const CLASSES: [Class; 26] = [
    Class {
        name: "C1",
        patch: "c01-pushed-lease-counts-from-its-receipt",
        scene: "late_messages",
    },
    Class {
        name: "C2",
        patch: "c02-answers-count-from-their-receipt",
        scene: "late_replies",
    },
    Class {
        name: "C3",
        patch: "c03-late-answers-count",
        scene: "stopped_bodies",
    },
    Class {
        name: "C4",
        patch: "c04-fencing-token-grows-within-a-hold",
        scene: "all_is_well",
    },
    Class {
        name: "C5",
        patch: "c05-no-adoption",
        scene: "lost_messages",
    },
    Class {
        name: "C6",
        patch: "c06-waiters-do-not-poll",
        scene: "lost_messages",
    },
    Class {
        name: "C7",
        patch: "c07-cancel-only-leaves-the-queue",
        scene: "many_give_up",
    },
    Class {
        name: "C8",
        patch: "c08-cancel-is-sent-once-and-forgotten",
        scene: "late_requests",
    },
    Class {
        name: "C9",
        patch: "c09-one-token-for-all-attempts",
        scene: "late_releases",
    },
    Class {
        name: "C10",
        patch: "c10-grants-for-the-whole-ttl",
        scene: "killed_waiters",
    },
    Class {
        name: "C11",
        patch: "c11-asking-again-prolongs-the-lease",
        scene: "requests_of_the_stopped",
    },
    Class {
        name: "C12",
        patch: "c12-expired-locks-are-not-looked-for",
        scene: "killed_holders",
    },
    Class {
        name: "C13",
        patch: "c13-no-margin",
        scene: "slow_clock",
    },
    Class {
        name: "C14",
        patch: "c14-requests-are-never-void",
        scene: "requests_of_the_dead",
    },
    Class {
        name: "C15",
        patch: "c15-ttl-changes-while-renewals-are-out",
        scene: "several_ttls",
    },
    Class {
        name: "C16",
        patch: "c16-renewals-are-retried-by-the-ttl",
        scene: "connections_killed",
    },
    Class {
        name: "C17",
        patch: "c17-woken-waiters-count-as-alive-for-long",
        scene: "stopped_in_a_row",
    },
    Class {
        name: "C18",
        patch: "c18-refused-subscriptions-count-as-made",
        scene: "subscriptions_refused",
    },
    Class {
        name: "C19",
        patch: "c19-messages-are-trusted",
        scene: "nonsense",
    },
    Class {
        name: "C20",
        patch: "c20-drivers-get-no-help",
        scene: "blocked_after_a_drop",
    },
    Class {
        name: "C21",
        patch: "c21-refused-releases-are-given-up",
        scene: "releases_refused",
    },
    Class {
        name: "C22",
        patch: "c22-unanswered-acquisitions-are-released-for-a-ttl",
        scene: "frozen_past_the_ttl",
    },
    Class {
        name: "C23",
        patch: "c23-replies-to-callers-that-left-are-not-awaited",
        scene: "callers_leave",
    },
    Class {
        name: "C24",
        patch: "c24-acquisitions-that-are-left-are-not-released",
        scene: "callers_leave",
    },
    Class {
        name: "C25",
        patch: "c25-releases-overtake-acquisitions",
        scene: "callers_leave",
    },
    Class {
        name: "C26",
        patch: "c26-slots-are-used-again-before-the-reply",
        scene: "callers_leave",
    },
];

impl Class {
    fn path(&self) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeded");
        folder.join(self.patch).with_extension("patch")
    }
}

/// The result of the schedules of a class.
#[derive(Debug, PartialEq)]
enum Finding {
    /// The promise that was broken, and the time it took.
    Found(String, Duration),
    /// The number of schedules without a violation.
    Clean(usize),
}

/// Removes each named rule, or all, one by one. Fails if one was not detected, or if the unchanged library
/// had a violation.
pub fn run(names: &[&str]) -> ExitCode {
    let named = |class: &&Class| names.is_empty() || names.contains(&class.name);
    let copy = Copy::new().unwrap();
    let mut rows = Vec::new();
    for class in CLASSES.iter().filter(named) {
        let start = Instant::now();
        let without = copy.build_without(&class.path()).unwrap();
        let built = start.elapsed();
        let found = provoked(&without, class, LIMIT);
        let took = match &found {
            Finding::Found(_, after) => *after,
            Finding::Clean(_) => Duration::ZERO,
        };
        // The unchanged library, for the same time.
        let with = provoked(&std::env::current_exe().unwrap(), class, took);
        println!(
            "{} {}: built in {} s, {found:?}; with it {with:?}",
            class.name,
            class.patch,
            built.as_secs()
        );
        rows.push((class, found, with));
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

/// Plays the scene with `program`, this one or the changed one, and returns the outcome that it prints.
fn provoked(program: &Path, class: &Class, limit: Duration) -> Finding {
    let seconds = limit.as_secs_f64().to_string();
    let output = Command::new(program)
        .args(["provoke", class.scene, &seconds])
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
            Finding::Found(rule.to_owned(), after)
        }
        ["clean", schedules, _] => Finding::Clean(schedules.parse().unwrap()),
        _ => panic!("{printed}\n{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// Repeats a scene, at least once, until a violation is found or the time is over.
pub fn provoke(name: &str, seconds: &str) {
    let scene = Scene::named(name).expect("the scene is known");
    let limit = Duration::from_secs_f64(seconds.parse().unwrap());
    let start = Instant::now();
    for schedule in 1.. {
        let verdict = check(&scene.play(schedule).history);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_patch_applies_to_the_sources() {
        let sources = Path::new(copy::SOURCES);
        for class in &CLASSES {
            copy::apply(&class.path(), sources, &["--check"]).unwrap();
        }
    }
}
