//! What the page shows, and what it does.

use crate::browser::Browser;
use crate::service::{Service, recorded};
use lock_admin::Admin;
use lock_runtime::{Config, LockError, LockManager, LostCause, ReleaseMode, Report};
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use serde_json::json;
use std::time::Duration;

/// What may change something: a filter does not.
const CLICKABLE: &str = "button, input:not([type=search]), form";

async fn memory() -> LockManager {
    LockManager::connect("memory://").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_appears_when_a_lock_is_held_and_leaves_with_it() {
    let locks = memory().await;
    let service = Service::start(&Admin::new(locks.clone())).await;
    let browser = Browser::start().await;
    browser.client.goto(&service.url).await.unwrap();
    browser
        .until("#empty", |it| it.contains("No lock is in use"))
        .await;
    // The rest happens without a reload.
    browser.evaluate("document.body.className = 'same'").await;
    let guard = locks.lock("order:42").acquire().await.unwrap();
    browser.until("#rows", |it| it.contains("order:42")).await;
    browser
        .until("#timeline", |it| it.contains("order:42"))
        .await;
    let waiting = tokio::spawn(locks.lock("order:42").wait(Duration::MAX).acquire());
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    next.release().await.unwrap();
    browser
        .until("#empty", |it| it.contains("No lock is in use"))
        .await;
    assert_eq!(
        browser.evaluate("return document.body.className").await,
        "same"
    );
    assert_eq!(browser.console().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn loss_comes_first_and_says_which_lock() {
    let (locks, admin) = recorded().await;
    let service = Service::start(&admin).await;
    let browser = Browser::start().await;
    browser.client.goto(&service.url).await.unwrap();
    browser
        .until("#summary", |it| it.contains("All is well"))
        .await;
    let lock = locks.lock("order:42").max_hold(Duration::from_millis(10));
    let guard = lock.acquire().await.unwrap();
    guard.lost().await;
    browser
        .until("#summary h1", |it| it == "order:42 was lost")
        .await;
    let events = browser.until("#events", |it| it.contains("order:42")).await;
    assert!(events.contains("lost"), "{events}");
    let reads_aloud = "return document.querySelector('[aria-live=polite]').innerText";
    let read = browser.evaluate(reads_aloud).await;
    assert!(
        read.as_str().unwrap().contains("order:42 was lost"),
        "{read}"
    );
    assert_eq!(browser.console().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn form_cancels_the_body_of_the_holder() {
    let locks = memory().await;
    let body = locks
        .lock("order:42")
        .run(async |_| std::future::pending::<()>().await);
    let body = tokio::spawn(body);
    let admin = Admin::new(locks.clone()).allow_revoke(|_| Some("ann".to_owned()));
    let service = Service::start(&admin).await;
    let browser = Browser::start().await;
    browser.client.goto(&service.url).await.unwrap();
    browser.until("#rows", |it| it.contains("order:42")).await;
    browser.click("#rows a").await;
    browser
        .write("[name=reason]", "stuck since the deploy")
        .await;
    browser.click("button").await;
    browser
        .until("h1", |it| it == "order:42 was given up")
        .await;
    let ended = body.await.unwrap();
    assert!(
        matches!(
            ended,
            Err(LockError::Lost {
                cause: LostCause::Revoked,
                ..
            })
        ),
        "{ended:?}"
    );
    assert_eq!(browser.console().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_lock_is_shown_as_such_until_its_process_gives_it_back() {
    let (locks, admin) = recorded().await;
    let service = Service::start(&admin).await;
    let browser = Browser::start().await;
    browser.client.goto(&service.url).await.unwrap();
    browser.evaluate("document.body.className = 'same'").await;
    // It is kept for a third of that.
    let lock = locks.lock("order:42").ttl(Duration::from_secs(300));
    let lock = lock.release_mode(ReleaseMode::Lazy);
    // A kept lock is thin, whatever its color, and its title says why.
    let bars = "return [...document.querySelectorAll('#timeline ol div > svg rect')] \
                .map((it) => it.getAttribute('height') + (it.textContent.includes(', kept, ') ? ' kept' : ' held'))";
    for calls in 1..=2 {
        let guard = lock.clone().acquire().await.unwrap();
        let is_held = |it: &str| it.contains("order:42") && !it.contains("kept");
        browser.until("#rows", is_held).await;
        browser
            .until("#figures", |it| it.starts_with("Held\n1\n"))
            .await;
        drop(guard);
        browser
            .until("#rows .holder", |it| {
                it.ends_with("\nkept for its next call")
            })
            .await;
        browser
            .until("#figures", |it| it.starts_with("Held\n0 and 1 kept\n"))
            .await;
        let seen = browser.evaluate(bars).await;
        assert_eq!(seen, json!(["12 held", "6 kept"].repeat(calls)));
    }
    assert_eq!(locks.stats().resumed, 1);
    assert_eq!(
        browser.evaluate("return document.body.className").await,
        "same"
    );
    // A lock that is in use comes first.
    let used = locks.lock("order:43").acquire().await.unwrap();
    browser
        .until("#rows > :first-child", |it| it.contains("order:43"))
        .await;
    used.release().await.unwrap();
    browser.until("#rows", |it| !it.contains("order:43")).await;
    browser.click("#rows a").await;
    browser
        .until(".lead", |it| {
            it.starts_with("Kept by a process for its next call")
        })
        .await;
    browser.until(".card dt", |it| it == "Kept for").await;
    browser
        .until("label", |it| it == "Why it has to give the lock back")
        .await;
    browser.until("button", |it| it == "Ask for it").await;
    browser
        .write("[name=reason]", "another program needs it")
        .await;
    browser.click("button").await;
    browser
        .until("h1", |it| it == "order:42 was given up")
        .await;
    assert!(
        locks
            .inspect("order:42")
            .await
            .unwrap()
            .holders()
            .is_empty()
    );
    browser.click(".back a").await;
    browser
        .until("#empty", |it| it.contains("No lock is in use"))
        .await;
    browser
        .until("#figures", |it| it.ends_with("Lost so far\n0"))
        .await;
    let next = lock.acquire().await.unwrap();
    next.release().await.unwrap();
    let stats = locks.stats();
    assert_eq!((stats.resumed, stats.lost), (1, 0));
    assert_eq!(browser.console().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_page_has_nothing_to_click_and_its_post_is_forbidden() {
    let locks = memory().await;
    let guard = locks.lock("order:42").acquire().await.unwrap();
    let service = Service::start(&Admin::new(locks.clone())).await;
    let browser = Browser::start().await;
    browser.client.goto(&service.url).await.unwrap();
    browser.until("header", |it| it.contains("Read-only")).await;
    assert_eq!(browser.count(CLICKABLE).await, 0);
    browser.click("#rows a").await;
    browser.until("h1", |it| it == "order:42").await;
    assert_eq!(browser.count(CLICKABLE).await, 0);
    let token = locks.inspect("order:42").await.unwrap().holders()[0]
        .token()
        .to_owned();
    let post = format!(
        "const [done] = arguments; const body = new URLSearchParams({{ key: 'order:42', holder: '{token}', reason: 'r' }}); \
         fetch('revoke', {{ method: 'POST', body }}).then((it) => done(it.status))"
    );
    let status = browser
        .client
        .execute_async(&post, Vec::new())
        .await
        .unwrap();
    assert_eq!(status, 403);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_key_is_text() {
    let key =
        "<script>document.title='hacked'</script>\"'&<img src=x onerror=alert(1)>\u{202e}\u{7}";
    let locks = memory().await;
    let _guard = locks.lock(key).label(key).acquire().await.unwrap();
    let service = Service::start(&Admin::new(locks.clone())).await;
    let browser = Browser::start().await;
    browser.client.goto(&service.url).await.unwrap();
    let shown =
        "<script>document.title='hacked'</script>\"'&<img src=x onerror=alert(1)>\\u{202e}\\u{7}";
    browser.until("#rows .key a", |it| it == shown).await;
    // Also in what the script adds.
    let _other = locks.lock(format!("2{key}")).acquire().await.unwrap();
    browser
        .until("#rows > :last-child .key a", |it| it == format!("2{shown}"))
        .await;
    browser.click("#rows a").await;
    browser.until("h1", |it| it == shown).await;
    assert_eq!(browser.count("main script, main img").await, 0);
    assert_eq!(browser.client.title().await.unwrap(), shown);
    assert_eq!(browser.console().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn page_is_complete_without_script() {
    let locks = memory().await;
    let _guard = locks.lock("order:42").acquire().await.unwrap();
    let service = Service::start(&Admin::new(locks.clone())).await;
    let browser = Browser::without_script().await;
    browser.client.goto(&service.url).await.unwrap();
    browser
        .until("#rows .key", |it| it.contains("order:42"))
        .await;
    browser.until("#rows .for", |it| it.ends_with(" s")).await;
    browser
        .until("#processes", |it| it.contains("serves this page"))
        .await;
    browser.until("#live", |it| it == "Reloads each 5 s").await;
    // It reloads.
    let _other = locks.lock("order:43").acquire().await.unwrap();
    browser.until("#rows", |it| it.contains("order:43")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_shows_the_locks_of_all_processes_and_its_own_end() {
    let mut server = Server::start();
    let connect = async |service: &str| {
        let config = Config::new(server.url()).service(service).version("1.2.3");
        connected(config.report(Report::Live)).await
    };
    let (orders, billing) = (connect("orders").await, connect("billing").await);
    let guard = orders.lock("order:42").acquire().await.unwrap();
    let waits = tokio::spawn(billing.lock("order:42").wait(Duration::MAX).acquire());
    let service = Service::start(&Admin::new(orders.clone())).await;
    let browser = Browser::start().await;
    browser.client.goto(&service.url).await.unwrap();
    let is_complete = |it: &str| it.contains("orders 1.2.3") && it.contains("first billing 1.2.3");
    browser.until("#rows", is_complete).await;
    browser
        .until("#processes", |it| it.contains("billing 1.2.3"))
        .await;
    server.pause();
    browser
        .until("#summary h1", |it| it == "Locks can't be acquired")
        .await;
    server.resume();
    browser
        .until("#summary h1", |it| it != "Locks can't be acquired")
        .await;
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_locks_are_dense_and_filtered() {
    let config = Config::new("memory://").service("orders");
    let locks = LockManager::connect(config).await.unwrap();
    let mut guards = Vec::new();
    for n in 0..20 {
        let lock = locks.lock(format!("order:{n}")).template("order:<id>");
        guards.push(lock.acquire().await.unwrap());
    }
    let invoice = locks.lock("invoice:7").template("invoice:<id>");
    guards.push(invoice.acquire().await.unwrap());
    let service = Service::start(&Admin::new(locks.clone())).await;
    let browser = Browser::start().await;
    browser.client.goto(&service.url).await.unwrap();
    browser
        .until("#rows > :nth-child(21)", |it| it.contains("pid"))
        .await;
    let height = "return document.querySelector('#rows > :first-child').offsetHeight";
    let height = browser.evaluate(height).await;
    assert!(height.as_u64().unwrap() < 45, "{height}");
    browser
        .until("#templates tfoot", |it| it.starts_with("All 21 0"))
        .await;
    browser.write("#filter input", "INVOICE").await;
    let is_filtered = |it: &str| it.contains("invoice:7") && !it.contains("order:");
    browser.until("#rows", is_filtered).await;
    // Also what comes later.
    guards.push(locks.lock("order:20").acquire().await.unwrap());
    guards.push(locks.lock("invoice:8").acquire().await.unwrap());
    let shown = browser.until("#rows", |it| it.contains("invoice:8")).await;
    assert!(is_filtered(&shown), "{shown}");
    assert_eq!(browser.console().await, [""; 0]);
}
