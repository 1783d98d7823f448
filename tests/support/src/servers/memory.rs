//! No servers: locks in the memory of one process.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::Servers;

/// A store that no other test uses.
pub struct Memory {
    url: String,
}

impl Memory {
    pub fn start() -> Self {
        static STORES: AtomicUsize = AtomicUsize::new(0);
        let url = format!("memory://tests-{}", STORES.fetch_add(1, Relaxed));
        Self { url }
    }
}

impl Servers for Memory {
    fn urls_at(&self, _: &[u16]) -> Vec<String> {
        Vec::new()
    }

    fn urls(&self) -> Vec<String> {
        vec![self.url.clone()]
    }
}
