//! Packets: each has a head of four bytes, which are its length and its number.

use crate::engine::mysql::wire::error::Failure;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A packet of that length continues in the next one.
const FULL: usize = 0xff_ffff;
/// Longer messages than this are not expected from any server.
const LONGEST: usize = 32 << 20;

/// Reads a message, and the number of its last packet.
pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<(u8, Vec<u8>), Failure> {
    let mut message = Vec::new();
    loop {
        let mut head = [0; 4];
        from.read_exact(&mut head).await?;
        let [a, b, c, number] = head;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        let start = message.len();
        if start + length > LONGEST {
            return Err(Failure::Malformed("a packet is too long"));
        }
        message.resize(start + length, 0);
        from.read_exact(&mut message[start..]).await?;
        if length < FULL {
            return Ok((number, message));
        }
    }
}

/// Adds a packet of fewer than 16 MiB.
pub(crate) fn write(number: u8, body: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(&(body.len() as u32).to_le_bytes()[..3]);
    to.push(number);
    to.extend_from_slice(body);
}
