//! The body of a response: bytes, or events that go on.

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of a response of [`Admin::handle`](crate::Admin::handle): complete, or a stream of server-sent
/// events, which ends by itself after 15 s, and which a browser continues.
///
/// It is an [`http_body::Body`], so that it fits into hyper, axum and tonic. It produces an event when the
/// connection can take one, and none is kept for a connection that cannot.
#[must_use]
pub struct Body(Content);

enum Content {
    Bytes(Option<Bytes>),
    Events(NextEvent),
}

/// Where events come from: each is sent with the source of those after it.
pub(crate) trait Events: Send + 'static {
    fn next(self) -> impl Future<Output = Option<(Bytes, Self)>> + Send
    where
        Self: Sized;
}

type NextEvent = Pin<Box<dyn Future<Output = Option<(Bytes, Next)>> + Send>>;

struct Next(Box<dyn FnOnce() -> NextEvent + Send>);

fn next_of<E: Events>(events: E) -> NextEvent {
    Box::pin(async move {
        let (bytes, events) = events.next().await?;
        Some((bytes, Next(Box::new(move || next_of(events)))))
    })
}

impl Body {
    pub(crate) fn events(events: impl Events) -> Body {
        Body(Content::Events(next_of(events)))
    }

    /// Polls for the next bytes.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match &mut self.0 {
            Content::Bytes(bytes) => Poll::Ready(bytes.take()),
            Content::Events(next) => Poll::Ready(match ready!(next.as_mut().poll(context)) {
                Some((bytes, Next(after))) => {
                    *next = after();
                    Some(bytes)
                }
                None => {
                    self.0 = Content::Bytes(None);
                    None
                }
            }),
        }
    }

    /// Returns the number of bytes, if it is known.
    fn len(&self) -> Option<u64> {
        match &self.0 {
            Content::Bytes(bytes) => Some(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Content::Events(_) => None,
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body(Content::Bytes((!bytes.is_empty()).then_some(bytes)))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Body {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Body {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = ready!(self.poll_bytes(context));
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Content::Bytes(None))
    }

    fn size_hint(&self) -> SizeHint {
        self.len().map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

#[cfg(feature = "actix")]
impl actix_web::body::MessageBody for Body {
    type Error = Infallible;

    fn size(&self) -> actix_web::body::BodySize {
        match self.len() {
            Some(len) => actix_web::body::BodySize::Sized(len),
            None => actix_web::body::BodySize::Stream,
        }
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Infallible>>> {
        self.poll_bytes(context).map(|bytes| bytes.map(Ok))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
