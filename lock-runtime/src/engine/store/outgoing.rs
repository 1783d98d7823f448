//! What this process is about to ask others.

use crate::util::sync::Mutex;
use std::sync::Arc;

/// Texts that this process is about to write, with their numbers.
#[derive(Default)]
pub(crate) struct Outgoing(Mutex<Numbered>);

#[derive(Default)]
struct Numbered {
    last: u64,
    texts: Vec<(u64, Arc<str>)>,
}

/// Takes the text back when it is dropped.
pub(crate) struct Own<'a> {
    pub(crate) number: u64,
    outgoing: &'a Outgoing,
}

impl Outgoing {
    pub(crate) fn add(&self, text: &str) -> Own<'_> {
        let mut all = self.0.lock();
        all.last += 1;
        let number = all.last;
        all.texts.push((number, text.into()));
        Own {
            number,
            outgoing: self,
        }
    }

    pub(crate) fn texts(&self) -> Vec<(u64, Arc<str>)> {
        self.0.lock().texts.clone()
    }

    pub(crate) fn remove(&self, written: &[(u64, Arc<str>)]) {
        let is_written = |it: &(u64, Arc<str>)| written.iter().any(|(number, _)| *number == it.0);
        self.0.lock().texts.retain(|it| !is_written(it));
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        let mut all = self.outgoing.0.lock();
        all.texts.retain(|(number, _)| *number != self.number);
    }
}
