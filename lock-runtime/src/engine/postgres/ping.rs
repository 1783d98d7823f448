//! Asks whether the server accepts writes to the table of locks now.

use crate::engine::error::EngineError;
use crate::engine::postgres::conn::batch::sender::RequestSender;
use crate::engine::postgres::wire::statements::PING;
use tokio::time::Instant;

pub(crate) async fn ping(requests: &RequestSender, deadline: Instant) -> Result<(), EngineError> {
    let row = requests.row(PING, Vec::new(), None, deadline);
    row.await.map(drop)
}
