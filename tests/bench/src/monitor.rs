//! Counts the server's commands with `MONITOR`. That slows the server down, so nothing is timed meanwhile.

use crate::server::Server;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Commands that clients sent. A script counts once.
    pub sent: u64,
    /// Commands that scripts carried out.
    pub within: u64,
}

pub struct Monitor<'s> {
    server: &'s Server,
    listener: JoinHandle<Counts>,
}

const END: &str = "the-monitor-may-stop";

impl<'s> Monitor<'s> {
    pub fn start(server: &'s Server) -> Monitor<'s> {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "+OK");
        let listener = std::thread::spawn(move || {
            let mut counts = Counts::default();
            for line in lines {
                let line = line.unwrap();
                if line.contains(END) {
                    break;
                }
                match line.contains(" lua] ") {
                    true => counts.within += 1,
                    false => counts.sent += 1,
                }
            }
            counts
        });
        Monitor { server, listener }
    }

    /// Returns the counts since the start.
    pub fn stop(self) -> Counts {
        let mut connection = self.server.connect();
        redis::cmd("ECHO").arg(END).exec(&mut connection).unwrap();
        let mut counts = self.listener.join().unwrap();
        // Without the greetings of that connection.
        counts.sent = counts.sent.saturating_sub(GREETINGS);
        counts
    }
}

/// `CLIENT SETINFO`, twice.
const GREETINGS: u64 = 2;
