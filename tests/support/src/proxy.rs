//! A TCP proxy in front of a server that injects network faults on demand.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::Duration;

use crate::resp::Frames;
use crate::rng::Rng;

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
    refused: usize,
    /// The next connection is accepted and never answered.
    swallows: bool,
    swallowed: Vec<TcpStream>,
    holds_requests: bool,
    holds_replies: bool,
    /// Holds the replication stream to the server's replicas.
    holds_copies: bool,
    /// Holds the connections whose first request contains these words.
    holds_from: Option<String>,
    /// What the clients have sent on each connection, if that is recorded.
    recorded: Option<Vec<Vec<u8>>>,
    /// How often the client of each connection sent something after a reply, and whether a reply has come
    /// since.
    round_trips: Vec<(usize, bool)>,
    /// How often requests and replies were held.
    held: [usize; 2],
    loses_reply: bool,
    lost_replies: usize,
    /// If set, the proxy parses the server's output and drops this percentage of its messages.
    loses_messages: Option<(u64, Rng)>,
    lost_messages: usize,
    /// The delays of requests and of replies.
    delays: [Duration; 2],
    /// The streams, each with the number of its connection.
    streams: Vec<(usize, TcpStream)>,
    connections: usize,
    /// Connections with numbers below this carry nothing any more.
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

    /// Records what clients send.
    pub fn recording(server: u16) -> Self {
        let state = State {
            recorded: Some(Vec::new()),
            ..State::default()
        };
        Self::with(server, state)
    }

    /// Loses `percent` of the messages that the server pushes, and nothing else.
    pub fn losing_messages(server: u16, percent: u64) -> Self {
        let loses_messages = Some((percent, Rng::random()));
        let state = State {
            loses_messages,
            ..State::default()
        };
        Self::with(server, state)
    }

    /// Parses the server's output, so that messages can be lost later.
    pub fn reading(server: u16) -> Self {
        Self::at(0, server).unwrap()
    }

    /// Like [`reading`](Self::reading), on a given port. Fails if another program uses it.
    pub fn at(port: u16, server: u16) -> std::io::Result<Self> {
        let state = State {
            loses_messages: Some((0, Rng::with(u64::from(server)))),
            ..State::default()
        };
        Self::on(port, server, state)
    }

    /// Like [`to`](Self::to), on a given port. Fails if another program uses it.
    pub fn carrying(port: u16, server: u16) -> std::io::Result<Self> {
        Self::on(port, server, State::default())
    }

    fn with(server: u16, state: State) -> Self {
        Self::on(0, server, state).unwrap()
    }

    fn on(port: u16, server: u16, state: State) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let port = listener.local_addr()?.port();
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
        Ok(Self { port, network })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Breaks every connection, and every new one at once.
    pub fn cut(&self) {
        self.network.set(|state| {
            state.refuses = true;
            state.close_all();
        });
    }

    /// Breaks every connection. Accepts the next one and never answers it; those after it work.
    pub fn swallow_next_connection(&self) {
        self.network.set(|state| {
            state.swallows = true;
            state.close_all();
        });
    }

    /// Accepts one more connection and never answers it; those after it work.
    pub fn swallow_one_more_connection(&self) {
        self.network.set(|state| state.swallows = true);
    }

    /// Returns the number of connections that were never answered.
    pub fn swallowed(&self) -> usize {
        self.network.state().swallowed.len()
    }

    /// Stops all traffic in both directions, without closing connections.
    pub fn black_hole(&self) {
        self.network.set(|state| {
            state.holds_requests = true;
            state.holds_replies = true;
        });
    }

    /// Holds requests; replies to earlier ones still arrive.
    pub fn hold_requests(&self) {
        self.network.set(|state| state.holds_requests = true);
    }

    /// Holds replies; requests still arrive.
    pub fn hold_replies(&self) {
        self.network.set(|state| state.holds_replies = true);
    }

    /// Holds the traffic to replicas only.
    pub fn hold_copies(&self) {
        self.network.set(|state| state.holds_copies = true);
    }

    /// Stops the traffic of all connections whose first request contains these words, without closing them.
    pub fn hold_from(&self, words: &str) {
        let words = words.to_owned();
        self.network.set(|state| state.holds_from = Some(words));
    }

    /// Stops all traffic on the present connections, without closing them; new ones work.
    pub fn strand(&self) {
        self.network.set(|state| state.stranded = state.connections);
    }

    /// Delays every packet.
    pub fn delay(&self, delay: Duration) {
        self.network.set(|state| state.delays = [delay; 2]);
    }

    /// Delays requests only.
    pub fn delay_requests(&self, delay: Duration) {
        self.network
            .set(|state| state.delays = [delay, Duration::ZERO]);
    }

    /// Delays replies only.
    pub fn delay_replies(&self, delay: Duration) {
        self.network
            .set(|state| state.delays = [Duration::ZERO, delay]);
    }

    /// Loses `percent` of the messages that the server pushes from now on, if the proxy parses its output.
    pub fn lose_messages(&self, percent: u64) {
        self.network.set(|state| state.lose_messages(percent));
    }

    /// Ends all faults; held traffic arrives late.
    pub fn heal(&self) {
        self.network.set(|state| {
            state.refuses = false;
            state.holds_requests = false;
            state.holds_replies = false;
            state.holds_copies = false;
            state.holds_from = None;
            state.loses_reply = false;
            state.stranded = 0;
            state.delays = Default::default();
            state.lose_messages(0);
        });
    }

    /// Breaks the connection between the next request and its reply.
    pub fn lose_next_reply(&self) {
        self.network.set(|state| state.loses_reply = true);
    }

    /// Breaks the connections whose replies are held, which loses the replies.
    pub fn lose_held_replies(&self) {
        self.network.set(|state| {
            state.loses_reply = true;
            state.holds_replies = false;
        });
    }

    /// Lets held replies pass; held requests stay.
    pub fn pass_replies(&self) {
        self.network.set(|state| state.holds_replies = false);
    }

    /// Lets held requests pass; held replies stay.
    pub fn pass_requests(&self) {
        self.network.set(|state| state.holds_requests = false);
    }

    /// Returns what the clients have sent on each connection, if that is recorded.
    pub fn recorded(&self) -> Vec<Vec<u8>> {
        self.network.state().recorded.clone().unwrap_or_default()
    }

    /// Returns the number of connections that were made.
    pub fn connections(&self) -> usize {
        self.network.state().connections
    }

    /// Returns how often clients have sent these words, if that is recorded.
    pub fn sent(&self, words: &str) -> usize {
        let bytes = self.recorded().concat();
        let parts = bytes.windows(words.len());
        parts.filter(|part| *part == words.as_bytes()).count()
    }

    /// Returns the number of connections whose last request has reached the server or been lost.
    pub fn ended(&self) -> usize {
        self.network.state().ended
    }

    /// Returns how often the client of each connection sent something after it had received a reply: once for
    /// each round trip, if replies are delayed.
    pub fn round_trips(&self) -> Vec<usize> {
        let state = self.network.state();
        state.round_trips.iter().map(|(trips, _)| *trips).collect()
    }

    /// Returns how often requests were held.
    pub fn held(&self) -> usize {
        self.network.state().held[Way::Requests as usize]
    }

    /// Returns how often replies were held.
    pub fn held_replies(&self) -> usize {
        self.network.state().held[Way::Replies as usize]
    }

    /// Returns the number of connections that were broken at once.
    pub fn refused(&self) -> usize {
        self.network.state().refused
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
        // This connection wakes the listener, which then sees the flag and ends.
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
            state.refused += 1;
            return;
        }
        if std::mem::take(&mut state.swallows) {
            state.swallowed.push(client.try_clone().unwrap());
            return;
        }
        let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
            return;
        };
        let number = state.connections;
        state.connections += 1;
        let (copies, first) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
        for (from, to, way) in [
            (client, &server, Way::Requests),
            (&server, client, Way::Replies),
        ] {
            from.set_nodelay(true).unwrap();
            state.streams.push((number, from.try_clone().unwrap()));
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let (network, copies, first) = (self.clone(), copies.clone(), first.clone());
            thread::spawn(move || {
                network.carry(&from, &to, way, number, &copies, &first);
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

    /// Copies one direction of a connection. The replication stream to a replica is not parsed as replies.
    fn carry(
        &self,
        mut from: &TcpStream,
        mut to: &TcpStream,
        way: Way,
        number: usize,
        copies: &AtomicBool,
        first: &OnceLock<String>,
    ) {
        let mut bytes = [0; 16 * 1024];
        let mut frames = Frames::default();
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            if way == Way::Requests && is_of_a_copy(&bytes[..n]) {
                copies.store(true, Relaxed);
            }
            if way == Way::Requests {
                first.get_or_init(|| String::from_utf8_lossy(&bytes[..n]).into_owned());
            }
            let is_copied = copies.load(Relaxed);
            let holds = |state: &mut State| {
                let words = state.holds_from.as_deref();
                let is_held = |first: &String| words.is_some_and(|words| first.contains(words));
                let held = state.holds(way)
                    || (is_copied && state.holds_copies)
                    || first.get().is_some_and(is_held);
                !state.closed && (held || number < state.stranded)
            };
            let mut state = self.state();
            if way == Way::Requests {
                let needed = state.round_trips.len().max(number + 1);
                state.round_trips.resize(needed, (0, true));
                let (trips, answered) = &mut state.round_trips[number];
                *trips += usize::from(std::mem::take(answered));
            }
            state.held[way as usize] += usize::from(holds(&mut state));
            let mut state = self.changed.wait_while(state, holds).unwrap();
            if way == Way::Requests
                && let Some(recorded) = &mut state.recorded
            {
                recorded.resize(recorded.len().max(number + 1), Vec::new());
                recorded[number].extend(&bytes[..n]);
            }
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
            if way == Way::Replies
                && let Some((_, answered)) = self.state().round_trips.get_mut(number)
            {
                *answered = true;
            }
        }
    }
}

/// Returns `true` if the request comes from a replica that requests a copy of the data.
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

    /// Returns the bytes without the lost messages, or `None` if the proxy does not parse them.
    fn read(&mut self, frames: &mut Frames, bytes: &[u8]) -> Option<Vec<u8>> {
        let (percent, rng) = self.loses_messages.as_mut()?;
        let lost = &mut self.lost_messages;
        Some(frames.pass(bytes, || {
            let passes = rng.below(100) >= *percent;
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
