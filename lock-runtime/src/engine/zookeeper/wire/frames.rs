//! The frames of a connection: the length before each message.

use crate::engine::zookeeper::wire::error::Failure;

/// A message of a server is not longer than this; its own default limit is a sixteenth.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// The messages in the bytes of a server.
#[derive(Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// The length of the messages in `bytes` that were returned.
    returned: usize,
}

impl Frames {
    /// Adds bytes that have come.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.returned));
        self.bytes.extend(bytes);
    }

    /// Returns the oldest message that has come completely, without its length.
    pub(crate) fn next_message(&mut self) -> Result<Option<&[u8]>, Failure> {
        let rest = &self.bytes[self.returned..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE {
            return Err(Failure::Malformed);
        }
        let message = rest.get(..length);
        if message.is_some() {
            self.returned += 4 + length;
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::zookeeper::wire::jute::Writer;

    #[test]
    fn messages_are_complete_wherever_the_bytes_are_cut() {
        let message = Writer::new().int(7).finish();
        let two = [&*message, &*message].concat();
        for cut in 0..two.len() {
            let (mut frames, mut found) = (Frames::default(), 0);
            for part in [&two[..cut], &two[cut..]] {
                frames.extend(part);
                while let Some(message) = frames.next_message().unwrap() {
                    assert_eq!(message, [0, 0, 0, 7]);
                    found += 1;
                }
            }
            assert_eq!(found, 2, "{cut}");
        }
    }

    #[test]
    fn negative_and_huge_lengths_are_refused() {
        for length in [-1, i32::MAX] {
            let mut frames = Frames::default();
            frames.extend(&length.to_be_bytes());
            assert!(frames.next_message().is_err(), "{length}");
        }
    }
}
