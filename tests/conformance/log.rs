//! The lines that the library logs about its servers.

use std::io::Write;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use lock_test_support::proxy::Proxy;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

/// The lines of all tests of the process.
static LINES: LazyLock<Mutex<Vec<String>>> = LazyLock::new(|| {
    let lines = fmt::layer().with_ansi(false).with_writer(|| Lines);
    let events = filter_fn(|of| of.is_event() && of.target().starts_with("lock_runtime"));
    registry().with(lines.with_filter(events)).init();
    Mutex::default()
});

struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        lines().push(String::from_utf8_lossy(line).into_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn lines() -> MutexGuard<'static, Vec<String>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is logged from now on. Servers of earlier cases may have had the same ports.
pub struct Log {
    earlier: usize,
}

impl Log {
    pub fn begin() -> Log {
        let earlier = lines().len();
        Log { earlier }
    }

    /// Returns how often a line was logged that has all of these words, about the server behind that proxy.
    pub fn count(&self, proxy: &Proxy, words: &[&str]) -> usize {
        let port = format!(":{}", proxy.port());
        let lines = lines();
        let is_meant = |line: &&String| words.iter().all(|word| line.contains(word));
        let about_it = lines[self.earlier..]
            .iter()
            .filter(|line| line.contains(&port));
        about_it.filter(is_meant).count()
    }
}
