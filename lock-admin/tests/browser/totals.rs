//! What the page counts, of more locks than it lists.

use crate::request::{get, until};
use lock_admin::Admin;
use lock_runtime::{Config, Report};
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use serde_json::Value;
use std::time::Duration;

/// More than a report names.
const HELD: usize = 70;

#[tokio::test(flavor = "multi_thread")]
async fn totals_are_of_all_locks_and_a_list_that_is_cut_says_so() {
    let server = Server::start();
    let connect = async || connected(Config::new(server.url()).report(Report::Live)).await;
    let (many, few) = (connect().await, connect().await);
    let mut guards = Vec::new();
    for n in 0..HELD {
        let lock = many.lock(format!("order:{n}")).template("order:<id>");
        guards.push(lock.acquire().await.unwrap());
    }
    guards.push(few.lock("invoice:1").acquire().await.unwrap());
    // These wait within their process, where the server does not see them.
    let calls = (0..3).map(|_| tokio::spawn(few.lock("invoice:1").wait(Duration::MAX).acquire()));
    let calls: Vec<_> = calls.collect();
    let admin = Admin::new(few.clone());
    let page = until(&admin, |page| {
        page.contains("<dt>Held</dt><dd>71</dd>") && page.contains("<dt>Waiting</dt><dd>3</dd>")
    })
    .await;
    assert!(page.contains("65 of 71"), "{page}");
    assert!(page.contains("The filter finds no others"), "{page}");
    assert!(page.contains("of the locks that are listed"), "{page}");
    assert!(page.contains("10 of 65 locks"), "{page}");
    let json: Value = serde_json::from_str(&get(&admin, "/state.json").await).unwrap();
    assert_eq!((&json["held"], &json["waiting"]), (&71.into(), &3.into()));
    assert_eq!(json["cut"], true);
    // A complete list says nothing of that.
    guards.drain(..HELD).for_each(drop);
    let page = until(&admin, |page| page.contains("<dt>Held</dt><dd>1</dd>")).await;
    assert!(!page.contains("of the locks that are listed"), "{page}");
    calls.iter().for_each(|call| call.abort());
}
