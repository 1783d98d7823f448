//! A client that receives all messages of a server, as monitoring does, and sends none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use redis::{Client, RedisResult};

use lock_test_support::server::Server;
use lock_test_support::time::millis;

/// Subscribes again when its connection has broken, until it is dropped.
pub struct Listener(Arc<AtomicBool>);

impl Listener {
    pub fn to(server: &Server) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let url = format!("redis+unix://{}", server.socket().display());
        let theirs = is_over.clone();
        thread::spawn(move || {
            while !theirs.load(Relaxed) {
                let _ = listen(&url, &theirs);
                thread::sleep(millis(10));
            }
        });
        Self(is_over)
    }
}

fn listen(url: &str, is_over: &AtomicBool) -> RedisResult<()> {
    let mut connection = Client::open(url)?.get_connection()?;
    connection.set_read_timeout(Some(millis(500)))?;
    let mut messages = connection.as_pubsub();
    messages.psubscribe("*")?;
    while !is_over.load(Relaxed) {
        match messages.get_message() {
            Err(error) if !error.is_timeout() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
