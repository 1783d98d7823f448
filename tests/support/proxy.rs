//! A TCP proxy in front of a server, through which a network goes wrong on demand.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use super::dice::Dice;
use super::resp::Frames;

pub struct Proxy {
    port: u16,
    network: Arc<Network>,
}

struct Network {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    closed: bool,
    refuses: bool,
    holds_requests: bool,
    holds_replies: bool,
    /// What a server tells those that copy it.
    holds_copies: bool,
    loses_reply: bool,
    lost_replies: usize,
    /// What comes from the server is read, and of its messages so many in a hundred are lost.
    loses_messages: Option<(u64, Dice)>,
    lost_messages: usize,
    /// Of requests and of replies.
    delays: [Duration; 2],
    /// By the numbers of their connections.
    streams: Vec<(usize, TcpStream)>,
    connections: usize,
    /// So many of the first ones carry nothing any more.
    stranded: usize,
    ended: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Requests,
    Replies,
}

impl Proxy {
    pub fn to(server: u16) -> Self {
        Self::with(server, State::default())
    }

    /// Loses so many in a hundred of the messages that the server pushes, and nothing else.
    pub fn losing_messages(server: u16, percent: u64) -> Self {
        let loses_messages = Some((percent, Dice::new()));
        let state = State {
            loses_messages,
            ..State::default()
        };
        Self::with(server, state)
    }

    /// Reads what comes from the server, so that messages can get lost later.
    pub fn reading(server: u16) -> Self {
        Self::at(0, server)
    }

    /// The same, on that port.
    pub fn at(port: u16, server: u16) -> Self {
        let state = State {
            loses_messages: Some((0, Dice::with(u64::from(server)))),
            ..State::default()
        };
        Self::on(port, server, state)
    }

    fn with(server: u16, state: State) -> Self {
        Self::on(0, server, state)
    }

