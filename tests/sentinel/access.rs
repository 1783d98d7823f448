//! Ways to connect through Sentinels: credentials for both sides, TLS, a database; and the errors when that
//! fails.

use lock_runtime::{Config, LockError, Warning, WarningKind};

use lock_test_support::certificates::Certificates;
use lock_test_support::manager::{connected, refusal, silent, use_once};
use lock_test_support::sentinel::{Sentinels, Setup};
use lock_test_support::server::free_port;

const SECRET: &str = "correct-horse";

/// Asserts that a lock can be acquired, appears on the master, and can be released.
async fn works(all: &Sentinels, config: impl Into<Config>) {
    let locks = connected(silent(config)).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let keyspace: String = all.server(all.master()).query("INFO keyspace");
    assert!(keyspace.contains(":keys=1"), "{keyspace}");
    guard.release().await.unwrap();
}

#[track_caller]
fn is_misconfigured((error, text): &(LockError, String), words: &[&str]) {
    let misconfigured = matches!(error, LockError::InvalidConfig { .. });
    assert!(misconfigured, "{error:?}");
    let small = text.to_lowercase();
    for word in words {
        assert!(small.contains(word), "no `{word}` in: {text}");
    }
}

#[tokio::test]
async fn bad_urls_and_unreachable_sentinels_are_rejected() {
    let mut all = Sentinels::start();
    let url = all.url();
    works(&all, url.replace("/mymaster/0", "/mymaster")).await;
    works(&all, url.replace("/0", "/5")).await;

    let unknown = refusal(url.replace("mymaster", "nobody"), SECRET).await;
    is_misconfigured(&unknown, &["no master called `nobody`", "check the name"]);
    let database = refusal(url.replace("/0", "/4000"), SECRET).await;
    assert!(database.1.contains("database"), "{}", database.1);
    for (from, to) in [
        ("/0", "/x"),
        ("/mymaster/0", ""),
        (",", ",,"),
        ("1:", "1:x"),
    ] {
        let bad = url.replace(from, to);
        is_misconfigured(
            &refusal(bad.as_str(), SECRET).await,
            &["h1:26379,h2,h3/mymaster/0"],
        );
    }
    let none = Config::new(&url).credentials("nobody", SECRET);
    is_misconfigured(&refusal(none, SECRET).await, &["password"]);

    // Unreachable Sentinels are skipped as long as one is left.
    all.sentinel_mut(0).kill();
    works(&all, &*url).await;
    all.sentinel_mut(1).pause();
    works(&all, &*url).await;
    all.sentinel_mut(2).kill();
    let (error, text) = refusal(&*url, SECRET).await;
    assert!(error.is_unavailable(), "{text}");
    let unused = format!("redis-sentinel://127.0.0.1:{}/mymaster", free_port());
    let (error, text) = refusal(unused, SECRET).await;
    assert!(error.is_unavailable(), "{text}");
    assert!(text.contains("no Sentinel names the master"), "{text}");
}

#[tokio::test]
async fn server_and_sentinel_passwords_are_separate() {
    let all = Sentinels::with(&Setup {
        password: Some("pass@word"),
        sentinel_password: Some("other/word"),
        ..Setup::default()
    });
    let url = all.url_with("redis-sentinel://:pass%40word@");
    let own = |url: &str| Config::new(url).sentinel_credentials("", "other/word");
    works(&all, own(&url)).await;
    works(&all, own(&all.url()).credentials("default", "pass@word")).await;
    let named = Config::new(&url).sentinel_credentials("default", "other/word");
    works(&all, named).await;

    let (sentinels, server) = ("sentinel", "password");
    is_misconfigured(&refusal(&*url, SECRET).await, &[sentinels, server]);
    let wrong = Config::new(&url).sentinel_credentials("", SECRET);
    is_misconfigured(&refusal(wrong, SECRET).await, &[sentinels, server]);
    let wrong = own(&all.url_with(&format!("redis-sentinel://:{SECRET}@")));
    is_misconfigured(&refusal(wrong, SECRET).await, &[server]);
    is_misconfigured(&refusal(own(&all.url()), SECRET).await, &["auth", server]);
}

#[tokio::test]
async fn tls_is_used_for_sentinels_and_servers() {
    let certificates = Certificates::issue();
    let mut all = Sentinels::with(&Setup {
        certificates: Some(&certificates),
        password: Some("pass"),
        ..Setup::default()
    });
    let url = all.url_with("rediss-sentinel://:pass@");
    let trusting = || Config::new(&url).root_certificate(certificates.authority.clone());
    works(&all, trusting()).await;
    let locks = connected(trusting()).await;
    let before = all.kill_master();
    all.until_failed_over(before);
    use_once(&locks, "row").await;

    let (error, text) = refusal(&*url, SECRET).await;
    assert!(error.is_unavailable(), "{text}");
    assert!(text.to_lowercase().contains("certificate"), "{text}");
    let (error, _) = refusal(all.url_with("redis-sentinel://:pass@"), SECRET).await;
    assert!(error.is_unavailable(), "{error:?}");
}

/// Uses the permissions that `PROTOCOL.md` lists, then without permission to read the role.
#[tokio::test]
async fn documented_permissions_suffice() {
    let protocol = include_str!("../../PROTOCOL.md");
    let (_, permissions) = protocol.split_once("## Permissions").unwrap();
    let (permissions, _) = permissions.split_once("\n## ").unwrap();
    let (server, sentinel) = permissions.split_once("and there").unwrap();
    let rules = |text: &str| {
        let words = text.split(|c: char| c.is_whitespace() || c == '`');
        let rules = words.filter(|word| word.starts_with(['~', '&', '+']));
        rules.collect::<Vec<_>>().join(" ")
    };
    let all = Sentinels::start();
    let user = format!("ACL SETUSER clerk on >{SECRET} {}", rules(server));
    for number in Sentinels::SERVERS {
        all.server(number).query::<()>(&user);
    }
    let user = format!("ACL SETUSER clerk on >other {}", rules(sentinel));
    (0..3).for_each(|number| all.sentinel(number).query::<()>(&user));
    let clerk = || {
        Config::new(all.url())
            .credentials("clerk", SECRET)
            .sentinel_credentials("clerk", "other")
    };
    works(&all, clerk()).await;
    let warnings = connected(clerk()).await.check_servers().await;
    let not_checked = |warning: &Warning| warning.kind() == WarningKind::NotChecked;
    assert!(!warnings.iter().any(not_checked), "{warnings:?}");
    all.server(0).query::<()>("ACL SETUSER clerk -role");
    is_misconfigured(&refusal(clerk(), SECRET).await, &["noperm", "role"]);
}

#[tokio::test]
async fn sentinel_url_as_server_url_is_rejected() {
    let all = Sentinels::start();
    let url = all.sentinel(0).url();
    is_misconfigured(&refusal(url, SECRET).await, &["redis-sentinel://"]);
}
