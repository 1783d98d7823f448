//! Asks whether the server accepts writes to the table of locks now.

use crate::engine::error::EngineError;
use crate::engine::postgres::conn::batch::sender::RequestSender;
use tokio::time::Instant;

/// Changes no row. A standby refuses it, and so does a server that has been set to accept only reads.
const WRITE: &str = "WITH none AS (DELETE FROM distributed_lock.held WHERE false RETURNING name) \
                     SELECT count(*) FROM none";

pub(crate) async fn ping(requests: &RequestSender, deadline: Instant) -> Result<(), EngineError> {
    let row = requests.row(WRITE, Vec::new(), None, deadline);
    row.await.map(drop)
}
