//! Writes that wait to be sent together.

use crate::api::manager::LockManager;
use crate::engine::etcd::tests::scripted_server::ScriptedServer;

#[tokio::test]
async fn a_write_that_was_not_sent_is_sent_on_the_next_connection() {
    let server = ScriptedServer::start().await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let held = locks.lock("held").acquire().await.unwrap();
    server.fall_silent();
    let [sent, waits] = ["sent", "waits"].map(|key| locks.lock(key).try_acquire());
    // The requests begin in this order. The last does not wait for its turn, and ends the connection. Those that were
    // sent are repeated, since the server may have carried them out.
    let (sent, waits, drawn) = tokio::join!(sent, waits, held.fencing_token());
    drawn.unwrap();
    for acquired in [sent, waits] {
        acquired
            .unwrap()
            .expect("it is free")
            .release()
            .await
            .unwrap();
    }
    held.release().await.unwrap();
    locks.shutdown().await;
}
