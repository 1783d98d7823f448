//! The page at a path of a service, in axum and in actix.

use crate::service::Service;
use actix_web::dev::{Service as _, ServiceRequest};
use actix_web::{App, HttpMessage, HttpServer};
use lock_admin::{Admin, Operator};
use lock_runtime::LockManager;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Sends a request for a path of the page, and returns the response.
fn send(at: &str, request: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    let form = "content-type: application/x-www-form-urlencoded\r\nsec-fetch-site: same-origin";
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n{form}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut response = String::new();
    // What is refused may be cut off.
    let _ = stream.read_to_string(&mut response);
    response
}

/// Reads events until one tells something.
fn watch(at: &str, path: &str) {
    let mut stream = TcpStream::connect(at).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {at}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("data: ")));
}

/// Checks a page at `/tools/locks` that `ann` looks at, where `order:42` is held.
fn is_mounted(at: &str) {
    let moved = send(at, "GET /tools/locks", "");
    assert!(moved.starts_with("HTTP/1.1 308 "), "{moved}");
    assert!(moved.contains("location: ./locks/overview\r\n"), "{moved}");
    for path in ["/tools/locks/", "/tools/locks/overview"] {
        let page = send(at, &format!("GET {path}"), "");
        assert!(page.starts_with("HTTP/1.1 200 "), "{path}: {page}");
    }
    let page = send(at, "GET /tools/locks/overview", "");
    assert!(page.contains("You may revoke, as ann"), "{page}");
    assert!(page.contains("cache-control: no-store\r\n"), "{page}");
    let script = page.split("<script src=\"").nth(1).unwrap();
    let script = script.split('"').next().unwrap();
    let script = send(at, &format!("GET /tools/locks/{script}"), "");
    assert!(script.contains("immutable"), "{script}");
    let lock = send(at, "GET /tools/locks/lock?key=order%3A42", "");
    assert!(lock.contains("<form"), "{lock}");
    let json = send(at, "GET /tools/locks/state.json", "");
    assert!(json.contains("\"key\":\"order:42\""), "{json}");
    let seen = lock.split("name=\"seen\" value=\"").nth(1).unwrap();
    let seen = seen.split('"').next().unwrap();
    let stale = format!("key=order%3A42&holder=another&seen={seen}&reason=stuck");
    let stale = send(at, "POST /tools/locks/revoke", &stale);
    assert!(stale.starts_with("HTTP/1.1 409 "), "{stale}");
    let long = send(at, "POST /tools/locks/revoke", &"a".repeat(20_000));
    assert!(
        long.is_empty() || long.starts_with("HTTP/1.1 413 "),
        "{long}"
    );
    let nothing = send(at, "GET /tools/locks/nothing", "");
    assert!(nothing.starts_with("HTTP/1.1 404 "), "{nothing}");
    watch(at, "/tools/locks/events");
}

fn for_operators(locks: &LockManager) -> Admin {
    Admin::new(locks.clone())
        .allow_revoke(|parts| Some(parts.extensions.get::<Operator>()?.0.clone()))
}

#[tokio::test(flavor = "multi_thread")]
async fn axum_mounts_the_page() {
    let locks = LockManager::connect("memory://").await.unwrap();
    let guard = locks.lock("order:42").acquire().await.unwrap();
    let service = Service::start(&for_operators(&locks)).await;
    let at = service.address.to_string();
    tokio::task::spawn_blocking(move || is_mounted(&at))
        .await
        .unwrap();
    guard.release().await.unwrap();
}

#[test]
fn actix_mounts_the_page() {
    for path in ["/tools/locks", "/tools/locks/"] {
        is_mounted_in_actix(path);
    }
}

fn is_mounted_in_actix(path: &'static str) {
    let (told, address) = std::sync::mpsc::channel::<(SocketAddr, _)>();
    let thread = std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let locks = LockManager::connect("memory://").await.unwrap();
            let guard = locks.lock("order:42").acquire().await.unwrap();
            let admin = for_operators(&locks);
            let server = HttpServer::new(move || {
                App::new()
                    .service(admin.actix(path))
                    .wrap_fn(|request: ServiceRequest, next| {
                        request.extensions_mut().insert(Operator("ann".to_owned()));
                        next.call(request)
                    })
            });
            let server = server
                .workers(1)
                .disable_signals()
                .bind("127.0.0.1:0")
                .unwrap();
            let at = server.addrs()[0];
            let server = server.run();
            told.send((at, server.handle())).unwrap();
            server.await.unwrap();
            guard.release().await.unwrap();
        });
    });
    let (at, handle) = address.recv().unwrap();
    let checked = std::panic::catch_unwind(|| is_mounted(&at.to_string()));
    // The stop is under way when this returns; the thread waits for it.
    drop(handle.stop(false));
    thread.join().unwrap();
    checked.unwrap();
}
