//! The statement that proves a lock within a transaction of the user.

use crate::engine::request::Claim;
use crate::error::LockError;
use crate::lock::context::Effort;
use crate::lock::hold::Hold;
use crate::transaction_proof::TransactionProof;
use crate::util::time;
use std::sync::Arc;

/// Returns the statement for all these locks.
pub(crate) async fn prove(holds: Vec<&Arc<Hold>>) -> Result<TransactionProof, LockError> {
    let Some(first) = holds.first() else {
        return Err(crate::options::no_keys());
    };
    let context = first.context();
    if let Some(reason) = context.engine.refuses_proof() {
        return Err(LockError::Unsupported {
            operation: "transaction_proof",
            reason,
        });
    }
    let claims: Vec<Claim> = holds.iter().map(|hold| hold.begin_proof()).collect();
    let remaining = holds.iter().map(|hold| hold.remaining()).min();
    let deadline = time::now() + remaining.unwrap_or_default();
    let request = |deadline| context.engine.prove(&claims, deadline);
    let reply = context.retry(Effort::InCall { deadline }, request).await;
    if let Some(loss) = holds.iter().find_map(|hold| hold.check_lost()) {
        return Err(loss);
    }
    match reply {
        Ok((Some(proof), _)) => Ok(proof),
        Ok((None, _)) => Err(first.not_owner()),
        Err(error) => Err(context.unavailable(&first.name, error)),
    }
}
