//! Invalid input is rejected in time, with an error that names the cause and reveals no secret.

use std::fmt::Debug;
use std::net::TcpListener;
use std::time::Duration;

use lock_runtime::{Config, LockError, Warning, WarningKind};
use tokio::task::{JoinSet, spawn_blocking};

use super::fixture::{Fixture, config_of, is_refused};
use super::inputs::{self, Inputs, Row, SECRET};
use lock_test_support::certificates::Certificates;
use lock_test_support::manager::{connected, refusal_of, until_renewed};
use lock_test_support::server::free_port;
use lock_test_support::time::{PATIENCE, millis, patient, soon};

#[track_caller]
fn keeps_secrets(shown: &impl Debug) {
    for text in [format!("{shown:?}"), format!("{shown:#?}")] {
        assert!(!text.contains(SECRET), "the secret is shown: {text}");
    }
}

/// For how long a case connects where a reply comes.
const IN_TIME: Duration = PATIENCE.saturating_sub(millis(2000));
/// For how long a case connects where no reply may come.
const IN_VAIN: Duration = millis(2500);

/// Returns the errors of connecting, each of which contains one of its words, in any case.
async fn refusals<W>(timeout: Duration, rows: Vec<(Config, W)>) -> Vec<LockError>
where
    W: IntoIterator<Item: AsRef<str> + Debug> + Clone + Debug + Send + 'static,
{
    let mut running = JoinSet::new();
    for (config, words) in rows {
        running.spawn(async move {
            let (error, text) = refusal_of(config.connect_timeout(timeout), SECRET).await;
            keeps_secrets(&error);
            let small = text.to_lowercase();
            let says = |word: W::Item| small.contains(word.as_ref());
            let is_said = words.clone().into_iter().any(says);
            assert!(is_said, "none of {words:?} in: {text}");
            error
        });
    }
    running.join_all().await
}

async fn are_misconfigured(rows: Vec<Row>) {
    for error in refusals(IN_TIME, rows).await {
        assert!(
            matches!(error, LockError::InvalidConfig { .. }),
            "{error:?}"
        );
    }
}

pub async fn bad_urls_are_rejected(fixture: Fixture) {
    let urls = fixture.topology().inputs.urls.iter();
    let rows = urls.map(|(url, words)| (Config::new(*url), *words));
    are_misconfigured(rows.collect()).await;
}

pub async fn configurations_that_do_not_fit_the_servers_are_rejected(fixture: Fixture) {
    let servers = &*fixture.topology().servers;
    let unfit = fixture.topology().inputs.unfit;
    are_misconfigured(unfit.map_or(Vec::new(), |unfit| unfit(servers))).await;
}

/// The error names the address.
pub async fn unreachable_and_silent_servers_are_unavailable(fixture: Fixture) {
    let Inputs { at, secure, .. } = fixture.topology().inputs;
    let Some(at) = at else { return };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    let closed = format!("127.0.0.1:{}", free_port());
    let addresses = [
        closed,
        silent.to_string(),
        "no-such-host.invalid:1".to_owned(),
    ];
    let urls = addresses.into_iter().flat_map(|address| {
        let secure = secure.map(|secure| secure(&at(&address)));
        let urls = [Some(at(&address)), secure].into_iter().flatten();
        urls.map(move |url| (Config::new(url), vec![address.clone()]))
    });
    for error in refusals(IN_VAIN, urls.collect()).await {
        assert!(error.is_unavailable(), "{error:?}");
    }
}

/// The address is that of a server of another kind, whose protocol is another one.
pub async fn servers_of_other_engines_are_refused(fixture: Fixture) {
    let (Some(_), Some(network)) = (fixture.topology().inputs.at, fixture.network()) else {
        return;
    };
    let (own, _) = network.urls[0].split_once("://").unwrap();
    let port = network.proxies[0].port().to_string();
    let engines = [
        inputs::standalone(),
        inputs::postgres(),
        inputs::etcd(),
        inputs::zookeeper(),
    ];
    let urls = engines.map(|inputs| inputs.at.unwrap()(&format!("127.0.0.1:{port}")));
    let others = urls.into_iter().filter(|url| !url.starts_with(own));
    let rows = others.map(|url| (Config::new(url), vec![port.clone()]));
    refusals(IN_VAIN, rows.collect()).await;
}

pub async fn wrong_credentials_are_rejected_and_right_ones_never_shown(fixture: Fixture) {
    let Some(accounts) = fixture.topology().inputs.accounts else {
        return;
    };
    let accounts = spawn_blocking(accounts).await.unwrap();
    let mut guards = Vec::new();
    for config in accounts.right {
        keeps_secrets(&config);
        let locks = connected(patient(config)).await;
        keeps_secrets(&locks);
        let lock = locks.lock("row");
        keeps_secrets(&lock);
        // The first holds it.
        match lock.acquire().await {
            Ok(guard) => {
                keeps_secrets(&guard);
                guards.push((guard, locks));
            }
            Err(error) => assert!(error.is_busy() && !guards.is_empty(), "{error}"),
        }
    }
    are_misconfigured(accounts.wrong).await;
    for (guard, locks) in guards {
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        locks.shutdown().await;
    }
    spawn_blocking(|| drop(accounts.servers)).await.unwrap();
}

