//! A service that has mounted the page.

use axum::Extension;
use lock_admin::{Admin, Operator};
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
        let app = axum::Router::new().nest("/tools/locks", admin.axum());
        let app = app.layer(Extension(Operator("ann".to_owned())));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let url = format!("http://{address}/tools/locks");
        Service { address, url, task }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}
