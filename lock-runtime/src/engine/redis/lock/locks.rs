//! What the operations on locks share: the names of keys, the scripts, and the connections they are sent over.

use crate::engine::error::EngineError;
use crate::engine::redis::conn::request::Request;
use crate::engine::redis::conn::subscription::Subscription;
use crate::engine::redis::keys::Keys;
use crate::engine::redis::scripts::{Script, Scripts};
use crate::engine::redis::topology::router::Router;
use crate::engine::redis::wire::error::is_server_error;
use crate::engine::request::Claim;
use redis::{Cmd, FromRedisValue, ServerErrorKind};
use tokio::time::Instant;

/// The locks of one deployment.
pub(crate) struct Locks {
    pub(crate) router: Router,
    pub(crate) scripts: Scripts,
    pub(crate) keys: Keys,
    pub(crate) subscription: Subscription,
}

/// The connection over which a command is sent.
#[derive(Clone, Copy)]
pub(crate) enum Via {
    IoThread,
    /// Like `IoThread`, but waits for a connection while there is none.
    Patient,
    /// The connection on which that number of replicas is awaited. The reply is a pair: the command's own, and
    /// the number of replicas that acknowledged it.
    ReplicaAck(u32),
}

impl Locks {
    /// Sends a command about a lock.
    pub(crate) async fn send<T: FromRedisValue>(
        &self,
        via: Via,
        lock: &str,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<T, EngineError> {
        let (replicas, await_replicas) = match via {
            Via::IoThread | Via::Patient => (0, false),
            Via::ReplicaAck(replicas) => (replicas, true),
        };
        let request = Request {
            replicas,
            await_replicas,
            patient: matches!(via, Via::Patient),
            ..Request::from(command)
        };
        self.router.send(lock, &request, deadline).await?.decode()
    }

    /// Calls a script on a lock's keys. `arguments` appends the keys, then the other arguments.
    pub(crate) async fn eval<T: FromRedisValue>(
        &self,
        via: Via,
        script: &Script,
        (lock, keys): (&str, usize),
        deadline: Instant,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<T, EngineError> {
        let mut command = script.evalsha(keys);
        arguments(&mut command);
        match self.send(via, lock, &command, deadline).await {
            Err(error) if is_server_error(&error, ServerErrorKind::NoScript) => {
                command = script.eval(keys);
                arguments(&mut command);
                self.send(via, lock, &command, deadline).await
            }
            reply => reply,
        }
    }

    pub(crate) fn queue_keys(&self, command: &mut Cmd, claim: &Claim) {
        command
            .arg(&*claim.name)
            .arg(self.keys.queue(&claim.name).to_string())
            .arg(self.keys.waiters(&claim.name).to_string());
    }

    pub(crate) fn tombstone(&self, claim: &Claim) -> String {
        let keys = &self.keys;
        keys.tombstone(&claim.name, claim.token.encode(&mut [0; 37]))
    }
}
