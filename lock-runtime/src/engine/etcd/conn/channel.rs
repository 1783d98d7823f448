//! The methods of one member, called as a user.

use crate::credentials::Login;
use crate::engine::credentials::{Credentials, CredentialsError};
use crate::engine::etcd::conn::connection_state::ConnectionState;
use crate::engine::etcd::wire::error::Failure;
use crate::engine::etcd::wire::grpc::Caller;
use crate::engine::etcd::wire::messages::{
    AuthenticateRequest, AuthenticateResponse, Empty, KeepAliveResponse, LeaseRequest, TxnRequest,
    TxnResponse,
};
use crate::engine::timeouts::{NO_REPLY, Timeouts};
use crate::util::io_thread::IoThread;
use crate::util::sync::Mutex;
use crate::util::time::{deadline_in, timeout_at};
use h2::SendStream;
use h2::client::ResponseFuture;
use http::HeaderValue;
use prost::Message;
use prost::bytes::Bytes;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How to log in when the server no longer knows the token: the password may be another one by then.
pub(crate) struct LoginAgain {
    pub(crate) io: IoThread,
    pub(crate) credentials: Credentials,
    pub(crate) timeouts: Timeouts,
}

impl LoginAgain {
    async fn login(&self) -> Result<Option<Login>, CredentialsError> {
        let by = self.timeouts.credentials_by();
        self.credentials.get(self.io, by).await
    }
}

pub(crate) struct Channel {
    caller: Caller,
    again: LoginAgain,
    /// What the server knows the user by.
    token: Mutex<Option<HeaderValue>>,
    pub(crate) state: Arc<ConnectionState>,
}

impl Channel {
    pub(crate) fn new(caller: Caller, again: LoginAgain, state: Arc<ConnectionState>) -> Channel {
        Channel {
            caller,
            again,
            token: Mutex::default(),
            state,
        }
    }

    fn token(&self) -> Option<HeaderValue> {
        let token = self.token.lock();
        token.clone()
    }

    /// Fetches the token of the user, if there is one.
    pub(crate) async fn log_in(&self, login: Option<Login>) -> Result<(), Failure> {
        let Some((name, password)) = login else {
            return Ok(());
        };
        let request = AuthenticateRequest { name, password };
        let method = "/etcdserverpb.Auth/Authenticate";
        let reply: AuthenticateResponse = match self.caller.unary(method, &request, None).await {
            Ok(reply) => reply,
            // The server asks for no login.
            Err(failure) if failure.needs_no_login() => return Ok(()),
            Err(failure) => return Err(self.state.explain(failure)),
        };
        let token = HeaderValue::from_str(&reply.token).map_err(Failure::not_sent)?;
        *self.token.lock() = Some(token);
        Ok(())
    }

    /// Opens a stream of requests, and returns it with the reply to them.
    pub(crate) async fn open(
        &self,
        method: &'static str,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), Failure> {
        self.caller.open(method, self.token()).await
    }

    pub(crate) async fn revoke(&self, lease: i64) -> Result<(), Failure> {
        let request = LeaseRequest { id: lease };
        let _: Empty = self
            .call("/etcdserverpb.Lease/LeaseRevoke", &request)
            .await?;
        Ok(())
    }

    /// Keeps a lease alive. One message on a stream of its own gets one reply.
    pub(crate) async fn keep_alive(&self, lease: i64) -> Result<KeepAliveResponse, Failure> {
        let request = LeaseRequest { id: lease };
        self.call("/etcdserverpb.Lease/LeaseKeepAlive", &request)
            .await
    }

    /// Executes a transaction, which a majority agrees to.
    pub(crate) async fn txn(&self, txn: &TxnRequest) -> Result<TxnResponse, Failure> {
        self.call("/etcdserverpb.KV/Txn", txn).await
    }

    /// Calls a method. A request whose outcome is not known ends the connection: what it may still do on the
    /// server is void as soon as there is another one.
    pub(crate) async fn call<Q: Message, A: Message + Default>(
        &self,
        method: &'static str,
        request: &Q,
    ) -> Result<A, Failure> {
        let reply = self.replied(self.caller.unary(method, request, self.token()));
        let reply = match reply.await {
            Err(failure) if self.again.credentials.exist() && failure.is_old_token() => {
                self.call_after_login(method, request).await
            }
            reply => reply,
        };
        if reply.as_ref().is_err_and(Failure::ends_connection) {
            self.state.end();
        }
        reply.map_err(|failure| self.state.explain(failure))
    }

    /// Logs in anew, and calls the method. If that login is refused, or forgotten, too, the next connection
    /// tries others, as after any other end of a connection: users or passwords are about to change.
    async fn call_after_login<Q: Message, A: Message + Default>(
        &self,
        method: &'static str,
        request: &Q,
    ) -> Result<A, Failure> {
        let login = self.again.login().await.map_err(Failure::not_sent)?;
        let logged_in = self.replied(self.log_in(login)).await;
        logged_in.map_err(Failure::before_request)?;
        let call = self.caller.unary(method, request, self.token());
        self.replied(call).await.map_err(|failure| match failure {
            failure if failure.is_old_token() => failure.before_request(),
            failure => failure,
        })
    }

    async fn replied<T>(
        &self,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut call = pin!(call);
        let soon = deadline_in(Duration::from_millis(200));
        if let Ok(reply) = timeout_at(soon, call.as_mut()).await {
            return reply;
        }
        self.state.probe_soon();
        // A member may answer pings, and have passed the request on to a leader that died.
        let timeouts = &self.again.timeouts;
        let silence = match timeouts.is_open() {
            true => timeouts.command,
            // Connecting to it is bounded anyway.
            false => timeouts.connect,
        };
        let reply = timeout_at(deadline_in(silence), call).await;
        reply.unwrap_or_else(|_| Err(Failure::no_reply(NO_REPLY)))
    }
}
