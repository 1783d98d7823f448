//! Lua scripts, sent by their digest.

use redis::Cmd;

/// A script that the server knows by its digest once it has seen it.
#[derive(Debug)]
pub(crate) struct Script {
    source: &'static str,
    digest: String,
}

impl Script {
    pub(crate) fn new(source: &'static str) -> Script {
        Script {
            source,
            digest: redis::Script::new(source).get_hash().to_owned(),
        }
    }

    /// The call by digest; the caller adds the keys, as many as it says, and the arguments.
    pub(crate) fn by_digest(&self, keys: usize) -> Cmd {
        call("EVALSHA", &self.digest, keys)
    }

    /// The call by source, for a server that doesn't know the digest. It does from then on.
    pub(crate) fn by_source(&self, keys: usize) -> Cmd {
        call("EVAL", self.source, keys)
    }

    /// Makes the script known ahead of its first call.
    pub(crate) fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(self.source);
        command
    }
}

fn call(command: &str, script: &str, keys: usize) -> Cmd {
    // Room for what follows: a command that grows argument by argument is copied as often.
    let mut call = Cmd::with_capacity(3 + 3 * keys, script.len() + 72 * keys);
    call.arg(command).arg(script).arg(keys);
    call
}
