//! What the service has said about its page.

use crate::recorder::Recorder;
use crate::text::visible;
use http::request::Parts;
use lock_runtime::LockManager;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;
type AllowRevoke = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) manager: LockManager,
    pub(crate) redact: Option<Redact>,
    pub(crate) allow_revoke: Option<AllowRevoke>,
    pub(crate) recorder: Option<Recorder>,
    /// Makes the ids of rows, which say nothing of the keys.
    hasher: RandomState,
}

impl Options {
    pub(crate) fn new(manager: LockManager) -> Options {
        Options {
            manager,
            redact: None,
            allow_revoke: None,
            recorder: None,
            hasher: RandomState::new(),
        }
    }

    /// Returns a key as it is shown.
    pub(crate) fn shown(&self, key: &str) -> String {
        match &self.redact {
            Some(redact) => visible(&redact(key)),
            None => visible(key),
        }
    }

    /// Returns the id of the row of a lock.
    pub(crate) fn id_of(&self, key: &str) -> String {
        format!("l{:016x}", self.hasher.hash_one(key))
    }

    /// Returns what a link to a lock ends with: its key, or if keys are redacted the token of a claim on it.
    pub(crate) fn query_of(&self, key: &str, token: &str) -> String {
        let (name, value) = match self.redact {
            Some(_) => ("token", token),
            None => ("key", key),
        };
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair(name, value).finish()
    }

    /// Returns who may revoke locks with such a request; `None` if it may not.
    pub(crate) fn may_revoke(&self, parts: &Parts) -> Option<String> {
        let allow = self.allow_revoke.as_ref()?;
        allow(parts).filter(|name| !name.is_empty())
    }
}
