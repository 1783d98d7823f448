//! A proxy that delays all traffic, as a network does.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Stops when dropped.
pub struct Delay {
    port: u16,
    stopped: Arc<AtomicBool>,
}

type Packet = (Instant, Vec<u8>);

impl Delay {
    /// Delays requests and replies by half of `round_trip` each.
    pub fn start(server: u16, round_trip: Duration) -> Delay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stopped = Arc::new(AtomicBool::new(false));
        let stops = stopped.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if stops.load(Ordering::Relaxed) {
                    break;
                }
                join(client, server, round_trip / 2).unwrap();
            }
        });
        Delay { port, stopped }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // This connection wakes the listener, which then sees the flag and ends.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn join(client: TcpStream, server: u16, delay: Duration) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server))?;
    for (from, to) in [(&client, &server), (&server, &client)] {
        to.set_nodelay(true)?;
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        let (sender, receiver) = channel();
        thread::spawn(move || read(from, delay, &sender));
        thread::spawn(move || write(to, &receiver));
    }
    Ok(())
}

fn read(mut from: TcpStream, delay: Duration, packets: &Sender<Packet>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        let packet = (Instant::now() + delay, bytes[..n].to_vec());
        if packets.send(packet).is_err() {
            break;
        }
    }
}

fn write(mut to: TcpStream, packets: &Receiver<Packet>) {
    for (due, bytes) in packets {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
