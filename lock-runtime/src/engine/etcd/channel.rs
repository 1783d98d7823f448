//! The methods of one member, called as a user.

use crate::engine::etcd::failure::Failure;
use crate::engine::etcd::fate::Fate;
use crate::engine::etcd::grpc::Caller;
use crate::engine::etcd::messages::{
    AuthenticateRequest, AuthenticateResponse, Empty, KeepAliveResponse, LeaseRequest, TxnRequest,
    TxnResponse,
};
use crate::engine::timeouts::NO_REPLY;
use crate::util::sync::Mutex;
use crate::util::time::{deadline_in, timeout_at};
use h2::SendStream;
use h2::client::ResponseFuture;
use http::HeaderValue;
use prost::Message;
use prost::bytes::Bytes;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The longest time that a request can be unanswered: a server gives a proposal up after 5 s and two election
/// timeouts.
const MAX_ANSWER: Duration = Duration::from_secs(10);

pub(super) struct Channel {
    caller: Caller,
    credentials: Option<(String, String)>,
    /// What the server knows the user by.
    token: Mutex<Option<HeaderValue>>,
    pub(super) fate: Arc<Fate>,
}

impl Channel {
    pub(super) fn new(
        caller: Caller,
        credentials: Option<(String, String)>,
        fate: Arc<Fate>,
    ) -> Channel {
        Channel {
            caller,
            credentials,
            token: Mutex::default(),
            fate,
        }
    }

    fn token(&self) -> Option<HeaderValue> {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.clone()
    }

    /// Fetches the token of the user, if there is one.
    pub(super) async fn log_in(&self) -> Result<(), Failure> {
        let Some((name, password)) = &self.credentials else {
            return Ok(());
        };
        let request = AuthenticateRequest {
            name: name.clone(),
            password: password.clone(),
        };
        let method = "/etcdserverpb.Auth/Authenticate";
        let answer: AuthenticateResponse = match self.caller.unary(method, &request, None).await {
            Ok(answer) => answer,
            // The server lets everybody in.
            Err(failure) if failure.needs_no_login() => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let token = HeaderValue::from_str(&answer.token).map_err(Failure::not_sent)?;
        let known = self.token.lock();
        *known.unwrap_or_else(PoisonError::into_inner) = Some(token);
        Ok(())
    }

    /// Opens a stream of requests, and returns it with what will answer them.
    pub(super) async fn open(
        &self,
        method: &'static str,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), Failure> {
        self.caller.open(method, self.token()).await
    }

    pub(super) async fn revoke(&self, lease: i64) -> Result<(), Failure> {
        let request = LeaseRequest { id: lease };
        let _: Empty = self
            .call("/etcdserverpb.Lease/LeaseRevoke", &request)
            .await?;
        Ok(())
    }

    /// Keeps a lease alive. One message on a stream of its own is answered by one.
    pub(super) async fn keep_alive(&self, lease: i64) -> Result<KeepAliveResponse, Failure> {
        let request = LeaseRequest { id: lease };
        self.call("/etcdserverpb.Lease/LeaseKeepAlive", &request)
            .await
    }

    /// Executes a transaction, which a majority agrees to.
    pub(super) async fn txn(&self, txn: &TxnRequest) -> Result<TxnResponse, Failure> {
        self.call("/etcdserverpb.KV/Txn", txn).await
    }

    /// Calls a method. A request whose outcome is not known ends the connection: what it may still do on the server
    /// is void as soon as there is another one.
    pub(super) async fn call<Q: Message, A: Message + Default>(
        &self,
        method: &'static str,
        request: &Q,
    ) -> Result<A, Failure> {
        let answer = self.answered(self.caller.unary(method, request, self.token()));
        let answer = match answer.await {
            Err(failure) if self.credentials.is_some() && failure.is_old_token() => {
                self.answered(self.log_in()).await?;
                let again = self.caller.unary(method, request, self.token());
                self.answered(again).await
            }
            answer => answer,
        };
        if answer.as_ref().is_err_and(Failure::ends_connection) {
            self.fate.end();
        }
        answer.map_err(|failure| self.fate.explain(failure))
    }

    async fn answered<T>(
        &self,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut call = pin!(call);
        let soon = deadline_in(Duration::from_millis(200));
        if let Ok(answer) = timeout_at(soon, call.as_mut()).await {
            return answer;
        }
        self.fate.doubt();
        let answer = timeout_at(deadline_in(MAX_ANSWER), call).await;
        answer.unwrap_or_else(|_| Err(Failure::unanswered(NO_REPLY)))
    }
}
