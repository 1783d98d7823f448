//! Entering the line of a lock: creating the node of a claim.

use crate::engine::common::line::Line;
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::containers::create_containers;
use crate::engine::zookeeper::lock::entry::Child;
use crate::engine::zookeeper::lock::node::{Node, Presence};
use crate::engine::zookeeper::lock::read::claims_of;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::reply::Reply;
use crate::engine::zookeeper::wire::request::{NodeKind, Request};
use tokio::time::Instant;

/// How many times a node is requested because its container was created or deleted meanwhile.
const MAX_ENTRIES: usize = 20;

/// A claim that is in the line.
pub(crate) struct Entered {
    /// The name of its node.
    pub(crate) name: String,
    /// `true` if no other claim is in the line, so that this one holds the lock. `None` if that is unknown.
    pub(crate) is_alone: Option<bool>,
}

/// How a node is created.
#[derive(Clone, Copy)]
enum Way {
    /// Together with a write to the lock's container, whose reply counts the children.
    Counted,
    /// Together with the container.
    WithContainer,
    /// By itself, since the container may not be written to.
    Uncounted,
}

impl Claims {
    /// Creates the node, unless it exists. Returns `None` if the claim is given up, or its node is gone: the
    /// lock may have been taken from it for good.
    pub(crate) async fn enter(
        &self,
        node: &Node,
        deadline: Instant,
    ) -> Result<Option<Entered>, Failure> {
        let _turn = node.turn.lock().await;
        if node.session.is_ended() {
            node.set_presence(Presence::Gone);
        }
        if node.presence() == Presence::Requested {
            self.find(node, deadline).await?;
        }
        let entered = match node.presence() {
            Presence::Present(name) => Some(Entered {
                name,
                is_alone: None,
            }),
            Presence::Gone => None,
            Presence::Absent | Presence::Requested => self.create(node, deadline).await?,
        };
        Ok(entered.filter(|_| !node.is_leaving()))
    }

    /// Creates the node, in the way that suits the container of the lock.
    async fn create(&self, node: &Node, deadline: Instant) -> Result<Option<Entered>, Failure> {
        let mut way = match self.containers.remembers(&node.lock) {
            true => Way::Counted,
            // Most keys are new: a wrong guess costs as much as one the other way round.
            false => Way::WithContainer,
        };
        for entry in 0..MAX_ENTRIES {
            if node.is_leaving() {
                return Ok(None);
            }
            node.set_presence(Presence::Requested);
            let failure = match request_node(node, way, deadline).await {
                Ok(entered) => {
                    self.containers.saw(&node.lock, true);
                    node.set_presence(Presence::Present(entered.name.clone()));
                    return Ok(Some(entered));
                }
                Err(failure) => failure,
            };
            // A malformed reply does not say whether it exists.
            if !matches!(failure, Failure::NoReply(_) | Failure::Malformed) {
                node.set_presence(Presence::Absent);
            }
            way = match (failure, way) {
                (Failure::NoNode, Way::WithContainer) => {
                    create_containers(&node.session, &node.lock, deadline).await?;
                    Way::Counted
                }
                (Failure::NoNode, _) => Way::WithContainer,
                (Failure::Exists, _) => Way::Counted,
                // It may create no containers, and yet use this one.
                (Failure::NoPermission, Way::WithContainer) if entry == 0 => Way::Counted,
                (Failure::NoPermission, Way::Counted) => Way::Uncounted,
                (failure, _) => return Err(failure),
            };
        }
        Err(Failure::NoNode)
    }

    /// Finds out whether a node exists whose creation got no reply.
    pub(crate) async fn find(&self, node: &Node, deadline: Instant) -> Result<(), Failure> {
        // What a majority has agreed to after it, on the same session, the next read sees, too.
        self.prove(&node.session, deadline).await?;
        let line = claims_of(&node.session, &node.lock, None, deadline).await?;
        let children = line.as_ref().map_or(&[][..], Line::entries);
        let found = children.iter().find(|it| node.is(it));
        let present = |child: &Child| Presence::Present(child.name.clone());
        node.set_presence(found.map_or(Presence::Gone, present));
        Ok(())
    }
}

/// Requests the node of a claim in that way.
async fn request_node(node: &Node, way: Way, deadline: Instant) -> Result<Entered, Failure> {
    let claim = Request::create(node.path(&node.stem), NodeKind::Numbered);
    let path = node.lock.clone();
    let requests = match way {
        Way::Counted => vec![claim, Request::touch(path)],
        Way::WithContainer => vec![Request::create(path, NodeKind::Container), claim],
        Way::Uncounted => vec![claim],
    };
    let replies = match node
        .session
        .request(Request::Together(requests), deadline)
        .await?
    {
        Reply::Together(replies) => replies,
        _ => return Err(Failure::Malformed),
    };
    let (path, is_alone) = match (way, &*replies) {
        (Way::Counted, [Reply::Created(path), Reply::Changed(container)]) => {
            (path, Some(container.children == 1))
        }
        (Way::WithContainer, [_, Reply::Created(path)]) => (path, Some(true)),
        (Way::Uncounted, [Reply::Created(path)]) => (path, None),
        _ => return Err(Failure::Malformed),
    };
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    Ok(Entered { name, is_alone })
}
