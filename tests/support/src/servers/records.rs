//! The records of stores, as `PROTOCOL.md` describes them.

use crate::rng::Rng;

/// The length of a record's beginning, and those of what follows in it.
const HEAD: usize = 42;
const TAKEN: usize = 18;
const HOLDER: usize = 35;

/// Returns by when the holders of a record have lost the lock.
pub fn leases(record: &[u8]) -> impl Iterator<Item = u64> {
    let count = |at: usize| u16::from_be_bytes([record[at], record[at + 1]]) as usize;
    let (taken, holders) = (count(HEAD - 4), count(HEAD - 2));
    let mut rest = &record[HEAD + taken * TAKEN..];
    (0..holders).map(move |_| {
        let (holder, others) = rest.split_at(HOLDER);
        // Its last byte says whether the number of a proof follows.
        rest = &others[usize::from(holder[HOLDER - 1] & 2 != 0) * 8..];
        u64::from_be_bytes(holder[26..34].try_into().unwrap())
    })
}

/// Returns a record that a client has written which does not use this library.
pub fn of_a_thief() -> Vec<u8> {
    // The first bytes differ in all records.
    let mut rng = Rng::random();
    let mut record: Vec<_> = (0..16).map(|_| rng.below(256) as u8).collect();
    record.extend([1, 0]);
    record.resize(HEAD - 1, 0);
    record.push(1);
    record.extend(*b"thief-thief-thie");
    record.extend(1_u16.to_be_bytes());
    record.extend(60_000_u32.to_be_bytes());
    record.resize(HEAD + HOLDER, 0);
    record
}
