//! One session with a server: it sends commands together, and reads their replies in order.

use crate::engine::mysql::sql::{BEGIN, CREATE, LOOK, OTHERS, Prepared, SERVER};
use crate::engine::mysql::wire::error::{Failure, ServerError};
use crate::engine::mysql::wire::login::{LoggedIn, Stream};
use crate::engine::mysql::wire::packets;
use crate::engine::mysql::wire::reply::{Format, Reply, read_reply};
use mysql_common::constants::CapabilityFlags;
use mysql_common::packets::ComStmtExecuteRequestBuilder;
use mysql_common::proto::MySerialize;
use mysql_common::value::Value;
use mysql_common::value::convert::from_value_opt;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf, split};
use tokio::join;

pub(crate) struct Session {
    from: BufReader<ReadHalf<Box<dyn Stream>>>,
    to: WriteHalf<Box<dyn Stream>>,
    flags: CapabilityFlags,
    statements: [u32; Prepared::ALL.len()],
    /// The server, as it names itself.
    pub(crate) server: Arc<str>,
    /// It reaches a server itself, which alone accepts writes. A proxy may use another connection for each
    /// command, or another server for reads; of several servers, each has its own clock and named locks, and
    /// may be behind.
    pub(crate) is_sole: bool,
    /// Swaps of several rows may go into one transaction: one that finds its row locked undoes no other.
    pub(crate) may_combine: bool,
    /// An error of the server says that another one is to be used.
    pub(crate) is_over: bool,
}

pub(crate) enum Command {
    Text(String),
    Prepare(Prepared),
    Execute(Prepared, Vec<Value>),
}

const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;

/// Servers by which the statements can't be carried out, as they name themselves.
const UNFIT: [&str; 3] = ["TiDB", "Vitess", "SingleStore"];

impl Session {
    /// Begins a session that accepts writes.
    pub(crate) async fn begin(logged_in: LoggedIn) -> Result<Session, Failure> {
        let (from, to) = split(logged_in.stream);
        let mut session = Session {
            from: BufReader::new(from),
            to,
            flags: logged_in.flags,
            statements: [0; Prepared::ALL.len()],
            server: "".into(),
            // Until it is known.
            is_sole: false,
            may_combine: false,
            is_over: false,
        };
        for statement in BEGIN {
            session.query(statement).await?;
        }
        let mut has_others = false;
        for variable in OTHERS {
            match session.query(variable).await {
                Err(Failure::Server(error)) if error.is_no_variable() => {}
                reply => has_others |= is_on(&text(&reply?, 0)),
            }
        }
        let server = session.query(SERVER).await?;
        let version = text(&server, 3);
        if let Some(name) = UNFIT.iter().find(|name| version.contains(**name)) {
            return Err(Failure::Unfit(format!(
                "the server is {name}, on which locks are not tested; use MySQL or MariaDB"
            )));
        }
        if is_on(&text(&server, 1)) || is_on(&text(&server, 2)) {
            return Err(Failure::Broken(std::io::Error::other(
                "the server is read-only: a replica, or one that is being replaced",
            )));
        }
        session.server = text(&server, 4).into();
        session.is_sole = text(&server, 0) == logged_in.number.to_string() && !has_others;
        session.may_combine = session.is_sole && !is_on(&text(&server, 5));
        Ok(session)
    }

    /// Makes the table if it is not there, and may be made, and prepares all statements.
    pub(crate) async fn prepare(&mut self, creates: bool) -> Result<(), Failure> {
        match self.query(LOOK).await {
            Err(Failure::Server(error)) if error.is_no_table() && creates => {
                self.query(CREATE).await?;
            }
            looked => _ = looked?,
        }
        let commands = Prepared::ALL.map(Command::Prepare);
        let replies = self.exchange(&commands).await?;
        for (statement, reply) in self.statements.iter_mut().zip(replies) {
            *statement = reply.map_err(Failure::Server)?.statement;
        }
        Ok(())
    }

    /// Sends one command, and returns its reply. The session goes on after an error of the server.
    pub(crate) async fn query(&mut self, text: &str) -> Result<Reply, Failure> {
        let replies = self.exchange(&[Command::Text(text.to_owned())]).await?;
        let reply = replies.into_iter().next();
        reply.map_or(Ok(Reply::default()), |it| it.map_err(Failure::Server))
    }

    /// Sends commands, and returns their replies. A proxy gets each one only after the reply to the one
    /// before.
    pub(crate) async fn exchange(
        &mut self,
        commands: &[Command],
    ) -> Result<Vec<Result<Reply, ServerError>>, Failure> {
        let together = if self.is_sole {
            commands.len().max(1)
        } else {
            1
        };
        let mut replies = Vec::with_capacity(commands.len());
        for commands in commands.chunks(together) {
            let mut packets = Vec::new();
            for command in commands {
                packets::write(0, &self.encode(command), &mut packets);
            }
            let (to, from, flags) = (&mut self.to, &mut self.from, self.flags);
            let write = async {
                to.write_all(&packets).await?;
                to.flush().await
            };
            // At the same time: a server whose replies are not read reads no more.
            let read = async {
                let mut replies = Vec::with_capacity(commands.len());
                for command in commands {
                    replies.push(read_reply(from, flags, command.format()).await?);
                }
                Ok::<_, Failure>(replies)
            };
            let (written, read) = join!(write, read);
            let read = read?;
            for (command, reply) in commands.iter().zip(&read) {
                let ends = matches!(reply, Err(error) if error.ends_session());
                self.is_over |= ends && command.writes();
            }
            replies.extend(read);
            written?;
        }
        Ok(replies)
    }

    /// Waits until the server ends the session, while no command is under way.
    pub(crate) async fn ended(&mut self) {
        let _ = self.from.fill_buf().await;
    }

    fn encode(&self, command: &Command) -> Vec<u8> {
        let with = |code: u8, text: &str| [&[code], text.as_bytes()].concat();
        match command {
            Command::Text(text) => with(QUERY, text),
            Command::Prepare(statement) => with(PREPARE, statement.text()),
            Command::Execute(statement, values) => {
                let statement = self.statements[*statement as usize];
                let (request, _) = ComStmtExecuteRequestBuilder::new(statement).build(values);
                let mut body = Vec::new();
                request.serialize(&mut body);
                body
            }
        }
    }
}

/// Returns a value of the only row of a reply, as text.
fn text(reply: &Reply, column: usize) -> String {
    let value = reply.rows.first().and_then(|row| row.as_ref(column));
    let text = value.and_then(|it| from_value_opt::<Vec<u8>>(it.clone()).ok());
    String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
}

/// Returns `true` if a variable with that value is on.
fn is_on(value: &str) -> bool {
    !matches!(value, "0" | "OFF")
}

impl Command {
    fn writes(&self) -> bool {
        use Prepared::{Delete, Insert, Update};
        matches!(self, Command::Execute(Insert | Update | Delete, _))
    }

    fn format(&self) -> Format {
        match self {
            Command::Text(_) => Format::Text,
            Command::Prepare(_) => Format::Statement,
            Command::Execute(..) => Format::Binary,
        }
    }
}
