//! Invalid input is rejected in time, with an error that says which, and reveals no secret.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use lock_runtime::{Config, LockError, LockManager};

use lock_test_support::manager::{connected, refusal};
use lock_test_support::server::free_port;
use lock_test_support::time::{NOISE, Stopwatch, millis, patient, within};
use lock_test_support::zookeeper::ZooKeeper;

const SECRET: &str = "correct-horse";

#[tokio::test]
async fn malformed_url_is_rejected() {
    for rest in ["", "a:port", "a,,b", "a/x?y=z", "[::1"] {
        let url = format!("zookeeper://me:{SECRET}@{rest}");
        let (error, text) = refusal(url, SECRET).await;
        assert!(matches!(error, LockError::InvalidConfig { .. }), "{error}");
        assert!(text.contains("h1:2181"), "{text}");
    }
    let quorum = Config::quorum(["zookeeper://a", "zookeeper://b", "zookeeper://c"]);
    let (_, text) = refusal(quorum, SECRET).await;
    assert!(text.contains("quorum"), "{text}");
}

#[tokio::test]
async fn unreachable_server_is_named() {
    let port = free_port();
    let (error, text) = refusal(format!("zookeeper://127.0.0.1:{port}"), SECRET).await;
    assert!(error.is_unavailable(), "{error}");
    assert!(text.contains(&port.to_string()), "{text}");
    let (error, text) = refusal("zookeeper://no-such-host.invalid", SECRET).await;
    assert!(
        error.is_unavailable() && text.contains("no-such-host"),
        "{text}"
    );
}

/// The error is about the whole time, not about the last try.
#[tokio::test]
async fn each_unreachable_server_is_named_with_its_cause() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (closed, silent) = (free_port(), silent.local_addr().unwrap().port());
    let url = format!("zookeeper://127.0.0.1:{closed},127.0.0.1:{silent}");
    let config = Config::from(url).connect_timeout(millis(1500));
    let (error, text) = refusal(config, SECRET).await;
    assert!(error.is_unavailable(), "{error}");
    let (before, second) = text.split_once("; `").unwrap_or_default();
    let (_, first) = before
        .rsplit_once("no server could be used within ")
        .unwrap_or_default();
    let refused = format!("`127.0.0.1:{closed}`: Connection refused");
    assert!(
        first.contains(&refused) && first.contains("tries)"),
        "{text}"
    );
    let silent = format!("127.0.0.1:{silent}`: no reply within ");
    assert!(second.starts_with(&silent), "{text}");
    assert!(
        second.contains("tries)") || second.contains("(1 try)"),
        "{text}"
    );
}

#[tokio::test]
async fn server_without_majority_is_named() {
    let mut zookeeper = ZooKeeper::with(3, "");
    zookeeper.kill(0);
    zookeeper.kill(1);
    let (error, text) = refusal(zookeeper.url_of(2), SECRET).await;
    assert!(
        error.is_unavailable() && text.contains("majority"),
        "{text}"
    );
}

#[tokio::test]
async fn other_credentials_are_refused() {
    let zookeeper = ZooKeeper::start();
    let config = |password: &str| patient(zookeeper.url()).credentials("me", password);
    let locks = connected(config(SECRET)).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let (error, text) = refusal(config("another"), SECRET).await;
    assert!(matches!(error, LockError::InvalidConfig { .. }), "{error}");
    assert!(text.contains("access control"), "{text}");
    let again = connected(config(SECRET)).await;
    assert!(again.lock("row").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    again.shutdown().await;
    locks.shutdown().await;
}

/// Serves connections as ZooKeeper does up to a login, which it refuses. Returns its port.
fn server_that_refuses_logins() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client may leave at any time.
            let _ = stream.and_then(refuse_login);
        }
    });
    port
}

