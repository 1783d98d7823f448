//! Makes the proof with which a transaction of the same database fails unless locks are still held.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::request::Claim;
use crate::engine::store::StoreEngine;
use crate::engine::store::database::Database;
use crate::engine::store::errand::Start;
use crate::engine::store::machine::{Command, Reply};
use crate::transaction_proof::TransactionProof;
use crate::util::join_all::join_all;
use tokio::time::Instant;
use uuid::Uuid;

impl StoreEngine {
    /// Returns the proof, if all locks are held.
    pub(crate) async fn prove(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Option<TransactionProof>, EngineError> {
        let Some(database) = &self.core.database else {
            let words = "this store has no transactions";
            return Err(EngineError::new(EngineErrorKind::Rejected, words));
        };
        let numbers = claims.iter().map(async |claim| {
            let number = self.prove_one(&**database, claim, deadline).await?;
            Ok(number.map(|number| (claim.name.clone(), number)))
        });
        let numbers: Result<Option<Vec<_>>, EngineError> =
            join_all(numbers).await.into_iter().collect();
        let Some(proven) = numbers? else {
            return Ok(None);
        };
        let statement = database.statement(&proven);
        Ok(Some(TransactionProof::new(
            statement,
            Vec::new(),
            Vec::new(),
        )))
    }

    /// Returns the number of the holder's proof. A new one is made before the record has it: whoever sees it
    /// there can end it. One that has ended never comes back, since a transaction may still ask for it.
    async fn prove_one(
        &self,
        database: &dyn Database,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Option<u64>, EngineError> {
        let (core, name) = (&self.core, &claim.name);
        let record = core.known.get(name).record;
        let mut before = record.holder(claim.token).map_or(0, |it| it.proof);
        loop {
            let is_there =
                before != 0 && core.by(deadline, database.is_there(name, before)).await?;
            let number = match is_there {
                true => before,
                false => Uuid::new_v4().as_u64_pair().1 >> 1,
            };
            if !is_there {
                core.by(deadline, database.make(name, number)).await?;
            }
            let prove = Command::Prove(claim.token, number, before);
            let reply = core.run(name, prove, Start::Known, deadline).await;
            let shown = match reply {
                Ok(Reply::Number { number, .. }) => number,
                _ => 0,
            };
            if shown == number {
                return Ok(Some(number));
            }
            if !is_there {
                // No record has it, unless that is not known.
                core.by(deadline, database.end(name, number)).await?;
            }
            match reply? {
                Reply::Number { number, .. } => before = number,
                _ => return Ok(None),
            }
        }
    }
}
