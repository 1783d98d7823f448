//! What the page says of a server that does not reply.

use crate::request::{get, until};
use lock_admin::Admin;
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use serde_json::Value;

/// Returns the part of the page with that id, up to the next section.
fn part<'a>(page: &'a str, id: &str) -> &'a str {
    let rest = page.split_once(&format!("id=\"{id}\"")).expect("a part").1;
    rest.split("<section ").next().expect("its text")
}

const OUTAGE: &str = "Locks can't be acquired";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_that_is_down_does_not_tell_is_unknown_and_as_it_was_seen_last() {
    let mut server = Server::start();
    let locks = connected(server.url()).await;
    let admin = Admin::new(locks.clone());
    let guards = [
        locks.lock("order:42").acquire().await.unwrap(),
        locks.lock("order:43").acquire().await.unwrap(),
    ];
    let is_seen = |page: &str| page.contains("<dt>Held</dt><dd>2</dd>");
    let page = until(&admin, is_seen).await;
    assert!(part(&page, "timeline").contains(", now</title>"), "{page}");
    assert!(!page.contains("Unknown"), "{page}");

    server.pause();
    let page = until(&admin, |page| page.contains(OUTAGE)).await;
    for id in ["figures", "note", "timeline", "templates", "processes"] {
        assert!(part(&page, id).contains("Unknown"), "{id}: {page}");
    }
    assert!(is_seen(&page) && page.contains("order:42"), "{page}");
    assert!(!page.contains("No lock is in use"), "{page}");
    let timeline = part(&page, "timeline");
    assert!(
        timeline.contains(", when it was seen last</title>"),
        "{timeline}"
    );
    assert!(!timeline.contains(", now</title>"), "{timeline}");
    let json: Value = serde_json::from_str(&get(&admin, "/state.json").await).unwrap();
    assert_eq!(json["locks"].as_array().unwrap().len(), 2);
    assert!(json["locks_seen"].as_u64() < json["at"].as_u64(), "{json}");
    assert!(
        json["processes_seen"].as_u64() < json["at"].as_u64(),
        "{json}"
    );

    // A page that never saw the server knows nothing of it.
    let late = Admin::new(locks.clone());
    let page = get(&late, "/").await;
    assert!(page.contains(OUTAGE) && page.contains("Unknown"), "{page}");
    assert!(!page.contains("No lock is in use"), "{page}");
    for zero in [">0<", "no warnings"] {
        assert!(!page.contains(zero), "{zero}: {page}");
    }
    let json: Value = serde_json::from_str(&get(&late, "/state.json").await).unwrap();
    assert_eq!(json["locks_seen"], Value::Null);

    server.resume();
    until(&admin, |page| {
        !page.contains(OUTAGE) && !page.contains("Unknown")
    })
    .await;
    drop(guards);
}
