//! Users and their nodes; and what is unsafe without them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use lock_runtime::{Config, LockError, LockManager};

use lock_test_support::manager::{connected, refusal};
use lock_test_support::time::{eventually, patient, soon};
use lock_test_support::zookeeper::ZooKeeper;

const SECRET: &str = "correct-horse";

/// User and password may be in the URL, or in the configuration.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_belong_to_their_user() {
    let zookeeper = ZooKeeper::start();
    let url = zookeeper.url().replace("://", "://me:correct%2Dhorse@");
    let config = Config::from(zookeeper.url()).credentials("me", SECRET);
    let (one, other) = (
        connected(patient(config)).await,
        connected(patient(&*url)).await,
    );
    let guard = one.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").acquire());
    let mut user = zookeeper.client();
    user.login(&format!("me:{SECRET}")).unwrap();
    eventually("it waits", || user.children("/lock/row").len() == 2);
    let mut stranger = zookeeper.client();
    assert!(stranger.children("/lock/row").is_empty());
    for claim in user.children("/lock/row") {
        let path = format!("/lock/row/{claim}");
        assert!(!stranger.delete(&path), "a stranger has deleted a claim");
    }
    assert!(guard.is_valid() && !waiter.is_finished());
    let warnings = one.check_servers().await;
    assert!(
        !warnings
            .iter()
            .any(|warning| warning.to_string().contains("access control")),
        "{warnings:?}"
    );
    guard.release().await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
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

/// A server may serve only those that have logged in.
#[tokio::test]
async fn an_enforced_login_is_named_with_what_to_configure() {
    let options = "enforce.auth.enabled=true\nenforce.auth.schemes=digest";
    let zookeeper = ZooKeeper::with(1, options);
    let (error, text) = refusal(zookeeper.url(), SECRET).await;
    let is_refused = matches!(error, LockError::InvalidConfig { .. });
    assert!(is_refused, "{error:?}");
    assert!(
        text.contains("enforces a login; set user and password"),
        "{text}"
    );
    let config = Config::from(zookeeper.url()).credentials("me", SECRET);
    let locks = connected(patient(config)).await;
    locks.lock("row").run(async |_| ()).await.unwrap();
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
