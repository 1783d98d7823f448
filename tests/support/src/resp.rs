//! Splits a server's output into replies and messages.

#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete frame.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        let length = length(&self.bytes)?;
        Some(self.bytes.drain(..length).collect())
    }

    /// Returns the complete frames, without the messages for which `passes` returns `false`.
    pub fn pass(&mut self, bytes: &[u8], mut passes: impl FnMut() -> bool) -> Vec<u8> {
        self.add(bytes);
        let mut passed = Vec::new();
        while let Some(frame) = self.next_frame() {
            if !is_message(&frame) || passes() {
                passed.extend(frame);
            }
        }
        passed
    }
}

/// Returns `true` for a RESP3 push that carries a published message.
fn is_message(frame: &[u8]) -> bool {
    frame.starts_with(b">3\r\n$7\r\nmessage\r\n")
}

/// Returns the length of the first frame, if it is complete.
fn length(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|two| two == b"\r\n")? + 2;
    let number = || str::from_utf8(&bytes[1..line - 2]).unwrap().parse::<i64>();
    let parts = match bytes[0] {
        b'$' | b'=' | b'!' => {
            let whole = line + usize::try_from(number().unwrap()).map_or(0, |text| text + 2);
            return (whole <= bytes.len()).then_some(whole);
        }
        b'*' | b'>' | b'~' => number().unwrap(),
        b'%' => 2 * number().unwrap(),
        _ => 0,
    };
    let mut whole = line;
    for _ in 0..parts {
        whole += length(&bytes[whole..])?;
    }
    Some(whole)
}
