//! A connection as the server identifies it.

use redis::Cmd;

#[derive(Clone)]
pub(crate) struct ClientId {
    id: String,
    address: String,
}

impl ClientId {
    /// Parses the reply to `CLIENT INFO`.
    pub(crate) fn parse(description: &str) -> Option<ClientId> {
        let field = |name| {
            let mut fields = description.split_whitespace();
            fields
                .find_map(|field| field.strip_prefix(name))
                .map(str::to_owned)
        };
        Some(ClientId {
            id: field("id=")?,
            address: field("addr=")?,
        })
    }

    /// The command that makes the server close the connection and discard requests that it has not read.
    ///
    /// It names id and address, since a restarted server gives the same ids to other clients.
    pub(crate) fn kill(&self) -> Cmd {
        let mut command = redis::cmd("CLIENT");
        command.arg("KILL").arg("ID").arg(&self.id);
        command.arg("ADDR").arg(&self.address);
        command
    }
}
