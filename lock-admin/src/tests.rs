//! Requests, without a server around them.

use crate::{Admin, Operator};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use lock_runtime::{Config, LockError, LockManager, LostCause, ReleaseMode, Report};
use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, SystemTime};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What an attacker may call a lock.
const HOSTILE: &str = "<script>alert('x')</script>\"&\u{202e}\u{7}";

async fn text(response: Response<crate::Body>) -> String {
    let mut body = pin!(response.into_body());
    let mut text = Vec::new();
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let Ok(frame) = frame;
        text.extend_from_slice(&frame.into_data().expect("data"));
    }
    String::from_utf8(text).expect("text")
}

async fn get(admin: &Admin, path: &str) -> Result<(StatusCode, String)> {
    let response = admin.handle(Request::get(path).body(Bytes::new())?).await;
    Ok((response.status(), text(response).await))
}

/// Reads the next event of a stream.
async fn event(body: &mut crate::Body) -> String {
    let mut body = pin!(body);
    let frame = poll_fn(|context| body.as_mut().poll_frame(context)).await;
    let Ok(frame) = frame.expect("an event");
    let bytes = frame.into_data().expect("data");
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn form(fields: &[(&str, &str)]) -> Bytes {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields).finish().into()
}

fn post() -> http::request::Builder {
    Request::post("/revoke")
        .header("content-type", "application/x-www-form-urlencoded")
        .header("sec-fetch-site", "same-origin")
}

fn revocable(locks: &LockManager) -> Admin {
    Admin::new(locks.clone()).allow_revoke(|parts| {
        let operator = parts.extensions.get::<Operator>()?;
        Some(operator.0.clone())
    })
}

fn value(html: &str, name: &str) -> Option<String> {
    let rest = html.split_once(&format!("name=\"{name}\" value=\""))?.1;
    Some(rest.split_once('"')?.0.to_owned())
}

#[tokio::test]
async fn keys_are_text_and_never_markup() -> Result<()> {
    let locks = LockManager::connect("memory://").await?;
    let guard = locks.lock(HOSTILE).label(HOSTILE).acquire().await?;
    let admin = Admin::new(locks.clone());
    let (_, page) = get(&admin, "/").await?;
    let query = page
        .split("href=\"lock?")
        .nth(1)
        .and_then(|it| it.split('"').next());
    let (status, lock) = get(&admin, &format!("/lock?{}", query.expect("a link"))).await?;
    assert_eq!(status, StatusCode::OK);
    for html in [&page, &lock] {
        assert!(
            html.contains("&lt;script&gt;alert('x')&lt;/script&gt;&quot;&amp;\\u{202e}\\u{7}"),
            "{html}"
        );
        assert!(!html.contains("<script>"), "{html}");
        assert!(
            !html.contains('\u{202e}') && !html.contains('\u{7}'),
            "{html}"
        );
        assert!(!html.contains(" style="), "{html}");
    }
    let (_, json) = get(&admin, "/state.json").await?;
    let json: serde_json::Value = serde_json::from_str(&json)?;
    assert_eq!(
        json["locks"][0]["key"],
        "<script>alert('x')</script>\"&\\u{202e}\\u{7}"
    );
    Ok(guard.release().await?)
}

#[tokio::test]
async fn redacted_keys_are_nowhere() -> Result<()> {
    let locks = LockManager::connect("memory://").await?;
    let _guard = locks.lock("customer:4711").acquire().await?;
    let waiting = locks.lock("customer:4711").wait(Duration::MAX).acquire();
    let waiting = tokio::spawn(waiting);
    let redacted = |key: &str| key.replace(char::is_numeric, "#");
    let admin = Admin::new(locks.clone())
        .redact(redacted)
        .allow_revoke(|_| Some("ann".into()));
    let (_, page) = get(&admin, "/").await?;
    let query = page
        .split("href=\"lock?")
        .nth(1)
        .and_then(|it| it.split('"').next());
    let (status, lock) = get(&admin, &format!("/lock?{}", query.expect("a link"))).await?;
    assert_eq!(status, StatusCode::OK);
    let (_, json) = get(&admin, "/state.json").await?;
    for shown in [&page, &lock, &json] {
        assert!(
            shown.contains("customer:####") && !shown.contains("customer:4711"),
            "{shown}"
        );
        assert!(!shown.contains("4711"), "{shown}");
    }
    // The key itself leads nowhere: whoever guesses it learns nothing.
    assert_eq!(
        get(&admin, "/lock?key=customer:4711").await?.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        get(&admin, "/lock?token=customer:4711").await?.0,
        StatusCode::NOT_FOUND
    );
    let body = form(&[
        ("token", &value(&lock, "token").expect("a field")),
        ("holder", &value(&lock, "holder").expect("a field")),
        ("reason", "stuck"),
    ]);
    let response = admin.handle(post().body(body)?).await;
    assert!(!text(response).await.contains("4711"));
    waiting.abort();
    Ok(())
}

