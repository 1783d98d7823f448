//! A service that has mounted the page.

use axum::Extension;
use lock_admin::{Admin, Operator, Recorder};
use lock_runtime::{Config, LockManager};
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Ends when it is dropped.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Service {
    /// Starts one that takes everybody for `ann`.
    pub(crate) async fn start(admin: &Admin) -> Service {
        let app = axum::Router::new().nest_service("/tools/locks", admin.axum());
        let app = app.layer(Extension(Operator("ann".to_owned())));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let url = format!("http://{address}/tools/locks");
        Service { address, url, task }
    }
}

/// Returns a manager in memory and its page, which records its events, and on which `ann` may revoke locks.
pub(crate) async fn recorded() -> (LockManager, Admin) {
    let recorder = Recorder::new();
    let config = Config::new("memory://").on_event(recorder.handler());
    let locks = LockManager::connect(config).await.unwrap();
    let admin = Admin::new(locks.clone()).recorder(recorder);
    let admin = admin.allow_revoke(|_| Some("ann".to_owned()));
    (locks, admin)
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}
