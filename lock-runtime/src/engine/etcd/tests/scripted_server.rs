//! A server that speaks as much of etcd's API as a lock needs. It ends no lease.

use crate::config::Config;
use crate::engine::etcd::wire::frames::encode;
use crate::engine::etcd::wire::messages::{
    AlarmResponse, AuthenticateResponse, Compare, Empty, Event, Header, KeepAliveResponse,
    KeyValue, LeaseGrantRequest, LeaseGrantResponse, LeaseRequest, MemberListResponse, Op, OpReply,
    Operand, PutRequest, RangeResponse, ResponseOp, StatusResponse, TxnRequest, TxnResponse,
    WatchCommand, WatchRequest, WatchResponse,
};
use crate::engine::tests::peer::LONG;
use crate::util::clock::Clock;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::header::{HeaderMap, HeaderValue};
use prost::Message;
use prost::bytes::{Buf, Bytes};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

/// How long a slow server takes to grant a lease.
pub(crate) const DELAY: Duration = Duration::from_millis(400);

pub(crate) struct ScriptedServer {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stored: Mutex<Stored>,
    /// Ends all connections.
    cut: Notify,
    /// A key was written to a line.
    entered: Notify,
}

#[derive(Default)]
struct Stored {
    /// In the order of creation.
    keys: Vec<KeyValue>,
    revision: i64,
    /// The length of each lease in seconds.
    leases: Vec<i64>,
    kept_alive: usize,
    /// The watches that have begun, with where their reports go.
    watches: Vec<(i64, mpsc::UnboundedSender<WatchResponse>)>,
    /// The revision from which each watch of the line was to begin.
    starts: Vec<i64>,
    /// The watches of asks.
    asks: Vec<(i64, mpsc::UnboundedSender<WatchResponse>)>,
    /// The other client releases the lock when a claim has entered its line, and watches begin after that.
    releases_first: bool,
    /// The clock of the client, which advances by [`DELAY`] before each lease is granted.
    clock: Option<Clock>,
    /// The history of the first revision is gone.
    is_compacted: bool,
    /// No transaction gets a reply, and one that draws a fencing token ends the connection.
    is_silent: bool,
    /// So many leases are asked for in vain.
    lost_grants: usize,
    /// So many transactions are refused since the users have changed after the login.
    old_tokens: usize,
}

/// The line of the lock `row`, and the key of another client, which holds it.
const LINE: &[u8] = b"lock:row/";
const HOLDER: &[u8] = b"lock:row/0";

