//! A proxy that refuses some commands and passes the others to a server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

pub struct Refusing {
    port: u16,
    refusal: Arc<Refusal>,
}

struct Refusal {
    command: &'static str,
    error: &'static str,
    /// The number of times that the command is still refused.
    left: AtomicUsize,
    carried_out: AtomicUsize,
}

impl Refusing {
    /// Refuses commands that begin with `command`, `times` times, with `error`.
    pub fn to(server: u16, command: &'static str, error: &'static str, times: usize) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let refusal = Arc::new(Refusal {
            command,
            error,
            left: AtomicUsize::new(times),
            carried_out: AtomicUsize::new(0),
        });
        let theirs = refusal.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || copy(from, to));
                let refusal = theirs.clone();
                thread::spawn(move || refusal.pass_on(client, server));
            }
        });
        Self { port, refusal }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns how often the command was passed on.
    pub fn carried_out(&self) -> usize {
        self.refusal.carried_out.load(Relaxed)
    }

    pub fn refuse(&self, times: usize) {
        self.refusal.left.store(times, Relaxed);
    }
}

impl Refusal {
    fn pass_on(&self, mut client: TcpStream, mut server: TcpStream) {
        let mut requests = Vec::new();
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            requests.extend_from_slice(&bytes[..count]);
            while let Some((words, length)) = request(&requests) {
                let request: Vec<_> = requests.drain(..length).collect();
                let meant = words.join(" ").to_uppercase().starts_with(self.command);
                let less = |left: usize| left.checked_sub(1);
                let passed = if meant && self.left.fetch_update(Relaxed, Relaxed, less).is_ok() {
                    self.refusal()
                } else {
                    self.carried_out.fetch_add(usize::from(meant), Relaxed);
                    request
                };
                if server.write_all(&passed).is_err() {
                    return;
                }
            }
        }
        let _ = server.shutdown(Shutdown::Both);
    }

    /// Returns a request to which the server replies with the error, so that all replies stay in order.
    fn refusal(&self) -> Vec<u8> {
        let script = "return redis.error_reply(ARGV[1])";
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(0).arg(self.error);
        command.get_packed_command()
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

/// Returns the words of the first request and its length in bytes, if it is complete.
fn request(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let line = |at: usize| {
        let end = bytes[at..].windows(2).position(|it| it == b"\r\n")?;
        let number = std::str::from_utf8(&bytes[at + 1..at + end]).ok()?;
        Some((number.parse::<usize>().ok()?, at + end + 2))
    };
    let (count, mut at) = line(0)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, start) = line(at)?;
        let word = bytes.get(start..start + length)?;
        words.push(String::from_utf8_lossy(word).into_owned());
        at = start + length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}
