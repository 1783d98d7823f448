//! Asking all processes.

use crate::engine::tests::space::Space;
use crate::util::join_all::join_all;
use lock_test_support::proxy::Proxy;
use std::collections::HashSet;
use std::sync::Arc;

/// What all are asked is no message to a claim, whatever it looks like.
pub(crate) async fn ask_reaches_all_that_listen(space: Space) {
    let [mut one, mut other, asks] = space.peers().await;
    one.engine.listen();
    one.engine.listen();
    let (held, waits) = (other.hold("row").await, other.wait("row").await);
    if !space.waiters_hear {
        other.engine.listen();
    }
    one.until_it_hears(&asks).await;
    other.until_it_hears(&asks).await;
    for text in [
        "report",
        "revoke\te823e7be01c58c509a20e4619a300481\t*\tann\tstuck ü {b} \n",
        "",
        "echo",
        "grant x",
        "grant 0123456789abcdef0123456789abcdef 1700000000000001 2000 lock:a",
    ] {
        asks.ask(text).await;
        one.hears(text).await;
        other.hears(text).await;
    }
    // A process hears its own, too.
    one.ask("again").await;
    one.hears("again").await;
    // It may have entered the queue before it listened.
    other.enter(&waits).await;
    assert!(other.release(&held).await);
    let granted = other.until_granted(&waits).await;
    assert!(other.release(&granted).await);
}

pub(crate) async fn asks_that_come_fast_come_once(space: Space) {
    let [mut one, mut other, asks] = space.peers().await;
    asks.ask("before").await;
    for peer in [&mut one, &mut other] {
        peer.engine.listen();
        peer.until_it_hears(&asks).await;
    }
    let texts: HashSet<Arc<str>> = (0..60).map(|n| format!("{n}\n ö").into()).collect();
    join_all(texts.iter().map(|text| asks.ask(text))).await;
    for text in ["twice", "twice", "last"] {
        asks.ask(text).await;
    }
    for peer in [&mut one, &mut other] {
        let mut left = texts.clone();
        while !left.is_empty() {
            let asked = peer.asked().await;
            let is_new = left.remove(&asked);
            assert!(is_new || space.is_quorum, "{asked:?} comes once more");
        }
        for text in ["twice", "twice", "last"] {
            peer.hears(text).await;
        }
    }
}

pub(crate) async fn listener_goes_on_after_its_connection(space: Space) {
    let Some((network, mut peer)) = space.distant_peer().await else {
        return;
    };
    let asks = space.peer().await;
    peer.engine.listen();
    for _ in 0..2 {
        peer.until_it_hears(&asks).await;
        asks.ask("report").await;
        peer.hears("report").await;
        network.each(Proxy::cut);
        network.each(Proxy::heal);
    }
    peer.until_it_hears(&asks).await;
}

pub(crate) async fn asks_stay_in_their_part(space: Space) {
    let beside = space.beside();
    let (mut here, mut there) = (space.peer().await, beside.peer().await);
    let (asks_here, asks_there) = (space.peer().await, beside.peer().await);
    here.engine.listen();
    there.engine.listen();
    here.until_it_hears(&asks_here).await;
    there.until_it_hears(&asks_there).await;
    for text in ["first", "second"] {
        asks_here.ask(&format!("here {text}")).await;
        asks_there.ask(&format!("there {text}")).await;
        here.hears(&format!("here {text}")).await;
        there.hears(&format!("there {text}")).await;
    }
}
