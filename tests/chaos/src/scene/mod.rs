//! Situations that random schedules would seldom produce; each is played repeatedly with different seeds.

mod admission;
mod databases;
mod ends;
mod ensembles;
mod keeping;
mod leases;
mod lines;
mod listeners;
mod processes;
mod protocol;
mod revocations;
mod rows;
mod set_aside;
mod setting;
mod sharing;
mod shutdown;

use crate::deployment::Topology;
use crate::schedule::RunResult;
use setting::Setting;

pub struct Scene {
    pub name: &'static str,
    setting: fn() -> Setting,
}

macro_rules! scenes {
    ($($module:ident: $($name:ident)+;)+) => {
        pub const ALL: &[Scene] = &[$($(Scene {
            name: stringify!($name),
            setting: $module::$name,
        },)+)+];
    };
}

scenes! {
    protocol: all_is_well late_messages late_replies stopped_bodies lost_messages many_give_up
        late_requests late_releases killed_waiters killed_holders slow_clock requests_of_the_stopped
        requests_of_the_dead frozen_past_the_ttl callers_leave;
    leases: several_ttls short_outages connections_killed releases_refused
        commands_denied;
    set_aside: calls_set_aside several_keys_set_aside;
    rows: stopped_in_a_row cut_off_in_a_row killed_and_overheard killed_in_a_cluster;
    listeners: busy_when_subscribing subscriptions_refused channels_denied scripts_denied nonsense;
    sharing: readers_and_writers permits readers_killed several_ttls_of_readers downgrades transfers
        keys_acquired_slowly;
    admission: permits_passed_on readers_enter_together writers_give_up permits_killed silent_writers
        stopped_writers pollers;
    databases: crowded_row database_crashes late_releases_of_rows late_statements
        late_statements_of_a_pooler promoted_at_once stopped_writers_in_rows stopped_in_line;
    lines: mixed_line late_writes releases_cut_off revoked_leases resumed_leader;
    ensembles: frozen_leader late_claims claims_cut_off places_deleted;
    revocations: locks_asked_for locks_taken requests_of_the_taken;
    shutdown: shut_down_under_bodies;
    ends: ordinary_ends keepers_end;
    keeping: kept_locks_recalled recalls_lost keepers_fail;
    processes: blocked_after_a_drop runtimes_that_end thread_locals panicking_subscriber;
}

impl Scene {
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|scene| scene.name == name)
    }

    pub fn topology(&self) -> Topology {
        (self.setting)().topology
    }

    /// Plays the scene on that topology instead of its own.
    pub fn play(&self, on: Option<Topology>, seed: u64) -> RunResult {
        let setting = (self.setting)();
        let setting = Setting {
            topology: on.unwrap_or(setting.topology),
            ..setting
        };
        RunResult {
            scene: Some(self.name),
            ..setting.play(seed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded;
    use std::collections::HashSet;

    #[test]
    fn scenes_that_miss_no_rule_are_described() {
        let text = include_str!("../../../../RELIABILITY.md");
        let (_, text) = text.split_once("### Scenes").unwrap();
        let (table, _) = text.split_once("###").unwrap();
        for scene in ALL.iter().filter(|scene| !seeded::plays(scene.name)) {
            let name = scene.name.replace('_', " ");
            assert!(table.contains(&name), "`{name}` has no row");
        }
    }

    /// Of two scenes with the same name, one would never be played.
    #[test]
    fn names_of_scenes_are_unique() {
        let mut names = HashSet::new();
        for scene in ALL {
            assert!(
                names.insert(scene.name),
                "two scenes are named `{}`",
                scene.name
            );
        }
    }
}
