//! Writes that wait to be sent together.

use crate::api::manager::LockManager;
use crate::engine::etcd::tests::scripted_server::ScriptedServer;
use crate::engine::tests::peer::until;
use crate::error::LockError;

/// Fails if there is no other connection in time, as on a busy machine.
async fn writes_pass_to_the_next_connection() -> Result<(), LockError> {
    let server = ScriptedServer::start().await;
    let locks = LockManager::connect(server.config()).await?;
    let held = locks.lock("held").acquire().await?;
    server.fall_silent();
    let [sent, waits] = ["sent", "waits"].map(|key| locks.lock(key).try_acquire());
    // The requests begin in this order. The last does not wait for its turn, and ends the connection. Those
    // that were sent are repeated, since the server may have carried them out.
    let (sent, waits, drawn) = tokio::join!(sent, waits, held.fencing_token());
    drawn?;
    for acquired in [sent, waits] {
        acquired?.expect("it is free").release().await?;
    }
    held.release().await?;
    locks.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_write_that_was_not_sent_is_sent_on_the_next_connection() {
    let pass = async || match writes_pass_to_the_next_connection().await {
        Ok(()) => true,
        Err(error) if error.is_unavailable() => false,
        Err(error) => panic!("{error}"),
    };
    until("the writes pass", pass).await;
}