#[tokio::test]
async fn every_response_says_what_a_browser_may_do() -> Result<()> {
    let admin = Admin::new(LockManager::connect("memory://").await?);
    let page = get(&admin, "/").await?.1;
    let asset = |end: &str| {
        let mut names = page.split('"').filter(|it| it.ends_with(end));
        names
            .next_back()
            .map(|it| format!("/{it}"))
            .expect("an asset")
    };
    let (style, script) = (asset(".css"), asset(".js"));
    for (path, status) in [
        ("/", 200),
        ("/state.json", 200),
        ("/lock?key=a", 200),
        ("/lock", 404),
        ("/nothing", 404),
        (&*style, 200),
        (&script, 200),
        ("/revoke", 405),
    ] {
        let response = admin.handle(Request::get(path).body(Bytes::new())?).await;
        assert_eq!(response.status(), status, "{path}");
        let header = |name: &str| response.headers()[name].to_str();
        let is_asset = path == style || path == script;
        assert_eq!(header("cache-control")? == "no-store", !is_asset, "{path}");
        assert_eq!(
            header("cache-control")?.ends_with("immutable"),
            is_asset,
            "{path}"
        );
        let policy = header("content-security-policy")?;
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(header("x-content-type-options")?, "nosniff");
        assert_eq!(header("referrer-policy")?, "no-referrer");
    }
    for link in page.split("href=\"").chain(page.split("src=\"")).skip(1) {
        assert!(
            !link.starts_with('/') && !link.starts_with("http"),
            "{link}"
        );
    }
    Ok(())
}

fn now() -> String {
    crate::text::millis(SystemTime::now()).to_string()
}

#[tokio::test]
async fn a_page_that_no_viewer_may_use_has_no_form_and_revokes_nothing() -> Result<()> {
    let locks = LockManager::connect("memory://").await?;
    let guard = locks.lock("order:42").acquire().await?;
    let token = locks.inspect("order:42").await?.holders()[0]
        .token()
        .to_owned();
    let body = form(&[
        ("key", "order:42"),
        ("holder", &token),
        ("seen", &now()),
        ("reason", "stuck"),
    ]);
    // Without an operator, also where others may.
    for admin in [Admin::new(locks.clone()), revocable(&locks)] {
        let page = get(&admin, "/lock?key=order:42").await?.1;
        assert!(
            !page.contains("<form") && !page.contains("<button"),
            "{page}"
        );
        let response = admin.handle(post().body(body.clone())?).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
    }
    assert!(guard.is_valid());
    Ok(guard.release().await?)
}

