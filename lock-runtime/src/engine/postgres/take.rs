//! Takes a lock from a holder, in one call.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::operations::Taken;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::keys::stored;
use crate::engine::postgres::wire::statements::TAKE;
use crate::engine::postgres::wire::values::{get, parameter, unexpected};
use tokio::time::Instant;
use tokio_postgres::types::Type;

impl PostgresEngine {
    pub(crate) async fn take(
        &self,
        name: &str,
        token: &str,
        at_least: u64,
        deadline: Instant,
    ) -> Result<Taken, EngineError> {
        let Ok(at_least) = i64::try_from(at_least) else {
            let words = format!("`{at_least}` is greater than any fencing token of PostgreSQL");
            return Err(EngineError::new(EngineErrorKind::Rejected, words));
        };
        let parameters = vec![
            parameter(stored(name).into_owned(), Type::TEXT),
            parameter(token.to_owned(), Type::TEXT),
            parameter(at_least, Type::INT8),
        ];
        let row = self.requests.row(TAKE, parameters, None, deadline).await?;
        let number: i64 = get(&row, "number")?;
        Ok(Taken {
            held: get(&row, "held")?,
            pinned: get(&row, "pinned")?,
            fencing_token: u64::try_from(number).map_err(|_| unexpected(&format!("`{number}`")))?,
        })
    }
}
