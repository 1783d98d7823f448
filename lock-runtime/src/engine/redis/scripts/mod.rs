//! Lua scripts, called by their digest.

use redis::Cmd;

/// All scripts of the library.
pub(crate) struct Scripts {
    pub(crate) wait: Script,
    pub(crate) cancel: Script,
    pub(crate) release: Script,
    pub(crate) renew: Script,
    pub(crate) fencing_token: Script,
    /// A release that uses no key but the lock's.
    pub(crate) delete_if_owner: Script,
    pub(crate) check_permissions: Script,
    // For the members of a quorum.
    pub(crate) vote: Script,
    pub(crate) observe: Script,
    pub(crate) leave_queue: Script,
    pub(crate) release_and_notify: Script,
    pub(crate) raise_fencing_token: Script,
}

impl Scripts {
    pub(crate) fn new(cluster: bool) -> Scripts {
        let queued = |parts: &[&str]| {
            let first_line = format!("local cluster = {cluster}\n");
            Script::new(first_line + &parts.concat())
        };
        let (queue, enqueue) = (
            include_str!("lib_queue.lua"),
            include_str!("lib_enqueue.lua"),
        );
        let wake = include_str!("lib_wake.lua");
        let (grant_next, notify_front) = (
            include_str!("lib_grant_next.lua"),
            include_str!("lib_notify_front.lua"),
        );
        let (cancel, release) = (include_str!("cancel.lua"), include_str!("release.lua"));
        let (cancel_tail, release_tail) = (
            include_str!("tail_cancel.lua"),
            include_str!("tail_release.lua"),
        );
        let holder_ttl = include_str!("lib_holder_ttl.lua");
        Scripts {
            wait: queued(&[queue, wake, holder_ttl, enqueue, include_str!("wait.lua")]),
            cancel: queued(&[cancel, queue, grant_next, cancel_tail]),
            release: queued(&[release, queue, grant_next, release_tail]),
            renew: Script::new(include_str!("renew.lua")),
            fencing_token: Script::new(include_str!("fencing_token.lua")),
            delete_if_owner: Script::new(include_str!("delete_if_owner.lua")),
            check_permissions: Script::new(include_str!("check_permissions.lua")),
            vote: Script::new([holder_ttl, include_str!("vote.lua")].concat()),
            observe: queued(&[
                queue,
                wake,
                holder_ttl,
                enqueue,
                include_str!("observe.lua"),
            ]),
            leave_queue: queued(&[cancel, queue, notify_front, cancel_tail]),
            release_and_notify: queued(&[release, queue, notify_front, release_tail]),
            raise_fencing_token: Script::new(include_str!("raise_fencing_token.lua")),
        }
    }

    /// Returns the commands that load the frequent scripts before their first call.
    pub(crate) fn load(&self) -> Vec<Cmd> {
        let often = [
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
    fn new(source: impl Into<String>) -> Script {
        let source = source.into();
        Script {
            digest: redis::Script::new(&source).get_hash().to_owned(),
            source,
        }
    }

    /// Returns the call by digest. The caller appends `keys` keys, then the arguments.
    pub(crate) fn evalsha(&self, keys: usize) -> Cmd {
        call("EVALSHA", &self.digest, keys)
    }

    /// Returns the call by source, for a server that does not know the digest. The server knows it from then
    /// on.
    pub(crate) fn eval(&self, keys: usize) -> Cmd {
        call("EVAL", &self.source, keys)
    }

    fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(&self.source);
        command
    }
}

fn call(command: &str, script: &str, keys: usize) -> Cmd {
    // Reserve room for the arguments: a command that grows argument by argument is copied each time.
    let mut call = Cmd::with_capacity(3 + 3 * keys, script.len() + 72 * keys);
    call.arg(command).arg(script).arg(keys);
    call
}
