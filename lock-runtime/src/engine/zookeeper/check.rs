//! Inspects an ensemble for settings that endanger locks.

use crate::engine::inspection::Inspection;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::reply::Reply;
use crate::engine::zookeeper::wire::request::{Access, Request};
use crate::util::time::deadline_in;
use crate::warning::{Warning, WarningKind};
use std::time::Duration;

/// The node that lists the servers of an ensemble.
const SERVERS: &str = "/zookeeper/config";

impl ZooKeeperEngine {
    pub(crate) async fn inspect_servers(&self, ttl: Duration) -> Inspection {
        let mut found = Inspection::default();
        let mut warn = |kind, words: String| {
            found
                .warnings
                .push(Warning::new(&self.address, kind, words));
        };
        let session = self.claims.sessions.of(ttl);
        let address = &self.claims.sessions.context.address;
        if address.access() == Access::Anyone {
            let words = "the nodes of locks have no access control, since there are no credentials";
            warn(WarningKind::Unprotected, words.to_owned());
        }
        let deadline = deadline_in(self.claims.command_timeout);
        let servers = self.claims.run(deadline, async move {
            let path = SERVERS.to_owned();
            let request = Request::Data { path, watch: false };
            match session.request(request, deadline).await {
                Ok(Reply::Data(data, _)) => Ok(voters(&String::from_utf8_lossy(&data))),
                Ok(_) => Err(Failure::Malformed),
                Err(failure) => Err(failure),
            }
        });
        match servers.await {
            Ok(0 | 1) => warn(
                WarningKind::NoSpareServer,
                "it is a single server".to_owned(),
            ),
            Ok(voters) if voters % 2 == 0 => {
                let words = format!(
                    "it has {voters} voting servers, and survives no more failures than {}",
                    voters - 1
                );
                warn(WarningKind::NoSpareServer, words);
            }
            Ok(_) => {}
            Err(error) => found.add_unreachable(&self.address, &error),
        }
        found
    }
}

/// Returns the number of servers that vote, or 0 if it is a single one without a list.
fn voters(config: &str) -> usize {
    let servers = config.lines().filter(|line| line.starts_with("server."));
    servers.filter(|line| !line.contains(":observer")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observers_do_not_vote() {
        let config = "server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888:observer\n\
                      server.3=c:2888:3888:participant\nversion=0";
        assert_eq!(voters(config), 2);
        assert_eq!(voters("version=0"), 0);
    }
}
