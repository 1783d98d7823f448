//! The tries to reach an ensemble, until one succeeds.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::util::time::elapsed_since;
use std::fmt::{Display, Write};
use tokio::time::Instant;

/// The failed tries of each server.
pub(crate) struct Tries {
    since: Instant,
    failed: Vec<Failed>,
}

#[derive(Clone, Default)]
struct Failed {
    count: u32,
    /// Names the server.
    last_cause: String,
}

impl Tries {
    /// Begins to try that number of servers.
    pub(crate) fn begin(servers: usize, since: Instant) -> Tries {
        Tries {
            since,
            failed: vec![Failed::default(); servers],
        }
    }

    pub(crate) fn add(&mut self, server: usize, cause: &dyn Display) {
        if let Some(failed) = self.failed.get_mut(server) {
            failed.count += 1;
            failed.last_cause = cause.to_string();
        }
    }

    /// Returns `true` if each server has failed.
    pub(crate) fn include_all(&self) -> bool {
        self.failed.iter().all(|failed| failed.count > 0)
    }

    /// Returns what failed, for how long, and the last cause of each server.
    pub(crate) fn into_error(self) -> EngineError {
        let took = elapsed_since(self.since);
        let mut words = format!("no server could be used within {took:.1?}");
        let mut separator = ':';
        for Failed { count, last_cause } in self.failed.iter().filter(|it| it.count > 0) {
            let times = if *count == 1 { "try" } else { "tries" };
            // A string takes all that is written.
            let _ = write!(words, "{separator} {last_cause} ({count} {times})");
            separator = ';';
        }
        EngineError::new(EngineErrorKind::NotConnected, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::time::now;

    #[test]
    fn each_server_is_named_with_its_last_cause() {
        let mut tries = Tries::begin(3, now());
        tries.add(0, &"`a:1`: refused");
        tries.add(1, &"`b:1`: refused");
        assert!(!tries.include_all());
        tries.add(0, &"`a:1`: too slow");
        let error = tries.into_error().to_string();
        let (_, causes) = error.split_once(": ").unwrap();
        assert_eq!(causes, "`a:1`: too slow (2 tries); `b:1`: refused (1 try)");
    }
}
