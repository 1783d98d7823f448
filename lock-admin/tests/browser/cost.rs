//! What the page asks of a lock server.

use crate::service::Service;
use lock_admin::Admin;
use lock_runtime::{Config, LockManager, Report};
use lock_test_support::server::Server;
use lock_test_support::time::eventually;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Returns how many commands the server has carried out, without those that ask for it.
fn commands(server: &Server) -> u64 {
    let total = server.info("INFO stats", "total_commands_processed");
    total.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_while_nobody_looks() {
    let server = Server::start();
    let config = Config::new(server.url()).report(Report::Off);
    let locks = LockManager::connect(config).await.unwrap();
    let service = Service::start(&Admin::new(locks.clone())).await;
    let address = service.address.to_string();
    let watch = || {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(
            stream,
            "GET /tools/locks/events HTTP/1.1\r\nhost: {address}\r\n\r\n"
        )
        .unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        // It is looked at until the first event.
        assert!(lines.any(|line| line.unwrap().starts_with("data: ")));
        stream
    };
    let before = commands(&server);
    let of_measuring = commands(&server) - before;
    let streams = [watch(), watch(), watch()];
    assert!(commands(&server) > before + 2 * of_measuring);
    drop(streams);
    // The last look ends, and then there is none.
    eventually("none looks", || {
        let before = commands(&server);
        std::thread::sleep(Duration::from_millis(2500));
        commands(&server) == before + of_measuring
    });
}
