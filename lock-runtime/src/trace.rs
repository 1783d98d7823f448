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
    use crate::LostCause;
    use crate::engine::EngineError;
    use once_cell::sync::OnceCell;
    use std::time::{Duration, Instant};
    use tracing::{Span, field};

    pub(crate) struct Trace {
        template: &'static str,
        running: OnceCell<(Span, Instant)>,
    }

    impl Trace {
        pub(crate) fn new(template: &'static str) -> Trace {
            Trace {
                template,
                running: OnceCell::new(),
            }
        }

        pub(crate) fn started(&self, key: &str, waited: Duration) {
            self.running.get_or_init(|| {
                let span = tracing::info_span!(
                    "distributed_lock",
                    template = field::Empty,
                    key,
                    waited = milliseconds(waited),
                    held = field::Empty,
                );
                if !self.template.is_empty() {
                    span.record("template", self.template);
                }
                (span, Instant::now())
            });
        }

        pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
            match self.running.get() {
                Some((span, _)) => span.in_scope(work),
                None => work(),
            }
        }

        pub(crate) fn lost(&self, key: &str, cause: LostCause) {
            self.within(|| tracing::warn!(key, "lock lost: {cause}"));
        }

        pub(crate) fn renewal_failed(&self, key: &str, error: &EngineError, left: Duration) {
            self.within(|| {
                tracing::warn!(key, %error, left = milliseconds(left), "lock not renewed, trying on");
            });
        }

        pub(crate) fn ended(&self) {
            if let Some((span, since)) = self.running.get() {
                span.record("held", milliseconds(since.elapsed()));
            }
        }
    }

    pub(crate) fn release_found_nothing(key: &str) {
        tracing::warn!(key, "released a lock that was gone already");
    }

    pub(crate) fn release_failed(key: &str, error: &EngineError) {
        tracing::warn!(key, %error, "release not confirmed; the lock ends with its ttl");
    }

    fn milliseconds(time: Duration) -> f64 {
        time.as_secs_f64() * 1000.0
    }
}

#[cfg(not(feature = "tracing"))]
mod disabled {
    use crate::LostCause;
    use crate::engine::EngineError;
    use std::time::Duration;

    pub(crate) struct Trace;

    impl Trace {
        pub(crate) fn new(_: &'static str) -> Trace {
            Trace
        }

        pub(crate) fn started(&self, _: &str, _: Duration) {}

        pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }

        pub(crate) fn lost(&self, _: &str, _: LostCause) {}

        pub(crate) fn renewal_failed(&self, _: &str, _: &EngineError, _: Duration) {}

        pub(crate) fn ended(&self) {}
    }

    pub(crate) fn release_found_nothing(_: &str) {}

    pub(crate) fn release_failed(_: &str, _: &EngineError) {}
}
