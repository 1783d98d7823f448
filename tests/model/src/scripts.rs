//! The library's own scripts.

use crate::resp_client::Wire;

/// The digests of the scripts that a server has loaded.
pub(crate) struct Scripts {
    pub(crate) wait: String,
    pub(crate) cancel: String,
    pub(crate) release: String,
    pub(crate) renew: String,
    pub(crate) fence: String,
    /// Returns the visible state: the holder, the remaining lease, the queue, and the number of waiters with
    /// details.
    pub(crate) look: String,
    /// Simulates the passing of time by ageing everything that has a time.
    pub(crate) pass: String,
    /// Simulates that the process of some tokens no longer listens.
    pub(crate) die: String,
}

/// Concatenates parts of scripts, with an optional first line.
macro_rules! script {
    ($($first_line:literal,)? [$($file:literal),+]) => {
        concat!(
            $($first_line,)?
            $(include_str!(concat!("../../../lock-runtime/src/engine/redis/scripts/", $file))),+
        )
    };
}

pub const WAIT: &str = script!(
    "local cluster = false\n",
    [
        "lib_queue.lua",
        "lib_wake.lua",
        "lib_holder_ttl.lua",
        "lib_enqueue.lua",
        "wait.lua"
    ]
);
pub const CANCEL: &str = script!(
    "local cluster = false\n",
    [
        "cancel.lua",
        "lib_queue.lua",
        "lib_grant_next.lua",
        "tail_cancel.lua"
    ]
);
pub const RELEASE: &str = script!(
    "local cluster = false\n",
    [
        "release.lua",
        "lib_queue.lua",
        "lib_grant_next.lua",
        "tail_release.lua"
    ]
);
pub const RENEW: &str = script!(["renew.lua"]);
pub const FENCING_TOKEN: &str = script!(["fencing_token.lua"]);
const LOOK: &str = "
    return {
        redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]),
        redis.call('ZRANGE', KEYS[2], 0, -1), redis.call('HLEN', KEYS[3]),
    }";
const PASS: &str = "
    for _, key in ipairs(KEYS) do
        local left = redis.call('PTTL', key)
        if left >= 0 and left <= tonumber(ARGV[1]) then
            redis.call('DEL', key)
        elseif left >= 0 then
            redis.call('PEXPIRE', key, left - ARGV[1])
        end
    end
    local waiters = redis.call('HGETALL', KEYS[3])
    for n = 1, #waiters, 2 do
        local alive, rest = string.match(waiters[n + 1], '^(%d+)(.*)$')
        alive = string.format('%.0f', alive - ARGV[1] * 1000)
        redis.call('HSET', KEYS[3], waiters[n], alive .. rest)
    end
    return 1";
const DIE: &str = "
    for _, token in ipairs(ARGV) do
        local known = redis.call('HGET', KEYS[1], token)
        if known then
            redis.call('HSET', KEYS[1], token, string.match(known, '^%d+ %d+ ') .. 'nowhere')
        end
    end
    return 1";

impl Scripts {
    pub(crate) fn load(wire: &mut Wire) -> Self {
        let mut load = |script| wire.ask(&["SCRIPT", "LOAD", script]).text();
        Scripts {
            wait: load(WAIT),
            cancel: load(CANCEL),
            release: load(RELEASE),
            renew: load(RENEW),
            fence: load(FENCING_TOKEN),
            look: load(LOOK),
            pass: load(PASS),
            die: load(DIE),
        }
    }
}
