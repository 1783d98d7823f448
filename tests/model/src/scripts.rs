//! The library's own scripts.

use crate::resp_client::Wire;

/// The digests of the scripts that a server has loaded.
pub(crate) struct Scripts {
    pub(crate) take: String,
    pub(crate) wait: String,
    pub(crate) cancel: String,
    pub(crate) release: String,
    pub(crate) renew: String,
    pub(crate) fence: String,
    pub(crate) downgrade: String,
    /// Returns the visible state: the holders, their leases, the rest of the key's time, the queue, and the
    /// number of waiters with details.
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

pub const TAKE: &str = script!([
    "lib_grace.lua",
    "take.lua",
    "lib_holders.lua",
    "tail_take.lua"
]);
pub const WAIT: &str = script!(
    "local cluster = false\n",
    [
        "lib_grace.lua",
        "lib_holders.lua",
        "lib_queue.lua",
        "lib_wake.lua",
        "lib_grant_next.lua",
        "lib_holder_ttl.lua",
        "lib_enqueue.lua",
        "wait.lua"
    ]
);
pub const CANCEL: &str = script!(
    "local cluster = false\n",
    [
        "lib_grace.lua",
        "lib_holders.lua",
        "lib_queue.lua",
        "lib_grant_next.lua",
        "cancel.lua"
    ]
);
pub const RELEASE: &str = script!(
    "local cluster = false\n",
    [
        "lib_grace.lua",
        "release.lua",
        "lib_holders.lua",
        "lib_queue.lua",
        "lib_grant_next.lua",
        "tail_release.lua"
    ]
);
pub const DOWNGRADE: &str = script!(
    "local cluster = false\n",
    [
        "lib_grace.lua",
        "lib_holders.lua",
        "lib_queue.lua",
        "lib_grant_next.lua",
        "downgrade.lua"
    ]
);
pub const REVOKE: &str = script!(
    "local cluster = false\n",
    [
        "lib_grace.lua",
        "lib_holders.lua",
        "lib_queue.lua",
        "lib_grant_next.lua",
        "revoke.lua"
    ]
);
pub const RENEW: &str = script!([
    "lib_grace.lua",
    "renew.lua",
    "lib_holders.lua",
    "tail_renew.lua"
]);
pub const FENCING_TOKEN: &str = script!(["lib_grace.lua", "lib_holders.lua", "fencing_token.lua"]);
/// Of a quorum's members, as are those below.
pub const VOTE: &str = script!(
    "local cluster = false\n",
    [
        "lib_grace.lua",
        "lib_holders.lua",
        "lib_queue.lua",
        "lib_blocked.lua",
        "lib_holder_ttl.lua",
        "vote.lua"
    ]
);
pub const OBSERVE: &str = script!(
    "local cluster = false\n",
    [
        "lib_grace.lua",
        "lib_holders.lua",
        "lib_queue.lua",
        "lib_wake.lua",
        "lib_blocked.lua",
        "lib_holder_ttl.lua",
        "lib_enqueue.lua",
        "observe.lua"
    ]
);
pub const LEAVE_QUEUE: &str = script!(
    "local cluster = false\n",
    [
        "lib_grace.lua",
        "lib_holders.lua",
        "lib_queue.lua",
        "lib_notify_front.lua",
        "cancel.lua"
    ]
);
pub const RELEASE_AND_NOTIFY: &str = script!(
    "local cluster = false\n",
    [
        "lib_grace.lua",
        "release.lua",
        "lib_holders.lua",
        "lib_queue.lua",
        "lib_notify_front.lua",
        "tail_release.lua"
    ]
);
pub const REVOKE_AND_NOTIFY: &str = script!(
    "local cluster = false\n",
    [
        "lib_grace.lua",
        "lib_holders.lua",
        "lib_queue.lua",
        "lib_notify_front.lua",
        "revoke.lua"
    ]
);
pub const WITHDRAW: &str = script!(["lib_grace.lua", "lib_holders.lua", "delete_if_owner.lua"]);
pub const RAISE_FENCING_TOKEN: &str = script!([
    "lib_grace.lua",
    "lib_holders.lua",
    "raise_fencing_token.lua"
]);
/// Omits holders whose leases have ended, and the time by which a key outlasts the last one.
const LOOK: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local holders, ends, grace = {}, {}, 500
    if redis.call('TYPE', KEYS[1]).ok == 'zset' then
        local members = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
        for n = 1, #members, 2 do
            local left = members[n + 1] % 2 ^ 42 - now
            if left > 0 then
                holders[#holders + 1] = members[n]
                ends[#ends + 1] = left
            end
        end
    elseif redis.call('EXISTS', KEYS[1]) == 1 then
        local holder, marks = string.gsub(redis.call('GET', KEYS[1]), '%+$', '')
        grace = (marks == 1 or holder == '::reserved') and grace or 0
        if redis.call('PTTL', KEYS[1]) > grace then
            holders, ends = {holder}, {redis.call('PTTL', KEYS[1]) - grace}
        end
    end
    return {
        holders, ends, redis.call('PTTL', KEYS[1]) - grace,
        redis.call('ZRANGE', KEYS[2], 0, -1), redis.call('HLEN', KEYS[3]),
    }";
const PASS: &str = "
    local kind = redis.call('TYPE', KEYS[1]).ok
    if kind == 'zset' then
        local members = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
        for n = 1, #members, 2 do
            redis.call('ZINCRBY', KEYS[1], -tonumber(ARGV[1]), members[n])
        end
    end
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
            take: load(TAKE),
            wait: load(WAIT),
            cancel: load(CANCEL),
            release: load(RELEASE),
            renew: load(RENEW),
            fence: load(FENCING_TOKEN),
            downgrade: load(DOWNGRADE),
            look: load(LOOK),
            pass: load(PASS),
            die: load(DIE),
        }
    }
}