pub async fn wrong_tls_setup_is_rejected(fixture: Fixture) {
    let Inputs { secure, tls, .. } = fixture.topology().inputs;
    let (Some(to_secure), Some(tls)) = (secure, tls) else {
        return;
    };
    let certificates = Certificates::issue();
    let authority = certificates.authority.clone();
    let secure = spawn_blocking(move || tls(certificates)).await.unwrap();
    let trusting = |authority: &str| Config::new(&secure.url).root_certificate(authority);
    let locks = connected(patient(trusting(&authority))).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    until_renewed([&guard]).await;
    guard.release().await.unwrap();
    locks.shutdown().await;

    // An unknown authority, and a wrong one.
    let unknown = Config::new(&secure.url);
    let wrong = trusting(&Certificates::issue().authority);
    let both = vec![(unknown, ["certificate"]), (wrong, ["certificate"])];
    refusals(PATIENCE / 2, both).await;
    // No TLS where it is required, and TLS where there is none.
    let plain = secure.plain.iter().map(|url| Config::new(&**url));
    let urls = fixture.urls();
    let without = Config::new(to_secure(&urls[0])).root_certificate(&*authority);
    let mixed = plain.chain([without]).map(|config| (config, ["127.0.0.1"]));
    refusals(IN_VAIN, mixed.collect()).await;
    // No certificate at all.
    let empty = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let junk = ["", SECRET, empty].map(trusting);
    let junk = junk.map(|config| (config, &["`root_certificate`"][..]));
    are_misconfigured(junk.into()).await;
    spawn_blocking(|| drop(secure.servers)).await.unwrap();
}

pub async fn client_certificates_are_shown_where_they_are_demanded(fixture: Fixture) {
    let Some(tls) = fixture.topology().inputs.tls else {
        return;
    };
    let certificates = Certificates::demanded();
    // PostgreSQL compares the name with that of the user.
    let (certificate, key) = certificates.of_client("postgres");
    let authority = certificates.authority.clone();
    let secure = spawn_blocking(move || tls(certificates)).await.unwrap();
    let trusting = || Config::new(&secure.url).root_certificate(&*authority);
    let known = || trusting().client_certificate(&*certificate, &*key);
    keeps_secrets(&known());
    assert!(!format!("{:?}", known()).contains("PRIVATE"));
    let locks = connected(patient(known())).await;
    let others = connected(patient(known())).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let next = tokio::spawn(others.lock("row").acquire());
    until_renewed([&guard]).await;
    guard.release().await.unwrap();
    let next = soon(next).await.unwrap().unwrap();
    next.release().await.unwrap();
    let checked = locks.check_servers().await;
    let is_out_of_reach = |it: &Warning| it.kind() == WarningKind::NotChecked;
    assert!(!checked.iter().any(is_out_of_reach), "{checked:?}");
    locks.shutdown().await;
    others.shutdown().await;

    // None, and one of another authority.
    let (other, key_of_other) = Certificates::issue().of_client("postgres");
    let unknown = trusting().client_certificate(&*other, &*key_of_other);
    let words = ["`client_certificate`"];
    // It is tried again all the time, which is long enough for many tries.
    refusals(PATIENCE / 2, vec![(trusting(), words), (unknown, words)]).await;
    // What is not PEM, and a key that does not fit.
    let pairs = [
        ("", &*key),
        (SECRET, &*key),
        (&*certificate, ""),
        (&*certificate, SECRET),
        (&*certificate, &*certificate),
        (&*certificate, &*key_of_other),
    ];
    let wrong = pairs.map(|(certificate, key)| trusting().client_certificate(certificate, key));
    let wrong = wrong.map(|config| (config, &["`client_certificate`"][..]));
    are_misconfigured(wrong.into()).await;
    spawn_blocking(|| drop(secure.servers)).await.unwrap();
}

pub async fn invalid_durations_are_rejected(fixture: Fixture) {
    let row = fixture.key("row");
    let lock = || fixture.locks().lock(&*row);
    let ttls = [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::MAX,
        millis(i64::MAX as u64),
    ];
    let with_ttl = ttls.map(|ttl| ("ttl", lock().ttl(ttl)));
    for (named, lock) in with_ttl
        .into_iter()
        .chain([("max_hold", lock().max_hold(Duration::ZERO))])
    {
        let error = soon(lock.acquire()).await.unwrap_err();
        assert!(is_refused(&error, named), "{error:?}");
    }
    let configs = ttls.map(|ttl| config_of(fixture.urls()).ttl(ttl));
    let configs = configs.map(|config| (config, ["ttl"]));
    refusals(IN_TIME, configs.into()).await;
    assert!(!fixture.is_held(&row).await);
}

pub async fn what_the_engine_lacks_is_refused(fixture: Fixture) {
    let Inputs {
        lacks_replicas,
        too_long,
        ..
    } = fixture.topology().inputs;
    if lacks_replicas {
        let lock = fixture.locks().lock(fixture.key("row")).replicas(1);
        let error = lock.acquire().await.unwrap_err();
        let LockError::Unsupported { operation, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(operation, "replicas");
    }
    if let Some(length) = too_long {
        let lock = fixture.locks().lock("k".repeat(length));
        let error = lock.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
    }
}
