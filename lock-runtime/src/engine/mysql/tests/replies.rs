use crate::engine::mysql::wire::login::FLAGS;
use crate::engine::mysql::wire::packets::write;
use crate::engine::mysql::wire::reply::{Format, read_reply};
use lock_test_support::rng::Rng;

/// A reply as servers send it, in packets: two columns and a row.
fn reply() -> Vec<Vec<u8>> {
    let column = |name: &[u8], kind: u8| {
        let mut packet = b"\x03def\0\0\0".to_vec();
        for name in [name, name] {
            packet.push(name.len() as u8);
            packet.extend(name);
        }
        packet.extend([0x0c, 63, 0, 20, 0, 0, 0, kind, 0, 0, 0, 0, 0]);
        packet
    };
    let end = b"\xfe\0\0\x02\0".to_vec();
    let row = b"\0\0\x15\xcd\x5b\x07\0\0\0\0\x05stamp".to_vec();
    vec![
        vec![2],
        column(b"at", 8),
        column(b"record", 252),
        end.clone(),
        row,
        end,
    ]
}

fn stream(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (number, packet) in packets.iter().enumerate() {
        write(number as u8, packet, &mut stream);
    }
    stream
}

#[tokio::test]
async fn a_row_is_read() {
    let stream = stream(&reply());
    let read = read_reply(&mut &stream[..], FLAGS, Format::Binary).await;
    let rows = read.unwrap().unwrap().rows;
    let at = rows[0].as_ref(0).cloned();
    assert_eq!(at, Some(123_456_789_i64.into()));
}

/// `LOCK_FUZZ=100000` sets their number.
#[tokio::test]
async fn whatever_a_server_replies_is_read_or_an_error() {
    let count = std::env::var("LOCK_FUZZ").map_or(3000, |count| count.parse().unwrap());
    let mut rng = Rng::random();
    for _ in 0..count {
        let mut packets = reply();
        for _ in 0..=rng.below(3) {
            let packet = rng.below(packets.len() as u64) as usize;
            let length = packets[packet].len() as u64;
            match rng.below(5) {
                0 => packets[packet].truncate(rng.below(length + 1) as usize),
                1 => packets[packet].push(rng.below(256) as u8),
                2 => _ = packets.remove(packet),
                _ if length == 0 => {}
                _ => packets[packet][rng.below(length) as usize] = rng.below(256) as u8,
            }
            if packets.is_empty() {
                break;
            }
        }
        let stream = stream(&packets);
        for format in [Format::Binary, Format::Text, Format::Statement] {
            // It neither panics nor waits for ever.
            let _ = read_reply(&mut &stream[..], FLAGS, format).await;
        }
    }
}
