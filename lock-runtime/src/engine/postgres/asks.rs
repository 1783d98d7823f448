//! Asks all processes: a message on a channel to which each of them listens.

use crate::engine::error::EngineError;
use crate::engine::postgres::conn::batch::sender::RequestSender;
use crate::engine::postgres::sql::schema::Schema;
use crate::engine::postgres::wire::statements::NOTIFY;
use crate::engine::postgres::wire::values::parameter;
use tokio::time::Instant;
use tokio_postgres::types::Type;

pub(crate) async fn ask(
    requests: &RequestSender,
    schema: &Schema,
    text: &str,
    deadline: Instant,
) -> Result<(), EngineError> {
    let message = format!("{} {text}", schema.asks());
    let parameters = vec![parameter(vec![message], Type::TEXT_ARRAY)];
    let row = requests.row(NOTIFY, parameters, None, deadline);
    row.await.map(drop)
}
