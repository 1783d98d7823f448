//! `locks serve`.

use crate::program::{hold, locks};
use lock_test_support::server::Server;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// Ends with the test.
struct Serving {
    process: Child,
    address: String,
}

impl Serving {
    fn start(url: &str) -> Serving {
        let mut process = locks(url, "serve", &[])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let printed = process.stdout.take().unwrap();
        BufReader::new(printed).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap();
        let address = address.strip_suffix('/').unwrap().to_owned();
        Serving { process, address }
    }

    /// Sends a request, and returns the response.
    fn send(&self, request: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let headers = format!("host: {host}\r\nconnection: close\r\n");
        write!(stream, "{request} HTTP/1.1\r\n{headers}\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn serve_shows_the_locks_to_this_machine_alone() {
    let server = Server::start();
    let mut holder = hold(&server, "order:42");
    let serving = Serving::start(&server.url());
    assert!(serving.address.starts_with("127.0.0.1:"));
    let page = serving.send("GET /", &serving.address);
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    assert!(page.contains("order:42"), "{page}");
    assert!(page.contains("Read-only"), "{page}");
    let refused = serving.send("POST /revoke", &serving.address);
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    // The name of a site that resolves to 127.0.0.1.
    let port = serving.address.rsplit(':').next().unwrap();
    let other = serving.send("GET /", &format!("evil.example:{port}"));
    assert!(other.starts_with("HTTP/1.1 421 "), "{other}");
    assert!(!other.contains("order:42"), "{other}");
    holder.order("end");
    holder.succeeds();
}
