//! Hash slots of a Redis Cluster: the slot of a key, and a hash tag for each slot.

use std::sync::LazyLock;

/// The number of slots in a cluster.
pub(crate) const SLOT_COUNT: u16 = 1 << 14;

/// Returns the slot of a key. Only the hash tag counts: the text in the first pair of braces, unless that is
/// missing or empty.
pub(crate) fn slot_of(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map_or("", |(tag, _)| tag);
    crc16(if tag.is_empty() { key } else { tag }) % SLOT_COUNT
}

/// Returns the hash tag that puts a key into that slot: the least number whose decimal digits do.
pub(crate) fn hash_tag_for(slot: u16) -> u32 {
    static HASH_TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
        let mut tags = vec![None; usize::from(SLOT_COUNT)];
        let mut missing = tags.len();
        let mut digits = String::new();
        for number in 0_u32.. {
            digits.clear();
            let _ = std::fmt::Write::write_fmt(&mut digits, format_args!("{number}"));
            let tag = &mut tags[usize::from(crc16(&digits) % SLOT_COUNT)];
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
    HASH_TAGS[usize::from(slot % SLOT_COUNT)]
}

/// Computes CRC-16/XMODEM: polynomial 0x1021, initial value 0.
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
    fn crc16_matches_the_standard_check_value() {
        assert_eq!(crc16("123456789"), 0x31c3);
        assert_eq!(crc16(""), 0);
    }

    /// The server reports the same for `CLUSTER KEYSLOT`.
    #[test]
    fn only_the_hash_tag_counts() {
        let all = |key: &str| crc16(key) % SLOT_COUNT;
        for (key, counts) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("a}b{c}", "c"),
            ("a{b", "a{b"),
            ("", ""),
        ] {
            assert_eq!(slot_of(key), all(counts), "{key}");
        }
        assert_eq!(slot_of("foo"), 12182);
    }

    #[test]
    fn every_slot_has_its_own_hash_tag() {
        let mut greatest = 0;
        for of in 0..SLOT_COUNT {
            assert_eq!(slot_of(&format!("x:{{{}}}y", hash_tag_for(of))), of);
            greatest = greatest.max(hash_tag_for(of));
        }
        assert!(greatest < 1_000_000, "{greatest}");
    }
}
