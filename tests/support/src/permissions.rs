//! The permissions of Redis users, as the guides list them.

use std::process::Command;

use crate::server::Server;

const GUIDE: &str = include_str!("../../../lock-runtime/src/guide/deployment.md");
const RUNBOOK: &str = include_str!("../../../lock-runtime/src/guide/runbook.md");

/// Returns the documented commands for a shell, which make the user `locks` with the password `password`.
pub fn documented() -> &'static str {
    first_block(GUIDE, "# Permissions\n")
}

/// Returns the documented command for a shell, which makes the user `viewer` with the password `password`.
pub fn documented_viewer() -> &'static str {
    first_block(RUNBOOK, "\n# Rights\n")
}

fn first_block(guide: &'static str, title: &str) -> &'static str {
    let (_, section) = guide.split_once(title).unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    block.split_once("```").unwrap().0
}

/// Returns the documented permissions for commands that locks need, and those that the check of the settings
/// needs.
pub fn commands() -> [String; 2] {
    let mut users = documented().split("redis-cli ACL SETUSER locks").skip(1);
    [(); 2].map(|()| {
        let words = users.next().unwrap().split_whitespace();
        let rules = words.map(|word| word.trim_matches('\''));
        let rules: Vec<_> = rules.filter(|rule| rule.starts_with('+')).collect();
        rules.join(" ")
    })
}

/// Runs commands of a guide in a shell, for this server.
pub fn paste(commands: &str, server: &Server) {
    let to = format!("redis-cli -e -p {} ", server.port());
    let script = commands.replace("redis-cli ", &to);
    let shell = Command::new("sh").args(["-ec", &script]).output().unwrap();
    assert!(shell.status.success(), "{shell:?}");
}
