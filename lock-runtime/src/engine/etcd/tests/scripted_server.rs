//! A server that speaks as much of etcd's API as a lock needs. Its first leader goes on to keep leases alive when it has
//! a successor.

use crate::engine::etcd::grpc::encode;
use crate::engine::etcd::messages::{
    Empty, Header, KeepAliveResponse, KeyValue, LeaseGrantRequest, LeaseGrantResponse,
    LeaseRequest, PutRequest, RangeResponse, Request, Response, ResponseOp, TxnRequest,
    TxnResponse,
};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::header::{HeaderMap, HeaderValue};
use prost::Message;
use prost::bytes::{Buf, Bytes};
use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};

const FIRST_TERM: u64 = 5;

pub(super) struct ScriptedServer {
    pub(super) port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    values: HashMap<Bytes, Bytes>,
    revision: i64,
    /// The length of each lease in seconds.
    leases: Vec<i64>,
    kept_alive: usize,
}

impl ScriptedServer {
    pub(super) async fn start() -> ScriptedServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<Mutex<State>>::default();
        let of_listener = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, of_listener.clone()));
            }
        });
        ScriptedServer { port, state }
    }

    /// Returns how often a lease has been kept alive.
    pub(super) fn kept_alive(&self) -> usize {
        self.state.lock().unwrap().kept_alive
    }
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(request) = connection.accept().await {
        let (request, respond) = request?;
        tokio::spawn(answer(request, respond, state.clone()));
    }
    Ok(())
}

async fn answer(
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    state: Arc<Mutex<State>>,
) -> Result<(), h2::Error> {
    let (head, mut body) = request.into_parts();
    let mut stream = respond.send_response(http::Response::new(()), false)?;
    let method = head.uri.path();
    if method == "/etcdserverpb.Watch/Watch" {
        // It has nothing to report.
        return pending().await;
    }
    let mut request = Vec::new();
    while let Some(chunk) = body.data().await {
        request.extend_from_slice(&chunk?);
    }
    let mut message = &request[..];
    message.advance(5);
    let answer = state.lock().unwrap().answer(method, message);
    let answer = answer.ok_or(Reason::PROTOCOL_ERROR)?;
    stream.send_data(answer, false)?;
    let mut status = HeaderMap::new();
    status.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(status)
}

impl State {
    /// Returns the answer to a method that is known.
    fn answer(&mut self, method: &str, message: &[u8]) -> Option<Bytes> {
        Some(match method {
            "/etcdserverpb.Lease/LeaseGrant" => {
                let LeaseGrantRequest { ttl } = Message::decode(message).ok()?;
                self.leases.push(ttl);
                let id = self.leases.len() as i64;
                encode(&LeaseGrantResponse { id, ttl })
            }
            "/etcdserverpb.Lease/LeaseKeepAlive" => {
                let LeaseRequest { id } = Message::decode(message).ok()?;
                self.kept_alive += 1;
                encode(&KeepAliveResponse {
                    header: self.header(FIRST_TERM),
                    ttl: self.leases[id as usize - 1],
                })
            }
            "/etcdserverpb.Lease/LeaseRevoke" => encode(&Empty {}),
            "/etcdserverpb.KV/Txn" => encode(&self.execute(Message::decode(message).ok()?)),
            _ => return None,
        })
    }

    fn header(&self, raft_term: u64) -> Option<Header> {
        let revision = self.revision;
        Some(Header {
            revision,
            raft_term,
        })
    }

    /// Executes what a transaction does if its conditions hold.
    fn execute(&mut self, txn: TxnRequest) -> TxnResponse {
        self.revision += 1;
        let mut responses = Vec::new();
        for request in txn.success.into_iter().filter_map(|op| op.request) {
            let response = match request {
                Request::Put(PutRequest { key, value, .. }) => {
                    self.values.insert(key, value);
                    Response::Put(Empty {})
                }
                Request::Delete(delete) => {
                    self.values.remove(&delete.key);
                    Response::Delete(Empty {})
                }
                Request::Range(range) => {
                    let value = self.values.get(&range.key).cloned();
                    let kvs = value.into_iter().map(|value| KeyValue {
                        key: range.key.clone(),
                        value,
                        ..KeyValue::default()
                    });
                    Response::Range(RangeResponse {
                        header: None,
                        kvs: kvs.collect(),
                    })
                }
                Request::Txn(part) => Response::Txn(self.execute(part)),
            };
            responses.push(ResponseOp {
                response: Some(response),
            });
        }
        // A majority has elected another leader.
        let term = FIRST_TERM + u64::from(self.kept_alive > 0);
        TxnResponse {
            header: self.header(term),
            succeeded: true,
            responses,
        }
    }
}
