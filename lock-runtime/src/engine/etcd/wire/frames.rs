//! The frames of gRPC: five bytes before each message.

use crate::engine::etcd::wire::error::Failure;
use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes, BytesMut};

/// The largest message that is accepted: more than a server sends.
const MAX_MESSAGE: usize = 64 << 20;

/// The messages in the bytes of a server.
#[derive(Default)]
pub(crate) struct Frames(BytesMut);

impl Frames {
    /// Adds bytes that have come.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns the oldest message that has come completely, without what is before it.
    pub(crate) fn next_message(&mut self) -> Result<Option<Bytes>, Failure> {
        let Some((head, _)) = self.0.split_first_chunk::<5>() else {
            return Ok(None);
        };
        let [compressed, a, b, c, d] = *head;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if compressed != 0 || length > MAX_MESSAGE {
            return Err(Failure::no_reply("the reply is no gRPC message"));
        }
        if self.0.len() < 5 + length {
            return Ok(None);
        }
        self.0.advance(5);
        Ok(Some(self.0.split_to(length).freeze()))
    }
}

/// Returns a message with its length before it.
pub(crate) fn encode(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut buffer = BytesMut::with_capacity(5 + length);
    buffer.put_u8(0);
    buffer.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // Fails only if the buffer is too small, and that grows.
    let _ = message.encode(&mut buffer);
    buffer.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::etcd::wire::messages::LeaseRequest;

    #[test]
    fn a_message_follows_its_length() {
        assert_eq!(&*encode(&LeaseRequest { id: 5 }), [0, 0, 0, 0, 2, 8, 5]);
    }

    #[test]
    fn messages_are_complete_wherever_the_bytes_are_cut() {
        let message = encode(&LeaseRequest { id: 5 });
        let two = [&*message, &*message].concat();
        for cut in 0..two.len() {
            let (mut frames, mut found) = (Frames::default(), 0);
            for part in [&two[..cut], &two[cut..]] {
                frames.extend(part);
                while let Some(message) = frames.next_message().unwrap() {
                    assert_eq!(&*message, [8, 5]);
                    found += 1;
                }
            }
            assert_eq!(found, 2, "{cut}");
        }
    }

    #[test]
    fn compressed_and_huge_messages_are_refused() {
        for head in [[1, 0, 0, 0, 0], [0, 255, 0, 0, 0]] {
            let mut frames = Frames::default();
            frames.extend(&head);
            assert!(frames.next_message().is_err(), "{head:?}");
        }
    }
}
