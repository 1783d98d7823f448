//! Where the locks are kept: always on the same server, on the one that Sentinels call the master, or
//! on all nodes of a cluster.

use crate::engine::error::{EngineError, Fault};
use crate::engine::redis::cluster::seeds::Contacts;
use crate::engine::redis::net::target::Target;
use crate::engine::redis::sentinel::{Sentinels, Tenure};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

#[derive(Clone)]
pub(crate) enum Site {
    Fixed(Arc<Target>),
    Named(Arc<Sentinels>),
    /// Whichever node is met.
    Cluster(Arc<Contacts>),
}

/// Where a site was when it was asked for.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) target: Arc<Target>,
    /// As long as it is the master; none if it always is.
    tenure: Option<Tenure>,
}

impl Site {
    pub(crate) fn fixed(target: Target) -> Site {
        Site::Fixed(Arc::new(target))
    }

    /// Where it is now.
    pub(crate) async fn place(&self) -> Result<Place, EngineError> {
        match self {
            Site::Fixed(target) => Ok(Place {
                target: target.clone(),
                tenure: None,
            }),
            Site::Named(sentinels) => {
                let (target, tenure) = sentinels.master().await?;
                Ok(Place {
                    target,
                    tenure: Some(tenure),
                })
            }
            Site::Cluster(contacts) => match contacts.next() {
                Ok(target) => Ok(Place {
                    target,
                    tenure: None,
                }),
                Err(error) => Err(EngineError::new(Fault::Down, error)),
            },
        }
    }

    /// The server is not where it was, or not what it was: has that looked after soon.
    pub(crate) fn doubt(&self) {
        match self {
            Site::Fixed(_) => {}
            Site::Named(sentinels) => sentinels.hurry(),
            Site::Cluster(contacts) => contacts.doubt(),
        }
    }
}

impl Place {
    /// Whether the server there must say itself that it is the master.
    pub(crate) fn is_named(&self) -> bool {
        self.tenure.is_some()
    }

    /// Whether the site is elsewhere by now: nothing that is said here counts any more.
    pub(crate) fn is_left(&self) -> bool {
        self.tenure.as_ref().is_some_and(Tenure::is_over)
    }

    /// The work's output, or none if the site went elsewhere before.
    pub(crate) async fn while_there<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let Some(tenure) = &self.tenure else {
            return Some(work.await);
        };
        let (mut over, mut work) = (pin!(tenure.over()), pin!(work));
        poll_fn(|context| match over.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(context).map(Some),
        })
        .await
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Fixed(target) => target.fmt(f),
            Site::Named(sentinels) => sentinels.fmt(f),
            Site::Cluster(contacts) => contacts.fmt(f),
        }
    }
}
