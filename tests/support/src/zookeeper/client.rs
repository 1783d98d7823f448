//! Another client of ZooKeeper, which sends one request at a time.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

pub struct Client {
    stream: TcpStream,
    xid: i32,
}

/// A node that the client creates.
#[derive(Clone, Copy)]
pub enum Kind {
    Persistent,
    Ephemeral,
    PersistentNumbered,
    EphemeralNumbered,
}

impl Client {
    pub fn connect(port: u16) -> Result<Self> {
        Self::with_timeout(port, Duration::from_secs(20))
    }

    pub fn with_timeout(port: u16, timeout: Duration) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream, xid: 0 };
        let mut hello = Vec::new();
        hello.extend(0_i32.to_be_bytes());
        hello.extend(0_i64.to_be_bytes());
        hello.extend((timeout.as_millis() as i32).to_be_bytes());
        hello.extend(0_i64.to_be_bytes());
        hello.extend(16_i32.to_be_bytes());
        hello.extend([0; 17]);
        client.write(&hello)?;
        client.read()?;
        Ok(client)
    }

    /// Sends one of the commands of four letters, and returns the answer.
    pub fn ask(port: u16, command: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(command.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Logs in, in the scheme `digest`.
    pub fn login(&mut self, user: &str) -> Result<()> {
        let mut body = 0_i32.to_be_bytes().to_vec();
        body.extend(text("digest"));
        body.extend(text(user));
        let mut message = (-4_i32).to_be_bytes().to_vec();
        message.extend(100_i32.to_be_bytes());
        message.extend(body);
        self.write(&message)?;
        self.read().map(drop)
    }

    /// Creates a node, and returns its path.
    pub fn create(&mut self, path: &str, kind: Kind) -> Result<String> {
        self.create_with(path, kind, 31)
    }

    /// Creates a node for which everyone has these permissions, and returns its path.
    pub fn create_with(&mut self, path: &str, kind: Kind, permissions: i32) -> Result<String> {
        let flags: i32 = match kind {
            Kind::Persistent => 0,
            Kind::Ephemeral => 1,
            Kind::PersistentNumbered => 2,
            Kind::EphemeralNumbered => 3,
        };
        let mut body = text(path);
        body.extend(text(""));
        body.extend(everyone(permissions));
        body.extend(flags.to_be_bytes());
        let reply = self.call(1, &body)?;
        let path = reply.get(4..).ok_or(ErrorKind::InvalidData)?;
        Ok(String::from_utf8_lossy(path).into_owned())
    }

    /// Gives everyone these permissions for a node, and none besides.
    pub fn allow(&mut self, path: &str, permissions: i32) -> Result<()> {
        let mut body = text(path);
        body.extend(everyone(permissions));
        body.extend((-1_i32).to_be_bytes());
        self.call(7, &body).map(drop)
    }

    /// Creates a node, and those above it.
    pub fn create_all(&mut self, path: &str) {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
        for end in ends.chain([path.len()]) {
            let _ = self.create(&path[..end], Kind::Persistent);
        }
    }

    /// Replaces the data of a node.
    pub fn set(&mut self, path: &str, data: &[u8]) -> Result<()> {
        let mut body = text(path);
        body.extend((data.len() as i32).to_be_bytes());
        body.extend(data);
        body.extend((-1_i32).to_be_bytes());
        self.call(5, &body).map(drop)
    }

    /// Deletes a node. Returns `false` if there was none.
    pub fn delete(&mut self, path: &str) -> bool {
        let mut body = text(path);
        body.extend((-1_i32).to_be_bytes());
        self.call(2, &body).is_ok()
    }

    /// Returns the paths of all claims on a lock, the earliest first.
    pub fn line(&mut self, lock: &str) -> Vec<String> {
        let mut claims = self.children(lock);
        claims.sort_by_key(|name| name.get(name.len().saturating_sub(10)..).map(str::to_owned));
        claims.iter().map(|name| format!("{lock}/{name}")).collect()
    }

    /// Deletes the claim of the first waiter if the one before it is exclusive, and still there.
    pub fn delete_place(&mut self, lock: &str) -> bool {
        let line = self.line(lock);
        let [holder, waiter, ..] = &line[..] else {
            return false;
        };
        // Behind its identity is the limit of a claim that shares the lock.
        let identity = lock.len() + "/_c_".len() + 36;
        let is_exclusive = holder
            .get(identity..)
            .is_some_and(|rest| rest.starts_with("-lock-"));
        is_exclusive && self.delete_beside(waiter, holder)
    }

    /// Deletes all of these nodes in one transaction. Returns `false` if one of them is missing.
    pub fn delete_together(&mut self, paths: &[String]) -> bool {
        self.together(paths.iter().map(|path| (2, &**path, -1)))
    }

    /// Deletes a node if another one exists whose data has never changed.
    pub fn delete_beside(&mut self, path: &str, other: &str) -> bool {
        self.together([(13, other, 0), (2, path, -1)].into_iter())
    }

    /// Carries out all of these operations or none, each with a path and the version that it must have.
    fn together<'a>(&mut self, operations: impl Iterator<Item = (i32, &'a str, i32)>) -> bool {
        let header = |operation: i32, is_end: bool| {
            let mut header = operation.to_be_bytes().to_vec();
            header.push(is_end.into());
            header.extend((-1_i32).to_be_bytes());
            header
        };
        let mut body = Vec::new();
        for (operation, path, version) in operations {
            body.extend(header(operation, false));
            body.extend(text(path));
            body.extend(version.to_be_bytes());
        }
        body.extend(header(-1, true));
        // If one is refused, the first result is an error.
        let result = self.call(14, &body);
        result.is_ok_and(|results| results.get(..4).is_some_and(|kind| kind != [0xff; 4]))
    }

    pub fn exists(&mut self, path: &str) -> bool {
        let mut body = text(path);
        body.push(0);
        self.call(3, &body).is_ok()
    }

    /// Returns the names of the children, without order.
    pub fn children(&mut self, path: &str) -> Vec<String> {
        let mut body = text(path);
        body.push(0);
        let Ok(reply) = self.call(8, &body) else {
            return Vec::new();
        };
        let mut rest = &reply[4..];
        let mut names = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let (name, after) = after.split_at(i32::from_be_bytes(*length) as usize);
            names.push(String::from_utf8_lossy(name).into_owned());
            rest = after;
        }
        names
    }

    /// Returns the paths of all nodes below one.
    pub fn all_below(&mut self, path: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![path.to_owned()];
        while let Some(path) = open.pop() {
            for name in self.children(&path) {
                let child = format!("{}/{name}", path.trim_end_matches('/'));
                open.push(child.clone());
                found.push(child);
            }
        }
        found
    }

    fn call(&mut self, operation: i32, body: &[u8]) -> Result<Vec<u8>> {
        self.xid += 1;
        let mut message = self.xid.to_be_bytes().to_vec();
        message.extend(operation.to_be_bytes());
        message.extend(body);
        self.write(&message)?;
        let mut reply = self.read()?;
        let error = i32::from_be_bytes(reply[12..16].try_into().unwrap());
        match error {
            0 => Ok(reply.split_off(16)),
            _ => Err(Error::other(format!("error {error}"))),
        }
    }

    fn write(&mut self, message: &[u8]) -> Result<()> {
        let mut framed = (message.len() as i32).to_be_bytes().to_vec();
        framed.extend(message);
        self.stream.write_all(&framed)
    }

    fn read(&mut self) -> Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut message = vec![0; i32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut message)?;
        Ok(message)
    }
}

/// Returns a list of permissions.
fn everyone(permissions: i32) -> Vec<u8> {
    let mut encoded = 1_i32.to_be_bytes().to_vec();
    encoded.extend(permissions.to_be_bytes());
    encoded.extend(text("world"));
    encoded.extend(text("anyone"));
    encoded
}

fn text(text: &str) -> Vec<u8> {
    let mut encoded = (text.len() as i32).to_be_bytes().to_vec();
    encoded.extend(text.as_bytes());
    encoded
}