impl ScriptedServer {
    pub(crate) async fn start() -> ScriptedServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::<Shared>::default();
        let of_listener = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, of_listener.clone()));
            }
        });
        ScriptedServer { port, shared }
    }

    /// Returns the configuration of a client that waits for replies however busy the machine is.
    pub(crate) fn config(&self) -> Config {
        let config = Config::new(format!("etcd://127.0.0.1:{}", self.port));
        config.connect_timeout(LONG).command_timeout(LONG)
    }

    /// Returns how often a lease has been kept alive.
    pub(crate) fn kept_alive(&self) -> usize {
        self.shared.stored().kept_alive
    }

    /// Has the server reply late when it has granted a lease.
    pub(crate) fn be_slow(&self, clock: Clock) {
        self.shared.stored().clock = Some(clock);
    }

    /// Replies to no request for a lease but those after so many.
    pub(crate) fn lose_grants(&self, count: usize) {
        self.shared.stored().lost_grants = count;
    }

    /// Has another client hold the lock `row`.
    pub(crate) fn hold(&self) {
        self.shared
            .stored()
            .put(Bytes::from_static(HOLDER), Bytes::new(), 0);
    }

    /// Waits until another claim is in line, and ends the hold of the other client.
    pub(crate) async fn release(&self) {
        self.shared.release().await;
    }

    /// Has watches begin only after another claim has entered the line and the other client has released the
    /// lock.
    pub(crate) fn release_before_watches(&self) {
        self.shared.stored().releases_first = true;
    }

    /// Has the server look back on that number of revisions, the first of which may be gone.
    pub(crate) fn have_history(&self, revisions: i64, is_compacted: bool) {
        let mut stored = self.shared.stored();
        (stored.revision, stored.is_compacted) = (revisions, is_compacted);
    }

    /// Returns the revision from which each watch was to begin.
    pub(crate) fn starts(&self) -> Vec<i64> {
        self.shared.stored().starts.clone()
    }

    /// Waits until that number of watches of asks have begun, and returns where the last reports to.
    async fn until_asks(&self, count: usize) -> (i64, mpsc::UnboundedSender<WatchResponse>) {
        loop {
            if let Some(watch) = self.shared.stored().asks.get(count - 1) {
                return watch.clone();
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends the first watch of asks, whose history is gone, and reports that text to the second.
    pub(crate) async fn end_watch_and_ask(&self, text: &'static str) {
        let (watch_id, reports) = self.until_asks(1).await;
        let _ = reports.send(WatchResponse {
            watch_id,
            canceled: true,
            compact_revision: 5,
            ..WatchResponse::default()
        });
        let (watch_id, reports) = self.until_asks(2).await;
        let value = Bytes::from_static(text.as_bytes());
        let written = [(1, Bytes::new()), (0, value)].map(|(kind, value)| Event {
            kind,
            kv: Some(KeyValue {
                value,
                ..KeyValue::default()
            }),
        });
        let _ = reports.send(WatchResponse {
            watch_id,
            events: written.into(),
            ..WatchResponse::default()
        });
    }

    /// Returns the lease of the last claim in the line of `row`.
    pub(crate) fn lease_of_claim(&self) -> i64 {
        let stored = self.shared.stored();
        let line = stored.keys.iter().filter(|kv| kv.key.starts_with(LINE));
        line.last().map_or(0, |kv| kv.lease)
    }

    /// Removes all claims on `row` without a report to any watch.
    pub(crate) fn forget_claims(&self) {
        let mut stored = self.shared.stored();
        stored.keys.retain(|kv| !kv.key.starts_with(LINE));
    }

    /// Refuses so many transactions since the users have changed after the login.
    pub(crate) fn forget_tokens(&self, count: usize) {
        self.shared.stored().old_tokens = count;
    }

    /// Returns how many transactions it is still to refuse.
    pub(crate) fn old_tokens(&self) -> usize {
        self.shared.stored().old_tokens
    }

    /// Replies to no transaction until one draws a fencing token, and then ends the connection.
    pub(crate) fn fall_silent(&self) {
        self.shared.stored().is_silent = true;
    }
}

impl Shared {
    fn stored(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap()
    }

    async fn release(&self) {
        self.entered.notified().await;
        self.stored().delete(&Bytes::from_static(HOLDER));
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(stream).await?;
    let cut = shared.cut.notified();
    let serve = async {
        while let Some(request) = connection.accept().await {
            let (request, respond) = request?;
            tokio::spawn(reply_to(request, respond, shared.clone()));
        }
        Ok(())
    };
    tokio::select! {
        served = serve => served,
        () = cut => Ok(()),
    }
}

async fn reply_to(
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
) -> Result<(), h2::Error> {
    let (head, mut body) = request.into_parts();
    let mut stream = respond.send_response(http::Response::new(()), false)?;
    let method = head.uri.path();
    if method == "/etcdserverpb.Watch/Watch" {
        let (sender, mut reports) = mpsc::unbounded_channel();
        tokio::spawn(take_watches(body, sender, shared));
        while let Some(report) = reports.recv().await {
            stream.send_data(encode(&report), false)?;
        }
        return Ok(());
    }
    let mut request = Vec::new();
    while let Some(chunk) = body.data().await {
        request.extend_from_slice(&chunk?);
    }
    let mut message = &request[..];
    message.advance(5);
    if method == "/etcdserverpb.KV/Txn" && shared.stored().is_silent {
        if message.windows(7).any(|words| words == b"::fence") {
            shared.stored().is_silent = false;
            shared.cut.notify_waiters();
        }
        return pending().await;
    }
    if method == "/etcdserverpb.Lease/LeaseGrant" && shared.stored().loses_grant() {
        return pending().await;
    }
    let mut status = HeaderMap::new();
    if let Some((code, words)) = shared.stored().refusal(method) {
        status.insert("grpc-status", HeaderValue::from_static(code));
        status.insert("grpc-message", HeaderValue::from_static(words));
        return stream.send_trailers(status);
    }
    let reply = shared.reply(method, message);
    let reply = reply.ok_or(Reason::PROTOCOL_ERROR)?;
    stream.send_data(reply, false)?;
    status.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(status)
}

/// Begins the watches that a connection asks for, if they are of the line or of asks. Each of its messages
/// comes in a frame of its own.
async fn take_watches(
    mut body: RecvStream,
    reports: mpsc::UnboundedSender<WatchResponse>,
    shared: Arc<Shared>,
) {
    while let Some(Ok(mut message)) = body.data().await {
        message.advance(5);
        let request = WatchRequest::decode(message).unwrap();
        let Some(WatchCommand::Create(create)) = request.command else {
            continue;
        };
        if create.key != LINE {
            if create.key.ends_with(b"::asks") {
                let mut stored = shared.stored();
                stored.asks.push((create.watch_id, reports.clone()));
            }
            continue;
        }
        shared.stored().starts.push(create.start_revision);
        if shared.stored().releases_first {
            shared.release().await;
        }
        let mut stored = shared.stored();
        let _ = reports.send(WatchResponse {
            header: stored.header(),
            watch_id: create.watch_id,
            created: true,
            ..WatchResponse::default()
        });
        stored.watches.push((create.watch_id, reports.clone()));
    }
}

impl Shared {
    /// Returns the reply to a method that is known.
    fn reply(&self, method: &str, message: &[u8]) -> Option<Bytes> {
        let mut stored = self.stored();
        Some(match method {
            "/etcdserverpb.Lease/LeaseGrant" => {
                let LeaseGrantRequest { ttl } = Message::decode(message).ok()?;
                if let Some(clock) = &stored.clock {
                    clock.advance(DELAY, DELAY);
                }
                stored.leases.push(ttl);
                let id = stored.leases.len() as i64;
                encode(&LeaseGrantResponse { id, ttl })
            }
            "/etcdserverpb.Lease/LeaseKeepAlive" => {
                let LeaseRequest { id } = Message::decode(message).ok()?;
                stored.kept_alive += 1;
                let ttl = stored.leases[id as usize - 1];
                encode(&KeepAliveResponse { ttl })
            }
            "/etcdserverpb.Lease/LeaseRevoke" => encode(&Empty {}),
            "/etcdserverpb.Auth/Authenticate" => encode(&AuthenticateResponse {
                token: "token".to_owned(),
            }),
            "/etcdserverpb.KV/Range" => encode(&RangeResponse {
                header: stored.header(),
                kvs: Vec::new(),
            }),
            "/etcdserverpb.Maintenance/Status" => encode(&StatusResponse {
                version: "3.6.5".to_owned(),
                leader: 1,
                is_learner: false,
            }),
            "/etcdserverpb.Maintenance/Alarm" => encode(&AlarmResponse::default()),
            "/etcdserverpb.Cluster/MemberList" => encode(&MemberListResponse::default()),
            "/etcdserverpb.KV/Txn" => {
                let reply = stored.execute(Message::decode(message).ok()?);
                if stored.has_waiter() {
                    self.entered.notify_one();
                }
                encode(&reply)
            }
            _ => return None,
        })
    }
}

impl Stored {
    fn header(&self) -> Option<Header> {
        let revision = self.revision;
        Some(Header { revision })
    }

    fn loses_grant(&mut self) -> bool {
        let is_lost = self.lost_grants > 0;
        self.lost_grants = self.lost_grants.saturating_sub(1);
        is_lost
    }

    /// Returns the status of a request that is not carried out.
    fn refusal(&mut self, method: &str) -> Option<(&'static str, &'static str)> {
        match method {
            "/etcdserverpb.KV/Range" if self.is_compacted => Some((
                "11",
                "etcdserver: mvcc: required revision has been compacted",
            )),
            "/etcdserverpb.KV/Txn" if self.old_tokens > 0 => {
                self.old_tokens -= 1;
                Some(("3", "etcdserver: revision of auth store is old"))
            }
            _ => None,
        }
    }

    fn execute(&mut self, txn: TxnRequest) -> TxnResponse {
        let succeeded = txn.compare.iter().all(|compare| self.holds(compare));
        let requests = if succeeded { txn.success } else { txn.failure };
        let requests = requests.into_iter().filter_map(|op| op.request);
        let responses = requests.map(|request| {
            let response = match request {
                Op::Put(PutRequest {
                    key, value, lease, ..
                }) => {
                    self.put(key, value, lease);
                    OpReply::Put(Empty {})
                }
                Op::Delete(delete) => {
                    self.delete(&delete.key);
                    OpReply::Delete(Empty {})
                }
                Op::Range(range) => OpReply::Range(RangeResponse {
                    header: None,
                    kvs: self.range(&range.key, &range.range_end),
                }),
                Op::Txn(part) => OpReply::Txn(self.execute(part)),
            };
            let response = Some(response);
            ResponseOp { response }
        });
        let responses = responses.collect();
        TxnResponse {
            header: self.header(),
            succeeded,
            responses,
        }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let keys = self.range(&compare.key, &compare.range_end);
        match &compare.operand {
            Some(Operand::Value(value)) => keys.iter().any(|kv| kv.value == value),
            // There is no such key.
            Some(Operand::CreateRevision(0)) | None => keys.is_empty(),
            Some(Operand::CreateRevision(revision)) => {
                keys.iter().all(|kv| kv.create_revision < *revision)
            }
        }
    }

    /// Returns one key, or the keys up to `end` in the order of their creation.
    fn range(&self, key: &Bytes, end: &Bytes) -> Vec<KeyValue> {
        let within = |kv: &&KeyValue| kv.key == key || kv.key > key && kv.key < end;
        let keys = self.keys.iter().filter(within).cloned();
        keys.collect()
    }

    fn put(&mut self, key: Bytes, value: Bytes, lease: i64) {
        self.revision += 1;
        let known = self.keys.iter_mut().find(|kv| kv.key == key);
        let create_revision = known
            .as_ref()
            .map_or(self.revision, |kv| kv.create_revision);
        let written = KeyValue {
            key,
            create_revision,
            mod_revision: self.revision,
            value,
            lease,
        };
        match known {
            Some(known) => *known = written,
            None => self.keys.push(written),
        }
    }

    /// Deletes a key, and reports that to all watches.
    fn delete(&mut self, key: &Bytes) {
        self.revision += 1;
        self.keys.retain(|kv| kv.key != key);
        for (watch_id, reports) in &self.watches {
            let kv = KeyValue {
                key: key.clone(),
                mod_revision: self.revision,
                ..KeyValue::default()
            };
            let _ = reports.send(WatchResponse {
                watch_id: *watch_id,
                events: vec![Event {
                    kind: 1,
                    kv: Some(kv),
                }],
                ..WatchResponse::default()
            });
        }
    }

    /// Returns `true` if a claim waits for the other client to release the lock.
    fn has_waiter(&self) -> bool {
        let mut line = self.keys.iter().filter(|kv| kv.key.starts_with(LINE));
        line.next().is_some_and(|kv| kv.key == HOLDER) && line.next().is_some()
    }
}
