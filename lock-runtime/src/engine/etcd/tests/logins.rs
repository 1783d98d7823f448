//! Logins that the server forgets, as whenever one of its users changes.

use crate::api::manager::LockManager;
use crate::engine::etcd::tests::scripted_server::ScriptedServer;
use crate::engine::tests::peer::LONG;

/// A login, and the request after it, may come before the next change.
#[tokio::test]
async fn login_that_is_forgotten_again_and_again_refuses_no_call() {
    let server = ScriptedServer::start().await;
    let config = server.config().credentials("locks", "secret");
    let locks = LockManager::connect(config).await.unwrap();
    server.forget_tokens(3);
    let guard = locks.lock("row").wait(LONG).acquire().await;
    let guard = guard.unwrap();
    assert_eq!(server.old_tokens(), 0);
    guard.release().await.unwrap();
    locks.shutdown().await;
}
