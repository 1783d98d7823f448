//! The page for everyone: axe-core, the keyboard, both schemes of colors, and phones.

use crate::browser::Browser;
use crate::service::{Service, recorded};
use lock_admin::Admin;
use lock_runtime::{LockManager, ReleaseMode};
use std::path::Path;
use std::time::Duration;

/// The schemes and widths in which pages are looked at.
const SCREENS: [(&str, u32); 4] = [
    ("light", 1200),
    ("dark", 1200),
    ("light", 360),
    ("dark", 360),
];

/// `tests/run.sh` fetches it.
fn axe() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/axe-core/axe.min.js");
    std::fs::read_to_string(path).expect("tests/run.sh fetches axe-core")
}

/// Returns what axe-core finds wrong.
async fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    let script = format!(
        "{axe}; const done = arguments[arguments.length - 1]; axe.run().then((it) => done(it.violations.map( \
         (it) => `${{it.id}}: ${{it.help}}: ${{it.nodes.map((it) => it.html + ' ' + it.failureSummary).join('; ')}}`)))"
    );
    let found = browser
        .client
        .execute_async(&script, Vec::new())
        .await
        .unwrap();
    let found = found.as_array().unwrap().iter();
    found.map(|it| it.to_string()).collect()
}

/// Fails if axe-core finds something in the page, or it is wider than the screen.
async fn is_for_everyone(browser: &Browser, axe: &str, shown: &str) {
    let found = violations(browser, axe).await;
    assert!(found.is_empty(), "{shown}: {found:#?}");
    let overflow = "return document.documentElement.scrollWidth - window.innerWidth";
    let overflow = browser.evaluate(overflow).await;
    assert!(overflow.as_i64().unwrap() <= 0, "{shown}: {overflow}");
}

#[tokio::test(flavor = "multi_thread")]
async fn axe_finds_nothing_in_both_schemes_and_on_a_phone() {
    let axe = axe();
    let (locks, admin) = recorded().await;
    let service = Service::start(&admin).await;
    let browser = Browser::start().await;
    let mut guards = Vec::new();
    let mut papers = Vec::new();
    for scene in ["empty", "kept", "busy", "incident"] {
        match scene {
            "empty" => {}
            "kept" => {
                let lock = locks.lock("order:kept").ttl(Duration::from_secs(900));
                let lock = lock.release_mode(ReleaseMode::Lazy);
                lock.acquire().await.unwrap().release().await.unwrap();
            }
            "busy" => {
                let lock = |n| locks.lock(format!("order:{n}")).template("order:<id>");
                for n in 0..5 {
                    guards.push(lock(n).acquire().await.unwrap());
                }
                tokio::spawn(lock(0).wait(Duration::MAX).acquire());
            }
            _ => {
                let lock = locks.lock("invoice:1").max_hold(Duration::from_millis(10));
                lock.acquire().await.unwrap().lost().await;
            }
        }
        for (scheme, width) in SCREENS {
            browser.show(scheme, width).await;
            browser.client.goto(&service.url).await.unwrap();
            browser.until("#live", |it| it == "Live").await;
            if scene == "kept" {
                browser.until("#rows", |it| it.contains("kept for")).await;
                browser.until("#timeline", |it| it.contains("thin: ")).await;
            }
            is_for_everyone(&browser, &axe, &format!("{scene}, {scheme}, {width}")).await;
            let paper = "return getComputedStyle(document.body).backgroundColor";
            papers.push(browser.evaluate(paper).await.to_string());
            let declared = "return getComputedStyle(document.documentElement).colorScheme";
            assert_eq!(browser.evaluate(declared).await, "light dark");
        }
    }
    assert_ne!(papers[0], papers[1], "light and dark");
    for (key, is_kept) in [("order:0", false), ("order:kept", true)] {
        for (scheme, width) in SCREENS {
            browser.show(scheme, width).await;
            let url = format!("{}/lock?key={key}", service.url);
            browser.client.goto(&url).await.unwrap();
            assert_eq!(browser.text("dt").await == "Kept for", is_kept, "{key}");
            is_for_everyone(&browser, &axe, &format!("{key}, {scheme}, {width}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn focus_stays_on_a_row_that_is_replaced() {
    let locks = LockManager::connect("memory://").await.unwrap();
    let guard = locks.lock("order:42").acquire().await.unwrap();
    let service = Service::start(&Admin::new(locks.clone())).await;
    let browser = Browser::start().await;
    browser.client.goto(&service.url).await.unwrap();
    browser.until("#rows", |it| it.contains("order:42")).await;
    browser
        .evaluate("document.querySelector('#rows a').focus()")
        .await;
    let _waits = tokio::spawn(locks.lock("order:42").wait(Duration::MAX).acquire());
    let shared = locks.lock("order:41").acquire().await.unwrap();
    browser.until("#rows", |it| it.contains("order:41")).await;
    let focused = browser
        .evaluate("return document.activeElement.innerText")
        .await;
    assert_eq!(focused, "order:42");
    drop((guard, shared));
}
