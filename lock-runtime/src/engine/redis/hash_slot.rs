//! Slots of a Redis Cluster: to which a key belongs, and how to name a key that belongs to one.

use std::sync::LazyLock;

/// So many slots there are.
pub(crate) const SLOTS: u16 = 1 << 14;

/// The slot of a key: of what stands in its first pair of braces, if anything does; otherwise of all.
pub(crate) fn slot(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map_or("", |(tag, _)| tag);
    crc16(if tag.is_empty() { key } else { tag }) % SLOTS
}

/// What in braces puts a key into that slot: of the numbers in decimal digits, the least that does.
pub(crate) fn tag(slot: u16) -> u32 {
    static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
        let mut tags = vec![None; usize::from(SLOTS)];
        let mut missing = tags.len();
        let mut digits = String::new();
        for number in 0_u32.. {
            digits.clear();
            let _ = std::fmt::Write::write_fmt(&mut digits, format_args!("{number}"));
            let tag = &mut tags[usize::from(crc16(&digits) % SLOTS)];
            if tag.is_none() {
                *tag = Some(number);
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        tags.into_iter().flatten().collect()
    });
    TAGS[usize::from(slot % SLOTS)]
}

/// CRC-16/XMODEM: polynomial 0x1021, beginning with 0.
fn crc16(text: &str) -> u16 {
    const TABLE: [u16; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut rest = (byte as u16) << 8;
            let mut bit = 0;
            while bit < 8 {
                let carry = rest >> 15;
                rest = (rest << 1) ^ (carry * 0x1021);
                bit += 1;
            }
            table[byte] = rest;
            byte += 1;
        }
        table
    };
    text.bytes().fold(0, |rest, byte| {
        (rest << 8) ^ TABLE[usize::from((rest >> 8) as u8 ^ byte)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_standard() {
        assert_eq!(crc16("123456789"), 0x31c3);
        assert_eq!(crc16(""), 0);
    }

    /// As the server says by `CLUSTER KEYSLOT`.
    #[test]
    fn braces_name_what_counts() {
        let all = |key: &str| crc16(key) % SLOTS;
        for (key, counts) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("a}b{c}", "c"),
            ("a{b", "a{b"),
            ("", ""),
        ] {
            assert_eq!(slot(key), all(counts), "{key}");
        }
        assert_eq!(slot("foo"), 12182);
    }

    #[test]
    fn every_slot_has_a_tag_of_its_own() {
        let mut greatest = 0;
        for of in 0..SLOTS {
            assert_eq!(slot(&format!("x:{{{}}}y", tag(of))), of);
            greatest = greatest.max(tag(of));
        }
        assert!(greatest < 1_000_000, "{greatest}");
    }
}