#[tokio::test]
async fn only_the_pages_own_form_revokes() -> Result<()> {
    let locks = LockManager::connect("memory://").await?;
    let guard = locks.lock("order:42").acquire().await?;
    let admin = revocable(&locks);
    let token = locks.inspect("order:42").await?.holders()[0]
        .token()
        .to_owned();
    let is_form = "application/x-www-form-urlencoded";
    let (site, same) = ("sec-fetch-site", ("sec-fetch-site", "same-origin"));
    let long = Bytes::from(vec![b'a'; 9_000]);
    let reason = "r".repeat(201);
    let seen = now();
    let known = [("key", "order:42"), ("holder", &*token), ("seen", &*seen)];
    let body = form(&[&known[..], &[("reason", "stuck")]].concat());
    let incomplete = form(&known);
    let unseen = form(&[("key", "order:42"), ("holder", &token), ("reason", "stuck")]);
    let verbose = form(&[&known[..], &[("reason", &*reason)]].concat());
    let old = [
        ("key", "order:42"),
        ("holder", &*token),
        ("seen", "1"),
        ("reason", "stuck"),
    ];
    let old = form(&old);
    let stale = form(&[
        ("key", "order:42"),
        ("holder", "another"),
        ("seen", &seen),
        ("reason", "stuck"),
    ]);
    for (kind, (name, value), body, status) in [
        (
            is_form,
            ("accept", "*/*"),
            body.clone(),
            StatusCode::FORBIDDEN,
        ),
        (
            is_form,
            (site, "same-site"),
            body.clone(),
            StatusCode::FORBIDDEN,
        ),
        (
            is_form,
            ("origin", "http://evil"),
            body.clone(),
            StatusCode::FORBIDDEN,
        ),
        ("text/plain", same, body, StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (is_form, same, long, StatusCode::PAYLOAD_TOO_LARGE),
        (is_form, same, incomplete, StatusCode::BAD_REQUEST),
        (is_form, same, unseen, StatusCode::BAD_REQUEST),
        (is_form, same, old, StatusCode::CONFLICT),
        (is_form, same, verbose, StatusCode::BAD_REQUEST),
        (is_form, same, stale, StatusCode::CONFLICT),
    ] {
        let request = Request::post("/revoke")
            .extension(Operator("ann".into()))
            .header("content-type", kind)
            .header("host", "here")
            .header(name, value);
        let response = admin.handle(request.body(body)?).await;
        assert_eq!(response.status(), status, "{name}: {value}");
        assert!(guard.is_valid(), "{name}: {value}");
    }
    Ok(guard.release().await?)
}

/// The form of `order:42`, as it was shown to `ann`.
#[derive(Clone)]
struct Shown<'a> {
    admin: &'a Admin,
    holder: String,
    seen: u64,
    /// Empty if its process had not reported it.
    handoffs: String,
}

impl Shown<'_> {
    async fn by(admin: &Admin) -> Result<Shown<'_>> {
        let request = Request::get("/lock?key=order:42").extension(Operator("ann".into()));
        let page = text(admin.handle(request.body(Bytes::new())?).await).await;
        let handoffs = value(&page, "handoffs").unwrap_or_default();
        let field = |name: &str| value(&page, name).expect("a field");
        Ok(Shown {
            admin,
            holder: field("holder"),
            seen: field("seen").parse()?,
            handoffs,
        })
    }

    async fn send(&self) -> Result<Response<crate::Body>> {
        let body = form(&[
            ("key", "order:42"),
            ("holder", &self.holder),
            ("seen", &self.seen.to_string()),
            ("handoffs", &self.handoffs),
            ("reason", "stuck"),
        ]);
        let request = post().extension(Operator("ann".into()));
        Ok(self.admin.handle(request.body(body)?).await)
    }
}

#[tokio::test]
async fn form_revokes_from_the_body_that_it_showed_and_no_other() -> Result<()> {
    let locks = LockManager::connect("memory://").await?;
    let admin = revocable(&locks);
    let lock = || locks.lock("order:42").wait(Duration::MAX);
    let first = lock().acquire().await?;
    let body = tokio::spawn(lock().run(async |_| std::future::pending::<()>().await));
    while locks.stats().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let is_reported = async |number: &str| loop {
        let shown = Shown::by(&admin).await?;
        if shown.handoffs == number {
            return Result::Ok(shown);
        }
    };
    let earlier = is_reported("0").await?;
    // It passes the lock on.
    first.release().await?;
    let shown = is_reported("1").await?;
    assert_eq!(earlier.send().await?.status(), StatusCode::CONFLICT);
    assert!(!body.is_finished());
    let response = shown.send().await?;
    assert_eq!(response.status(), StatusCode::OK);
    let page = text(response).await;
    assert!(page.contains("order:42 was given up"), "{page}");
    let ended = body.await?;
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
    assert_eq!(shown.send().await?.status(), StatusCode::CONFLICT);
    Ok(())
}

