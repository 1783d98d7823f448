//! Takes a lock from its holder, or from a record that is none.

use crate::engine::error::EngineError;
use crate::engine::operations::Taken;
use crate::engine::store::StoreEngine;
use crate::engine::store::errand::Start;
use crate::engine::store::known::Known;
use crate::engine::store::machine::{Command, Judge, Reply};
use crate::engine::store::record::{Record, Unreadable};
use crate::engine::token::Token;
use crate::own_store::{Loaded, Swapped};
use std::fmt::Write;
use tokio::time::Instant;
use uuid::Uuid;

impl StoreEngine {
    pub(crate) async fn take(
        &self,
        name: &str,
        token: &str,
        at_least: u64,
        deadline: Instant,
    ) -> Result<Taken, EngineError> {
        let token = match Token::parse(token) {
            Some(token) => token,
            None => match self.take_record(name, token, at_least, deadline).await? {
                Some(taken) => return Ok(taken),
                // What is no token holds nothing, as one that is new.
                None => Token::draw(self.core.process),
            },
        };
        let (name, take) = (name.into(), Command::Take(token, at_least));
        let reply = self.core.run(&name, take, Start::Known, deadline).await?;
        let taken = match reply {
            Reply::Number { held, number } => taken(held, number),
            _ => taken(false, at_least),
        };
        Ok(Taken {
            pinned: self.core.is_pinned(&name, token),
            ..taken
        })
    }

    /// Replaces a record that another program has written by an idle one, with a new fencing token. Returns
    /// `None` if it is not that record which is meant.
    async fn take_record(
        &self,
        name: &str,
        token: &str,
        at_least: u64,
        deadline: Instant,
    ) -> Result<Option<Taken>, EngineError> {
        let core = &self.core;
        let loaded = core.look(name, deadline).await?;
        let is_meant = foreign_holder(&loaded).is_some_and(|it| it == token);
        let Some((_, version)) = loaded.found.filter(|_| is_meant) else {
            return Ok(None);
        };
        let mut idle = Record {
            fence: at_least,
            ..Record::default()
        };
        idle.stay(core.judge(&Known::default()).clock());
        let record = idle.encode(Uuid::new_v4().into_bytes());
        let replaced = core.replace(name, Some(&version), Some(&record), deadline);
        let held = matches!(replaced.await?, Swapped::Done(_));
        Ok(Some(taken(held, idle.fence)))
    }
}

fn taken(held: bool, fencing_token: u64) -> Taken {
    Taken {
        held,
        pinned: false,
        fencing_token,
    }
}

/// Returns what stands for the holder in a record that another program has written: no token of a claim.
pub(crate) fn foreign_holder(loaded: &Loaded) -> Option<String> {
    let (record, version) = loaded.found.as_ref()?;
    if Record::decode(record) != Err(Unreadable::Foreign) {
        return None;
    }
    let mut token = "foreign-".to_owned();
    for byte in version.as_bytes() {
        let _ = write!(token, "{byte:02x}");
    }
    Some(token)
}