    fn on(port: u16, server: u16, state: State) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let network = Arc::new(Network {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let theirs = network.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if theirs.state().closed {
                    break;
                }
                theirs.join(&client, server);
            }
        });
        Self { port, network }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Breaks every connection and lets no new one last.
    pub fn cut(&self) {
        self.network.set(|state| {
            state.refuses = true;
            state.close_all();
        });
    }

    /// Nothing more goes either way, and nobody is told.
    pub fn black_hole(&self) {
        self.network.set(|state| {
            state.holds_requests = true;
            state.holds_replies = true;
        });
    }

    /// Requests don't arrive, and replies to what was asked before do.
    pub fn hold_requests(&self) {
        self.network.set(|state| state.holds_requests = true);
    }

    /// Requests arrive, their replies don't.
    pub fn hold_replies(&self) {
        self.network.set(|state| state.holds_replies = true);
    }

    /// Those that copy the server hear nothing of it, everybody else does.
    pub fn hold_copies(&self) {
        self.network.set(|state| state.holds_copies = true);
    }

    /// The present connections carry nothing any more, and nobody is told; new ones work.
    pub fn strand(&self) {
        self.network.set(|state| state.stranded = state.connections);
    }

    /// Every packet takes that much longer.
    pub fn delay(&self, delay: Duration) {
        self.network.set(|state| state.delays = [delay; 2]);
    }

    /// Only what goes to the server does.
    pub fn delay_requests(&self, delay: Duration) {
        self.network
            .set(|state| state.delays = [delay, Duration::ZERO]);
    }

    /// Only what comes from the server does.
    pub fn delay_replies(&self, delay: Duration) {
        self.network
            .set(|state| state.delays = [Duration::ZERO, delay]);
    }

    /// Of the messages that the server pushes so many in a hundred get lost from now on, if it reads them.
    pub fn lose_messages(&self, percent: u64) {
        self.network.set(|state| state.lose_messages(percent));
    }

    /// What was held arrives, late, and all is well again.
    pub fn heal(&self) {
        self.network.set(|state| {
            state.refuses = false;
            state.holds_requests = false;
            state.holds_replies = false;
            state.holds_copies = false;
            state.loses_reply = false;
            state.stranded = 0;
            state.delays = Default::default();
            state.lose_messages(0);
        });
    }

    /// The connection breaks between the next request and its reply.
    pub fn lose_next_reply(&self) {
        self.network.set(|state| state.loses_reply = true);
    }

    /// The connections whose replies were held break, and the replies are lost.
    pub fn lose_held_replies(&self) {
        self.network.set(|state| {
            state.loses_reply = true;
            state.holds_replies = false;
        });
    }

    /// Connections whose last request has been carried to the server, or lost.
    pub fn ended(&self) -> usize {
        self.network.state().ended
    }

    pub fn lost_replies(&self) -> usize {
        self.network.state().lost_replies
    }

    pub fn lost_messages(&self) -> usize {
        self.network.state().lost_messages
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.set(|state| {
            state.closed = true;
            state.close_all();
        });
        // The listener wakes up, sees it and ends.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Network {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    fn join(self: &Arc<Self>, client: &TcpStream, server: u16) {
        let mut state = self.state();
        if state.refuses {
            return;
        }
        let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
            return;
        };
        let number = state.connections;
        state.connections += 1;
        let copies = Arc::new(AtomicBool::new(false));
        for (from, to, way) in [
            (client, &server, Way::Requests),
            (&server, client, Way::Replies),
        ] {
            from.set_nodelay(true).unwrap();
            state.streams.push((number, from.try_clone().unwrap()));
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let (network, copies) = (self.clone(), copies.clone());
            thread::spawn(move || {
                network.carry(&from, &to, way, number, &copies);
                let mut state = network.state();
                if way == Way::Requests {
                    state.ended += 1;
                }
                state.streams.retain(|(other, _)| *other != number);
                drop(state);
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    }

    /// What comes from a server for its copy is no replies.
    fn carry(
        &self,
        mut from: &TcpStream,
        mut to: &TcpStream,
        way: Way,
        number: usize,
        copies: &AtomicBool,
    ) {
        let mut bytes = [0; 16 * 1024];
        let mut frames = Frames::default();
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            if way == Way::Requests && is_of_a_copy(&bytes[..n]) {
                copies.store(true, Relaxed);
            }
            let is_copied = copies.load(Relaxed);
            let holds = |state: &mut State| {
                let held = state.holds(way) || (is_copied && state.holds_copies);
                !state.closed && (held || number < state.stranded)
            };
            let mut state = self.changed.wait_while(self.state(), holds).unwrap();
            if way == Way::Replies && std::mem::take(&mut state.loses_reply) {
                state.lost_replies += 1;
                return;
            }
            let delay = state.delays[way as usize];
            let passed = match way {
                Way::Replies if !is_copied => state.read(&mut frames, &bytes[..n]),
                _ => None,
            };
            drop(state);
            thread::sleep(delay);
            if to
                .write_all(passed.as_deref().unwrap_or(&bytes[..n]))
                .is_err()
            {
                return;
            }
        }
    }
}

/// Whether a server asks for all that another one has.
fn is_of_a_copy(request: &[u8]) -> bool {
    request.starts_with(b"*3\r\n$8\r\nREPLCONF\r\n")
}

impl State {
    fn holds(&self, way: Way) -> bool {
        match way {
            Way::Requests => self.holds_requests,
            Way::Replies => self.holds_replies,
        }
    }

    /// What is left of it, if it's to be read.
    fn read(&mut self, frames: &mut Frames, bytes: &[u8]) -> Option<Vec<u8>> {
        let (percent, dice) = self.loses_messages.as_mut()?;
        let lost = &mut self.lost_messages;
        Some(frames.pass(bytes, || {
            let passes = dice.roll(100) >= *percent;
            *lost += usize::from(!passes);
            passes
        }))
    }

    fn lose_messages(&mut self, percent: u64) {
        if let Some((lost, _)) = &mut self.loses_messages {
            *lost = percent;
        }
    }

    fn close_all(&mut self) {
        for (_, stream) in self.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
