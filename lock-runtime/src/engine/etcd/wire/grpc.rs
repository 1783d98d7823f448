//! Calls over gRPC: a `POST` for each, whose reply ends with a status.

use crate::engine::etcd::wire::error::{Failure, Status};
use crate::engine::etcd::wire::frames::{Frames, encode};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE};
use prost::Message;
use prost::bytes::Bytes;

/// Where requests go, and with what headers.
pub(crate) struct Caller {
    pub(crate) sender: SendRequest<Bytes>,
    /// `http://host:port` or `https://host:port`.
    pub(crate) origin: String,
}

impl Caller {
    /// Sends one message, and returns the reply.
    pub(crate) async fn unary<Q: Message, A: Message + Default>(
        &self,
        method: &'static str,
        request: &Q,
        token: Option<HeaderValue>,
    ) -> Result<A, Failure> {
        let (reply, mut sink) = self.open(method, token).await?;
        sink.send_data(encode(request), true)
            .map_err(Failure::no_reply)?;
        let mut messages = Messages::of(reply).await?;
        let message = messages.next().await?;
        let message = message.ok_or_else(|| Failure::no_reply("the reply is empty"))?;
        Ok(message)
    }

    /// Opens a stream of requests, and returns it with the future of the replies.
    pub(crate) async fn open(
        &self,
        method: &'static str,
        token: Option<HeaderValue>,
    ) -> Result<(h2::client::ResponseFuture, SendStream<Bytes>), Failure> {
        let mut request = http::Request::post(format!("{}{method}", self.origin))
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            // A member without a leader ends streams, instead of keeping silent on them.
            .header(HeaderName::from_static("hasleader"), "true");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request.body(()).map_err(Failure::not_sent)?;
        let sender = self.sender.clone().ready().await;
        let mut sender = sender.map_err(Failure::not_sent)?;
        sender
            .send_request(request, false)
            .map_err(Failure::not_sent)
    }
}

/// The messages of a reply.
pub(crate) struct Messages {
    body: RecvStream,
    frames: Frames,
}

impl Messages {
    pub(crate) async fn of(reply: h2::client::ResponseFuture) -> Result<Messages, Failure> {
        let reply = reply.await.map_err(Failure::no_reply)?;
        if reply.status() != http::StatusCode::OK {
            let words = format!("the server replied with HTTP status {}", reply.status());
            return Err(Failure::no_reply(words));
        }
        // An error can be all there is.
        check_status(reply.headers())?;
        Ok(Messages {
            body: reply.into_body(),
            frames: Frames::default(),
        })
    }

    /// Returns the next message; `None` at the end.
    pub(crate) async fn next<A: Message + Default>(&mut self) -> Result<Option<A>, Failure> {
        loop {
            if let Some(message) = self.frames.next_message()? {
                let message = A::decode(message).map_err(Failure::no_reply)?;
                return Ok(Some(message));
            }
            let Some(chunk) = self.body.data().await else {
                let trailers = self.body.trailers().await.map_err(Failure::no_reply)?;
                if let Some(trailers) = trailers {
                    check_status(&trailers)?;
                }
                return Ok(None);
            };
            let chunk = chunk.map_err(Failure::no_reply)?;
            let _ = self.body.flow_control().release_capacity(chunk.len());
            self.frames.extend(&chunk);
        }
    }
}

/// Fails if the headers, or what follows the messages, contain a status other than success.
pub(crate) fn check_status(headers: &HeaderMap) -> Result<(), Failure> {
    let Some(code) = headers.get("grpc-status") else {
        return Ok(());
    };
    let code = code.to_str().ok().and_then(|code| code.parse().ok());
    match code {
        Some(0) => Ok(()),
        code => {
            let message = headers.get("grpc-message");
            let message = message.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
            Err(Failure::Status(Status {
                // 2: unknown.
                code: code.unwrap_or(2),
                message: message.unwrap_or_default(),
            }))
        }
    }
}
