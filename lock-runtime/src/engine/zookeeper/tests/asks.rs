//! Asking all processes.

use super::{black_hole, heal};
use crate::engine::error::EngineErrorKind;
use crate::engine::tests::peer::{soon, until};
use crate::engine::tests::space::Space;
use lock_test_support::proxy::Proxy;
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;

/// What comes while the connection is broken is delivered when there is one again, and nothing twice.
pub(super) async fn listener_goes_on_in_its_next_session(space: Space) {
    let (network, mut one) = space.distant_peer_with_short_sessions().await;
    let other = space.peer().await;
    one.engine.listen();
    one.until_it_hears(&other).await;
    for n in 0..3 {
        network.each(Proxy::cut);
        other.ask(&format!("{n} while it is cut off")).await;
        heal(&network);
        one.hears(&format!("{n} while it is cut off")).await;
        other.ask(&format!("{n}")).await;
        one.hears(&format!("{n}")).await;
    }
    black_hole(&network);
    let ends = async || space.children("::sessions").len() == 1;
    until("its session ends", ends).await;
    heal(&network);
    one.engine.ping(soon()).await.ok();
    for text in ["late", "later"] {
        other.ask(text).await;
        one.hears(text).await;
    }
}

pub(super) async fn garbage_asks_nothing_and_breaks_nothing(space: Space) {
    let [mut one, other] = space.peers().await;
    one.engine.listen();
    one.until_it_hears(&other).await;
    let mut client = space.servers::<ZooKeeper>().client();
    let (asks, count) = (space.path("::asks"), 5_i32.to_be_bytes());
    for data in [
        &b"hello"[..],
        &[0xff; 999],
        &count,
        &[&count[..], &[0; 20]].concat(),
        &vec![0; 900_000],
    ] {
        client.set(&asks, data).unwrap();
        // The next one is heard next.
        other.ask("again").await;
        one.hears("again").await;
    }
    assert!(client.delete(&asks));
    other.ask("anew").await;
    one.hears("anew").await;
    let child = format!("{asks}/child");
    client.create(&child, Kind::Persistent).unwrap();
    other.ask("beside a child").await;
    one.hears("beside a child").await;
    let long = other.engine.ask(&"x".repeat(5000), soon()).await;
    assert_eq!(long.unwrap_err().kind, EngineErrorKind::Rejected);
}

/// Neither the watch nor the report keeps a session that is not needed.
pub(super) async fn sessions_end_with_the_engine(space: Space) {
    for is_drained in [true, false] {
        let [mut one, mut other] = space.peers().await;
        for peer in [&mut one, &mut other] {
            peer.engine.listen();
        }
        one.until_it_hears(&other).await;
        other.until_it_hears(&one).await;
        one.report("hello").await;
        if is_drained {
            one.engine.drain(soon()).await.unwrap();
            assert_eq!(space.children("::processes"), [""; 0]);
            assert_eq!(space.children("::sessions").len(), 1);
            // A listener would make a session to read this.
            for text in ["first", "second"] {
                other.ask(text).await;
                other.hears(text).await;
            }
            assert_eq!(space.children("::sessions").len(), 1);
        }
        drop((one, other));
        let all_end = async || space.children("::sessions").is_empty();
        until("the sessions end", all_end).await;
    }
}
