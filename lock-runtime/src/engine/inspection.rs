//! What was found out about the servers behind an engine.

use super::EngineError;
use crate::warning::{Danger, Warning};
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Inspection {
    pub(crate) warnings: Vec<Warning>,
}

impl Inspection {
    pub(crate) fn unknown(&mut self, server: &Arc<str>, error: &EngineError) {
        let found = format!("it can't be asked ({error})");
        self.warnings
            .push(Warning::new(server, Danger::Unknown, found));
    }
}
