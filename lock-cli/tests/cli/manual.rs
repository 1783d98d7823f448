//! `locks man` and `locks completions`.

use crate::program::{code, output, text};

#[test]
fn manual_describes_each_command_on_one_page() {
    let ended = output("", "man", &[]);
    assert_eq!(code(&ended), 0);
    let page = text(&ended.stdout);
    for command in ["show", "run", "check", "ping", "completions", "man"] {
        let heading = format!("\n.SH \"LOCKS {}\"\n", command.to_uppercase());
        assert_eq!(page.matches(&heading).count(), 1, "{command}:\n{page}");
    }
    for part in [
        "LOCK_URL",
        "LOCK_FENCING_TOKEN",
        "\\-\\-grace",
        "exits with 1 if",
    ] {
        assert!(page.contains(part), "no `{part}` in:\n{page}");
    }
    assert!(!page.contains("__exec"));
}

#[test]
fn variable_that_is_not_set_has_no_value_in_the_help() {
    let help = text(&output("", "list --help", &[]).stdout);
    assert!(help.contains("[env: LOCK_PREFIX]"), "{help}");
}

#[test]
fn shells_complete_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = output("", "completions", &[shell]);
        assert_eq!(code(&ended), 0);
        let script = text(&ended.stdout);
        for part in ["show", "grace", "prefix"] {
            assert!(script.contains(part), "{shell} does not complete {part}");
        }
    }
    assert_eq!(code(&output("", "completions", &["cmd"])), 2);
}
