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
        // What is no token holds nothing, as one that is new.
        let token = Token::parse(token).unwrap_or_else(|| Token::draw(self.core.process));
        let (name, take) = (name.into(), Command::Take(token, at_least));
        let reply = self.core.run(&name, take, Start::Known, deadline).await?;
        let (held, fencing_token) = match reply {
            Reply::Number { held, number } => (held, number),
            _ => (false, at_least),
        };
        Ok(Taken {
            held,
            pinned: false,
            fencing_token,
        })
    }
}
