//! The scripts of the version before shared locks, as its clients send them.

use redis::Script;

macro_rules! script {
    ($($part:literal)*) => {
        Script::new(concat!("local cluster = false\n", $(include_str!(concat!("scripts/", $part, ".lua"))),*))
    };
}

/// All of them know only strings as holders.
pub struct Scripts {
    pub wait: Script,
    pub cancel: Script,
    pub release: Script,
    pub renew: Script,
}

impl Scripts {
    pub fn load() -> Self {
        Self {
            wait: script!("lib_queue" "lib_wake" "lib_holder_ttl" "lib_enqueue" "wait"),
            cancel: script!("cancel" "lib_queue" "lib_grant_next" "tail_cancel"),
            release: script!("release" "lib_queue" "lib_grant_next" "tail_release"),
            renew: Script::new(include_str!("scripts/renew.lua")),
        }
    }
}
