//! Takes a lock from its holder.

use crate::engine::error::EngineError;
use crate::engine::operations::Taken;
use crate::engine::store::StoreEngine;
use crate::engine::store::machine::{Command, Reply};
use crate::engine::store::run::Start;
use crate::engine::token::Token;
use tokio::time::Instant;

impl StoreEngine {
    pub(crate) async fn take(
        &self,
        name: &str,
        token: &str,
        at_least: u64,
        deadline: Instant,
    ) -> Result<Taken, EngineError> {
        let nothing = Taken {
            held: false,
            pinned: false,
            fencing_token: at_least,
        };
        // No other client writes to the record.
        let Some(token) = Token::parse(token) else {
            return Ok(nothing);
        };
        let (name, take) = (name.into(), Command::Take(token, at_least));
        Ok(
            match self.core.run(&name, take, Start::Known, deadline).await? {
                Reply::Number { held, number } => Taken {
                    held,
                    pinned: false,
                    fencing_token: number,
                },
                _ => nothing,
            },
        )
    }
}
