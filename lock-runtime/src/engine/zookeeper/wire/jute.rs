//! Jute, the encoding of ZooKeeper's messages: big-endian numbers, and texts and lists behind their lengths.

/// A message under construction, behind the four bytes of its length.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer(vec![0; 4])
    }

    pub(crate) fn int(mut self, number: i32) -> Writer {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, number: i64) -> Writer {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(crate) fn bool(mut self, flag: bool) -> Writer {
        self.0.push(flag.into());
        self
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Writer {
        let mut next = self.int(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        next.0.extend(bytes);
        next
    }

    pub(crate) fn text(self, text: &str) -> Writer {
        self.bytes(text.as_bytes())
    }

    /// Returns what was written, without the length.
    pub(crate) fn body(mut self) -> Vec<u8> {
        self.0.split_off(4)
    }

    /// Returns the message as it is sent.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let length = i32::try_from(self.0.len() - 4).unwrap_or(i32::MAX);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}

/// The rest of a message. Every method returns `None` if the message is too short or malformed.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn int(&mut self) -> Option<i32> {
        self.take(4)?.try_into().ok().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Option<i64> {
        self.take(8)?.try_into().ok().map(i64::from_be_bytes)
    }

    pub(crate) fn bool(&mut self) -> Option<bool> {
        self.take(1).map(|byte| byte != [0])
    }

    /// A list without elements may have the length -1.
    fn length(&mut self) -> Option<usize> {
        match self.int()? {
            -1 => Some(0),
            length => usize::try_from(length).ok(),
        }
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(crate) fn texts(&mut self) -> Option<Vec<String>> {
        let count = self.length()?;
        // Not allocated at once: a malformed length may be huge.
        let texts = (0..count).map(|_| self.text().map(str::to_owned));
        texts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let message = Writer::new().int(-7).long(1 << 40).text("größe").bool(true);
        let message = message.finish();
        let mut reader = Reader(&message);
        assert_eq!(reader.int(), Some(4 + 8 + 4 + 7 + 1));
        assert_eq!(reader.int(), Some(-7));
        assert_eq!(reader.long(), Some(1 << 40));
        assert_eq!(reader.text(), Some("größe"));
        assert_eq!(reader.bool(), Some(true));
        assert_eq!(reader.int(), None);
    }

    #[test]
    fn a_malformed_message_is_refused() {
        let longer = Writer::new().int(9).finish();
        assert_eq!(Reader(&longer[4..]).bytes(), None);
        let negative = Writer::new().int(-2).finish();
        assert_eq!(Reader(&negative[4..]).bytes(), None);
        let many = Writer::new().int(i32::MAX).finish();
        assert_eq!(Reader(&many[4..]).texts(), None);
        let no_text = Writer::new().bytes(&[0xff]).finish();
        assert_eq!(Reader(&no_text[4..]).text(), None);
    }
}
