//! A process's subscription, parsed by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use lock_test_support::server::Server;

pub struct Subscription {
    stream: BufReader<UnixStream>,
}

impl Subscription {
    pub fn open(server: &Server, channels: &[String]) -> Self {
        let stream = UnixStream::connect(server.socket()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut subscription = Self {
            stream: BufReader::new(stream),
        };
        subscription.send(&format!("SUBSCRIBE {}", channels.join(" ")));
        for _ in channels {
            assert_eq!(subscription.frame()[0], "subscribe");
        }
        subscription
    }

    /// Returns all messages published so far in order, each with its channel.
    pub fn heard(&mut self) -> Vec<(String, String)> {
        self.send("PING");
        let mut heard = Vec::new();
        loop {
            match &self.frame()[..] {
                [kind, channel, text] if kind == "message" => {
                    heard.push((channel.clone(), text.clone()));
                }
                _ => return heard,
            }
        }
    }

    fn send(&mut self, command: &str) {
        let stream = self.stream.get_mut();
        stream
            .write_all(format!("{command}\r\n").as_bytes())
            .unwrap();
    }

    /// Reads an array of strings; numbers in it are skipped.
    fn frame(&mut self) -> Vec<String> {
        let parts = self.number();
        (0..parts).filter_map(|_| self.text()).collect()
    }

    fn text(&mut self) -> Option<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let length: usize = line.strip_prefix('$')?.trim_end().parse().unwrap();
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes.truncate(length);
        Some(String::from_utf8(bytes).unwrap())
    }

    fn number(&mut self) -> usize {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().trim_start_matches('*').parse().unwrap()
    }
}
