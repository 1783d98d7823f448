//! Asks the lock server whether locks can be acquired now.

use crate::error::LockError;
use crate::lock::context::Context;
use crate::util::time::deadline_in;

pub(crate) async fn ping(context: &Context) -> Result<(), LockError> {
    if context.is_closed() {
        return Err(LockError::ShuttingDown { key: None });
    }
    let reply = context.engine.ping(deadline_in(context.command_timeout));
    reply
        .await
        .map_err(|error| context.server_unavailable(error))
}