fn refuse_login(mut stream: TcpStream) -> std::io::Result<()> {
    let hello = receive(&mut stream)?;
    let asked = i32::from_be_bytes(hello[12..16].try_into().unwrap());
    let mut welcome = 0_i32.to_be_bytes().to_vec();
    welcome.extend(asked.clamp(4_000, 40_000).to_be_bytes());
    welcome.extend(7_i64.to_be_bytes());
    welcome.extend(16_i32.to_be_bytes());
    welcome.extend([0; 17]);
    send(&mut stream, &welcome)?;
    let login = receive(&mut stream)?;
    let number = (-4_i32).to_be_bytes();
    assert_eq!(login[..4], number);
    let mut refusal = number.to_vec();
    refusal.extend(0_i64.to_be_bytes());
    refusal.extend((-115_i32).to_be_bytes());
    send(&mut stream, &refusal)?;
    // Closing it before everything is read would take the refusal back.
    std::io::copy(&mut stream, &mut std::io::sink()).map(drop)
}

fn receive(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; i32::from_be_bytes(length) as usize];
    stream.read_exact(&mut message).map(|()| message)
}

fn send(stream: &mut TcpStream, message: &[u8]) -> std::io::Result<()> {
    stream.write_all(&(message.len() as i32).to_be_bytes())?;
    stream.write_all(message)
}

#[tokio::test]
async fn refused_login_is_reported() {
    let port = server_that_refuses_logins();
    let config = Config::from(format!("zookeeper://127.0.0.1:{port}")).credentials("me", SECRET);
    let (error, text) = refusal(config, SECRET).await;
    assert!(error.is_unavailable(), "{error}");
    assert!(text.contains("refuses the login; check user"), "{text}");
}

#[tokio::test]
async fn ttl_longer_than_any_session_is_refused() {
    let zookeeper = ZooKeeper::start();
    let config = patient(zookeeper.url()).ttl(Duration::from_secs(61));
    let (error, text) = refusal(config, SECRET).await;
    assert!(matches!(error, LockError::InvalidConfig { .. }), "{error}");
    assert!(text.contains("maxSessionTimeout"), "{text}");
    let locks = connected(patient(zookeeper.url())).await;
    let lock = locks.lock("row").ttl(Duration::from_secs(61));
    let error = lock.acquire().await.unwrap_err();
    assert!(
        matches!(error, LockError::InvalidOption { option: "ttl", .. }),
        "{error}"
    );
    let error = locks.lock("row").replicas(1).acquire().await.unwrap_err();
    assert!(
        matches!(
            error,
            LockError::Unsupported {
                operation: "replicas",
                ..
            }
        ),
        "{error}"
    );
    let error = locks.lock("x".repeat(9000)).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
    locks.shutdown().await;
}

#[tokio::test]
async fn call_during_outage_fails_in_time() {
    let mut zookeeper = ZooKeeper::start();
    let config = Config::from(zookeeper.url()).command_timeout(millis(300));
    let locks = connected(config.connect_timeout(millis(5000))).await;
    zookeeper.pause(0);
    let watch = Stopwatch::start();
    let error = locks.lock("row").try_acquire().await.unwrap_err();
    assert!(
        error.is_unavailable() && watch.elapsed() < millis(300) + NOISE,
        "{error}"
    );
    let wait = locks.lock("row").wait(millis(600)).acquire();
    let error = within(millis(600) + NOISE, wait).await.unwrap_err();
    assert!(
        error.is_unavailable() && error.key() == Some("row"),
        "{error}"
    );
    zookeeper.resume(0);
    let guard = locks
        .lock("row")
        .wait(millis(20_000))
        .acquire()
        .await
        .unwrap();
    guard.release().await.unwrap();
    locks.shutdown().await;
}

#[tokio::test]
async fn warnings_name_what_is_unsafe() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let warnings = locks.check_servers().await;
    let text: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let text = text.join("\n");
    assert!(
        text.contains("access control") && text.contains("single server"),
        "{text}"
    );
    locks.shutdown().await;
    let strict = patient(zookeeper.url()).refuse_unsafe_servers(true);
    let error = LockManager::connect(strict).await.unwrap_err();
    assert!(matches!(error, LockError::UnsafeServer { .. }), "{error}");
}
