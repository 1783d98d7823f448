//! The replies to commands.

use crate::engine::mysql::wire::error::{Failure, ServerError};
use crate::engine::mysql::wire::packets::read;
use mysql_common::constants::{CapabilityFlags, ColumnType};
use mysql_common::io::ParseBuf;
use mysql_common::packets::{Column, CommonOkPacket, OkPacketDeserializer, StmtPacket};
use mysql_common::proto::{Binary, Text};
use mysql_common::row::{Row, RowDeserializer};
use mysql_common::value::ServerSide;
use std::sync::Arc;
use tokio::io::AsyncRead;

const OK: u8 = 0x00;
const END: u8 = 0xfe;
const ERROR: u8 = 0xff;
/// A packet that begins with `END`, and is longer, is a row.
const LONGEST_END: usize = 8;

/// How a command is replied to.
#[derive(Clone, Copy)]
pub(crate) enum Format {
    Text,
    /// Of a prepared statement.
    Binary,
    /// Of the preparation of one.
    Statement,
}

/// What one command has brought.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) rows: Vec<Row>,
    /// The number of rows that it changed.
    pub(crate) changed: u64,
    /// The statement that it prepared.
    pub(crate) statement: u32,
}

/// Reads the reply to one command, which may be an error.
pub(crate) async fn read_reply(
    from: &mut (impl AsyncRead + Unpin),
    flags: CapabilityFlags,
    format: Format,
) -> Result<Result<Reply, ServerError>, Failure> {
    let (_, first) = read(from).await?;
    let mut reply = Reply::default();
    match (first.first(), format) {
        (None, _) => return Err(Failure::Malformed("an empty packet")),
        (Some(&ERROR), _) => return Ok(Err(ServerError::parse(&first, flags)?)),
        (Some(&OK), Format::Statement) => {
            let statement: StmtPacket = ParseBuf(&first).parse(())?;
            reply.statement = statement.statement_id();
            // The definitions of parameters and columns, of which nothing is needed.
            for count in [statement.num_params(), statement.num_columns()] {
                let ends = u32::from(count > 0);
                for _ in 0..u32::from(count) + ends {
                    read(from).await?;
                }
            }
        }
        (Some(&OK), _) => {
            let ok = ParseBuf(&first).parse::<OkPacketDeserializer<'_, CommonOkPacket>>(flags)?;
            reply.changed = ok.into_inner().affected_rows();
        }
        // All statements have fewer columns than need a longer number.
        (Some(&count @ 1..=250), Format::Text | Format::Binary) => {
            let mut columns = Vec::new();
            for _ in 0..count {
                let (_, packet) = read(from).await?;
                let column = ParseBuf(&packet).parse::<Column>(())?;
                if matches!(format, Format::Binary) && !is_expected(column.column_type()) {
                    return Err(Failure::Malformed(
                        "a column of a type that no statement has",
                    ));
                }
                columns.push(column);
            }
            read(from).await?;
            let columns: Arc<[Column]> = columns.into();
            loop {
                let (_, packet) = read(from).await?;
                match packet.first() {
                    Some(&END) if packet.len() <= LONGEST_END => break,
                    Some(&ERROR) => return Ok(Err(ServerError::parse(&packet, flags)?)),
                    _ => reply.rows.push(row(&packet, &columns, format)?),
                }
            }
        }
        _ => return Err(Failure::Malformed("an unexpected packet")),
    }
    Ok(Ok(reply))
}

/// The library that reads rows panics at types that servers keep to themselves.
fn is_expected(column: ColumnType) -> bool {
    use ColumnType as Type;
    matches!(
        column,
        Type::MYSQL_TYPE_LONGLONG
            | Type::MYSQL_TYPE_VAR_STRING
            | Type::MYSQL_TYPE_STRING
            | Type::MYSQL_TYPE_TINY_BLOB
            | Type::MYSQL_TYPE_BLOB
            | Type::MYSQL_TYPE_MEDIUM_BLOB
            | Type::MYSQL_TYPE_LONG_BLOB
    )
}

fn row(packet: &[u8], columns: &Arc<[Column]>, format: Format) -> Result<Row, Failure> {
    let mut packet = ParseBuf(packet);
    Ok(match format {
        Format::Binary => packet
            .parse::<RowDeserializer<ServerSide, Binary>>(columns.clone())?
            .into_inner(),
        Format::Text | Format::Statement => packet
            .parse::<RowDeserializer<ServerSide, Text>>(columns.clone())?
            .into_inner(),
    })
}
