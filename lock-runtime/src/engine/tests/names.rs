//! Which locks there are.

use crate::engine::tests::peer::{soon, text, tokens, until};
use crate::engine::tests::space::Space;
use crate::util::join_all::join_all;
use std::sync::Arc;

/// Whatever their names are, and nothing else that is stored.
pub(crate) async fn locks_in_use_are_found(space: Space) {
    let [mut one, operator] = space.peers().await;
    assert!(operator.keys("", 9).await.is_empty());
    one.report("hello").await;
    one.engine.listen();
    one.until_it_hears(&operator).await;
    let keys = [
        "..",
        "order%",
        "order/1",
        "order/2",
        "order:b\\\0",
        "order{a}b",
        "other",
        "two\nlines",
        "🔒",
    ];
    let mut held = Vec::new();
    for key in keys {
        held.push(one.hold(key).await);
        one.number(&held[held.len() - 1]).await.unwrap();
    }
    let waits = operator.wait("other").await;
    let gone = one.hold("gone").await;
    assert!(operator.take_from(&gone).await.held);

    let begin_so = |begin: &str| -> Vec<_> {
        let keys = keys.iter().filter(|key| key.starts_with(begin));
        keys.map(|key| key.to_string()).collect()
    };
    for begin in [
        "", "o", "order", "order/", "order:", "order%", "order{", "other", "z", "order*", "ord_r",
        ":", "oth\u{1}", "🔒", "..",
    ] {
        assert_eq!(operator.keys(begin, 99).await, begin_so(begin), "{begin:?}");
    }
    for most in 1..4 {
        let some = operator.keys("order", most).await;
        assert_eq!(some.len(), most);
        assert!(some.iter().all(|key| keys.contains(&&**key)), "{some:?}");
    }
    operator.cancel(&waits).await;
    for claim in &held {
        assert!(one.release(claim).await);
    }
    let none = async || operator.keys("", 9).await.is_empty();
    until("all are free", none).await;
}

/// More than fit into one reply, and one with as many holders.
pub(crate) async fn many_locks_are_found(space: Space) {
    let peer = space.peer().await;
    let keys: Vec<_> = (0..40).map(|n| format!("n{n:02}")).collect();
    let locks = keys.iter().filter(|key| *key != "n30");
    let mut claims = join_all(locks.map(|key| peer.hold(key))).await;
    for _ in 0..40 {
        claims.push(peer.read("n30").await);
    }
    assert_eq!(peer.keys("n", 99).await, keys);
    assert_eq!(peer.keys("n", 35).await.len(), 35);
    assert_eq!(peer.keys("n30", 1).await, ["n30"]);
    assert!(peer.keys("x", 99).await.is_empty());
    for released in join_all(claims.iter().map(|claim| peer.release(claim))).await {
        assert!(released);
    }
}

/// In the order in which they are asked for, whether they are held, waited for or free.
pub(crate) async fn several_locks_are_viewed_together(space: Space) {
    let [one, other] = space.peers().await;
    let (door, page) = (one.hold("door").await, one.read("page").await);
    let waits = other.wait("door").await;
    let keys = ["page", "none", "door", "{page}", "page"];
    let names = keys.map(|key| Arc::from(one.name(key)));
    let views = other.engine.views(&names, 99, soon()).await.unwrap();
    assert_eq!(views.len(), keys.len());
    for (key, view) in keys.iter().zip(views) {
        assert_eq!(tokens(&view), other.view(key).await, "{key}");
        let expected = match *key {
            "door" => vec![text(&door)],
            "page" => vec![text(&page)],
            _ => Vec::new(),
        };
        assert_eq!(tokens(&view)[0], expected, "{key}");
        assert_eq!(view.waiting, u64::from(*key == "door"));
    }
    other.cancel(&waits).await;
    for claim in [door, page] {
        assert!(one.release(&claim).await);
    }
}
