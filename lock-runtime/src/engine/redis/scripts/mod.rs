//! Lua scripts, called by their digest.

use redis::Cmd;

/// All scripts of the library.
pub(crate) struct Scripts {
    /// Acquires locks that are shared, or several locks.
    pub(crate) take: Script,
    pub(crate) wait: Script,
    pub(crate) cancel: Script,
    pub(crate) release: Script,
    pub(crate) renew: Script,
    pub(crate) fencing_token: Script,
    pub(crate) downgrade: Script,
    /// A release that uses no key but the lock's.
    pub(crate) delete_if_owner: Script,
    pub(crate) check_permissions: Script,
    pub(crate) view: Script,
    /// Takes a lock from its holder.
    pub(crate) revoke: Script,
    pub(crate) report: Script,
    pub(crate) reports: Script,
    // For the members of a quorum.
    pub(crate) vote: Script,
    pub(crate) observe: Script,
    pub(crate) leave_queue: Script,
    pub(crate) release_and_notify: Script,
    pub(crate) revoke_and_notify: Script,
    pub(crate) raise_fencing_token: Script,
}

impl Scripts {
    pub(crate) fn new(cluster: bool) -> Scripts {
        let script = |parts: &[&str]| Script::new(&parts.concat());
        let queued = |parts: &[&str]| {
            let first_line = format!("local cluster = {cluster}\n");
            Script::new(&(first_line + &parts.concat()))
        };
        let (grace, holders) = (
            include_str!("lib_grace.lua"),
            include_str!("lib_holders.lua"),
        );
        let (queue, enqueue) = (
            include_str!("lib_queue.lua"),
            include_str!("lib_enqueue.lua"),
        );
        let wake = include_str!("lib_wake.lua");
        let (grant_next, notify_front) = (
            include_str!("lib_grant_next.lua"),
            include_str!("lib_notify_front.lua"),
        );
        let cancel = include_str!("cancel.lua");
        let (release, release_tail) = (
            include_str!("release.lua"),
            include_str!("tail_release.lua"),
        );
        let (take, take_tail) = (include_str!("take.lua"), include_str!("tail_take.lua"));
        let (vote, vote_tail) = (include_str!("vote.lua"), include_str!("tail_vote.lua"));
        let (renew, renew_tail) = (include_str!("renew.lua"), include_str!("tail_renew.lua"));
        let holder_ttl = include_str!("lib_holder_ttl.lua");
        let blocked = include_str!("lib_blocked.lua");
        Scripts {
            take: script(&[grace, take, holders, take_tail]),
            wait: queued(&[
                grace,
                holders,
                queue,
                wake,
                grant_next,
                holder_ttl,
                enqueue,
                include_str!("wait.lua"),
            ]),
            cancel: queued(&[grace, holders, queue, grant_next, cancel]),
            release: queued(&[grace, release, holders, queue, grant_next, release_tail]),
            renew: script(&[grace, renew, holders, renew_tail]),
            fencing_token: script(&[grace, holders, include_str!("fencing_token.lua")]),
            downgrade: queued(&[
                grace,
                holders,
                queue,
                grant_next,
                include_str!("downgrade.lua"),
            ]),
            delete_if_owner: script(&[grace, holders, include_str!("delete_if_owner.lua")]),
            check_permissions: script(&[include_str!("check_permissions.lua")]),
            view: script(&[grace, holders, include_str!("view.lua")]),
            revoke: queued(&[
                grace,
                holders,
                queue,
                grant_next,
                include_str!("revoke.lua"),
            ]),
            report: script(&[include_str!("report.lua")]),
            reports: script(&[include_str!("reports.lua")]),
            vote: queued(&[grace, vote, holders, queue, blocked, holder_ttl, vote_tail]),
            observe: queued(&[
                grace,
                holders,
                queue,
                wake,
                blocked,
                holder_ttl,
                enqueue,
                include_str!("observe.lua"),
            ]),
            leave_queue: queued(&[grace, holders, queue, notify_front, cancel]),
            release_and_notify: queued(&[
                grace,
                release,
                holders,
                queue,
                notify_front,
                release_tail,
            ]),
            revoke_and_notify: queued(&[
                grace,
                holders,
                queue,
                notify_front,
                include_str!("revoke.lua"),
            ]),
            raise_fencing_token: script(&[grace, holders, include_str!("raise_fencing_token.lua")]),
        }
    }

    /// Returns the commands that load the frequent scripts before their first call.
    pub(crate) fn load(&self) -> Vec<Cmd> {
        let often = [
            &self.take,
            &self.wait,
            &self.cancel,
            &self.release,
            &self.renew,
            &self.fencing_token,
        ];
        often.map(Script::load).into()
    }
}

/// A script that a server can call by its digest once it has seen the source.
#[derive(Debug)]
pub(crate) struct Script {
    source: String,
    pub(crate) digest: String,
}

impl Script {
    fn new(source: &str) -> Script {
        let source = without_comments(source);
        Script {
            digest: redis::Script::new(&source).get_hash().to_owned(),
            source,
        }
    }

    /// Returns how a call begins: with the digest, or with the source for a server that does not know the
    /// digest. It does from then on.
    pub(crate) fn call(&self, with_source: bool) -> [&str; 2] {
        match with_source {
            false => ["EVALSHA", &self.digest],
            true => ["EVAL", &self.source],
        }
    }

    /// Returns the call as a command. The caller appends `keys` keys, then the other arguments.
    pub(crate) fn command(&self, with_source: bool, keys: usize) -> Cmd {
        let call = self.call(with_source);
        // Reserve room for the arguments: a command that grows argument by argument is copied each time.
        let mut command = Cmd::with_capacity(3 + 3 * keys, call[1].len() + 72 * keys);
        command.arg(&call[..]).arg(keys);
        command
    }

    /// Returns the command that makes the digest known to the server.
    pub(crate) fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(&self.source);
        command
    }
}

/// Returns what the server has to know of a script.
fn without_comments(source: &str) -> String {
    let lines = source.lines().map(str::trim_start);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("--"));
    code.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Redis ends the connection of a client that has not authenticated and sends a longer string, so that
    /// the client might never read why it was rejected.
    const MAX_UNAUTHENTICATED: usize = 16_384;

    #[test]
    fn scripts_are_short_enough_for_a_client_that_has_not_authenticated() {
        let Scripts {
            take,
            wait,
            cancel,
            release,
            renew,
            fencing_token,
            downgrade,
            delete_if_owner,
            check_permissions,
            view,
            revoke,
            report,
            reports,
            vote,
            observe,
            leave_queue,
            release_and_notify,
            revoke_and_notify,
            raise_fencing_token,
        } = Scripts::new(false);
        for script in [
            take,
            wait,
            cancel,
            release,
            renew,
            fencing_token,
            downgrade,
            delete_if_owner,
            check_permissions,
            view,
            revoke,
            report,
            reports,
            vote,
            observe,
            leave_queue,
            release_and_notify,
            revoke_and_notify,
            raise_fencing_token,
        ] {
            let length = script.source.len();
            assert!(length <= MAX_UNAUTHENTICATED, "{length}: {}", script.source);
        }
    }

    #[test]
    fn a_script_has_no_comments() {
        let source = "-- a\nlocal x = 1 -- b\n\n  -- c\n  return x";
        assert_eq!(without_comments(source), "local x = 1 -- b\nreturn x\n");
    }
}
