//! What a hold tells `tracing`. Without the feature, nothing, at no cost.
//!
//! Each hold has a span `distributed_lock`, in which its body runs: `template` (the key as written
//! in the source: few values), `key`, and in milliseconds `waited` and `held`.

#[cfg(feature = "tracing")]
pub(crate) use enabled::*;

#[cfg(not(feature = "tracing"))]
pub(crate) use disabled::*;

#[cfg(feature = "tracing")]
mod enabled {
    use crate::engine::EngineError;
    use crate::io::{instant, since};
    use crate::{Danger, LostCause, Warning};
    use std::time::Duration;
    use tokio::time::Instant;
    use tracing::{Span, field};

    pub(crate) struct Trace {
        span: Span,
        since: Instant,
    }

    impl Trace {
        pub(crate) fn start(template: &'static str, key: &str, asked: Instant) -> Trace {
            let span = tracing::info_span!(
                "distributed_lock",
                template = field::Empty,
                key,
                waited = milliseconds(since(asked)),
                held = field::Empty,
            );
            if !template.is_empty() {
                span.record("template", template);
            }
            Trace {
                span,
                since: instant(),
            }
        }

        pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
            self.span.in_scope(work)
        }

        pub(crate) fn ended(&self) {
            self.span.record("held", milliseconds(since(self.since)));
        }
    }

    pub(crate) fn lost(key: &str, cause: LostCause) {
        tracing::warn!(key, "lock lost: {cause}");
    }

    pub(crate) fn renewal_failed(key: &str, error: &EngineError, left: Duration) {
        tracing::warn!(key, %error, left = milliseconds(left), "lock not renewed, trying on");
    }

    pub(crate) fn release_found_nothing(key: &str) {
        tracing::warn!(key, "released a lock that was gone already");
    }

    pub(crate) fn release_failed(key: &str, error: &EngineError) {
        tracing::warn!(key, %error, "release not confirmed; the lock ends with its ttl");
    }

    /// Whether anybody would hear a warning.
    pub(crate) fn warnings_are_heard() -> bool {
        tracing::enabled!(tracing::Level::WARN)
    }

    pub(crate) fn unsafe_server(warning: &Warning) {
        match warning.danger() {
            Danger::Unknown => tracing::info!("{warning}"),
            _ => tracing::warn!("lock server: {warning}"),
        }
    }

    fn milliseconds(time: Duration) -> f64 {
        time.as_secs_f64() * 1000.0
    }
}

#[cfg(not(feature = "tracing"))]
mod disabled {
    use crate::engine::EngineError;
    use crate::{LostCause, Warning};
    use std::time::Duration;
    use tokio::time::Instant;

    pub(crate) struct Trace;

    impl Trace {
        pub(crate) fn start(_: &'static str, _: &str, _: Instant) -> Trace {
            Trace
        }

        pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }

        pub(crate) fn ended(&self) {}
    }

    pub(crate) fn lost(_: &str, _: LostCause) {}

    pub(crate) fn renewal_failed(_: &str, _: &EngineError, _: Duration) {}

    pub(crate) fn release_found_nothing(_: &str) {}

    pub(crate) fn release_failed(_: &str, _: &EngineError) {}

    pub(crate) fn warnings_are_heard() -> bool {
        false
    }

    pub(crate) fn unsafe_server(_: &Warning) {}
}