#[tokio::test]
async fn kept_lock_is_shown_as_such_and_given_back_on_demand() -> Result<()> {
    let locks = LockManager::connect("memory://").await?;
    let admin = revocable(&locks);
    let lock = locks.lock("order:42").template("order:<id>");
    drop(lock.release_mode(ReleaseMode::Lazy).acquire().await?);
    assert_eq!(locks.stats().kept, 1);
    // The report of it may come late on a busy machine.
    let shown = async {
        loop {
            let request = Request::get("/lock?key=order:42").extension(Operator("ann".into()));
            let lock = text(admin.handle(request.body(Bytes::new())?).await).await;
            if lock.contains("Kept for") {
                return Result::Ok(lock);
            }
        }
    };
    let lock = tokio::time::timeout(Duration::from_secs(20), shown).await??;
    for words in [
        "Kept for",
        "not renewed while it is kept",
        "Ask for it",
        "so none is canceled",
    ] {
        assert!(lock.contains(words), "{lock}");
    }
    assert!(!lock.contains("at its next await"), "{lock}");
    let (_, page) = get(&admin, "/").await?;
    for words in [
        "kept for its next call",
        "0<small> and 1 kept",
        ", kept, now</title>",
        "thin: kept",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let (_, json) = get(&admin, "/state.json").await?;
    let json: serde_json::Value = serde_json::from_str(&json)?;
    assert_eq!(json["locks"][0]["holders"][0]["kept"], true);
    let response = Shown::by(&admin).await?.send().await?;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!((locks.stats().kept, locks.stats().lost), (0, 0));
    assert!(locks.inspect("order:42").await?.holders().is_empty());
    Ok(())
}

#[tokio::test]
async fn old_form_revokes_from_no_later_body_of_a_process_that_reports_nothing() -> Result<()> {
    let config = Config::new("memory://");
    let locks = LockManager::connect(config.report(Report::Off)).await?;
    let admin = revocable(&locks);
    let first = locks.lock("order:42").acquire().await?;
    let next = tokio::spawn(locks.lock("order:42").wait(Duration::MAX).acquire());
    while locks.stats().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let mut shown = Shown::by(&admin).await?;
    shown.seen -= 60_000;
    // The hold is passed on within the process, with its token.
    first.release().await?;
    let guard = next.await??;
    // Nothing says which of its bodies was shown.
    assert_eq!(shown.send().await?.status(), StatusCode::CONFLICT);
    assert!(guard.is_valid());
    Ok(guard.release().await?)
}

#[tokio::test]
async fn events_have_only_what_has_changed() -> Result<()> {
    let locks = LockManager::connect("memory://").await?;
    let admin = Admin::new(locks.clone());
    let page = get(&admin, "/").await?.1;
    let seen = page
        .split_once("data-seen=\"")
        .and_then(|(_, it)| it.split_once('"'));
    let seen = seen.expect("a name").0;
    let request = Request::get(format!("/events?since={seen}")).body(Bytes::new())?;
    let mut body = admin.handle(request).await.into_body();
    assert!(event(&mut body).await.starts_with("retry: "));
    let _guard = locks.lock("order:42").acquire().await?;
    let event_text = event(&mut body).await;
    let name = event_text
        .split(['\n', ' '])
        .nth(1)
        .expect("a name")
        .to_owned();
    assert!(
        event_text.contains("order:42") && event_text.contains("\"order\":["),
        "{event_text}"
    );
    // Whoever continues there gets no more than that nothing has changed, up to the steps of the drawings.
    let request = Request::get("/events").header("last-event-id", name);
    let mut body = admin.handle(request.body(Bytes::new())?).await.into_body();
    event(&mut body).await;
    let event_text = event(&mut body).await;
    assert!(
        !event_text.contains("role=\\\"rowheader\\\"") && !event_text.contains("\"order\""),
        "{event_text}"
    );
    // Another process knows nothing of that name.
    let request = Request::get("/events").header("last-event-id", "00000000-7");
    let mut body = admin.handle(request.body(Bytes::new())?).await.into_body();
    event(&mut body).await;
    let event_text = event(&mut body).await;
    assert!(
        event_text.contains("id=\\\"processes\\\"") && event_text.contains("\"order\""),
        "{event_text}"
    );
    Ok(())
}
