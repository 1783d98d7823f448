//! What the two order services share: everything but the web framework.

pub mod error;
pub mod options;
pub mod store;

pub use error::{OrderError, Problem};
pub use options::Options;
pub use store::{NewOrder, Order, Orders};

/// Resolves on ctrl-c, or on the SIGTERM of whatever runs the service.
pub async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
