//! Commands to a server that the library never sends.

use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult};

use crate::clock;
use crate::deployment::name;
use crate::fault::{Fault, Kind};
use crate::plan::Step;
use lock_test_support::time::millis;

/// Sends the commands on a thread of its own, since the server may not reply for a while. Returns `None` if
/// the server was down.
pub fn ask(socket: PathBuf, command: Command, mut fault: Fault) -> JoinHandle<Option<Fault>> {
    thread::spawn(move || {
        let url = format!("redis+unix://{}", socket.display());
        let connect = || redis::Client::open(url.as_str())?.get_connection();
        let mut connection = connect().ok()?;
        fault.from = clock::now();
        let answer = all(&mut connection, &command.requests);
        if !command.undo.is_empty() {
            thread::sleep(command.lasts_on);
            // The server may be down at the moment, and would return with the change still in effect.
            while !connect().is_ok_and(|mut again| all(&mut again, &command.undo).is_ok()) {
                thread::sleep(millis(10));
            }
        }
        let lasts_on = match command.undo.is_empty() {
            true => command.lasts_on.as_nanos() as u64,
            false => 0,
        };
        fault.until = clock::now() + lasts_on;
        match answer {
            // The server may or may not have carried it out.
            Err(error) if error.is_io_error() => Some(fault),
            answer => answer.is_ok().then_some(fault),
        }
    })
}

fn all(connection: &mut Connection, requests: &[Request]) -> RedisResult<()> {
    connection.set_read_timeout(Some(millis(20_000)))?;
    requests.iter().try_for_each(|request| match request {
        Request::Words(words) => redis::cmd(&words[0]).arg(&words[1..]).exec(connection),
        Request::KillOneListener => kill_one_listener(connection),
        Request::Work(time) => work(connection, *time),
    })
}

/// Ends the subscriptions of one process only.
fn kill_one_listener(connection: &mut Connection) -> RedisResult<()> {
    let list: String = redis::cmd("CLIENT")
        .arg(&["LIST", "TYPE", "pubsub"])
        .query(connection)?;
    let id = |line: &str| Some(line.strip_prefix("id=")?.split(' ').next()?.to_owned());
    let is_process = |line: &&str| line.contains(" psub=0 ");
    match list.lines().filter(is_process).find_map(id) {
        Some(id) => redis::cmd("CLIENT")
            .arg(&["KILL", "ID", &id])
            .exec(connection),
        None => Ok(()),
    }
}

/// Keeps the server busy with a script for `time`. The clocks that a script can read may stand still while it
/// runs, so the script counts, at a rate that was measured before.
fn work(connection: &mut Connection, time: Duration) -> RedisResult<()> {
    const SOME: f64 = 1_000_000.0;
    let mut count = |steps: f64| {
        let script = format!("for i = 1, {steps:.0} do end");
        let start = Instant::now();
        redis::cmd("EVAL").arg(&[&script, "0"]).exec(connection)?;
        Ok(start.elapsed())
    };
    let took: Duration = count(SOME)?;
    count(SOME * time.as_secs_f64() / took.as_secs_f64()).map(drop)
}

enum Request {
    Words(Vec<String>),
    KillOneListener,
    /// A script that takes this long.
    Work(Duration),
}

pub struct Command {
    /// Sent one after the other.
    requests: Vec<Request>,
    /// How long the effect lasts after the reply.
    lasts_on: Duration,
    /// The commands that end the effect, if it does not end by itself.
    undo: Vec<Request>,
}

impl Command {
    /// Returns the commands that cause the fault in the selected variant; `user` is the ACL user of the
    /// workers.
    pub fn of(step: &Step, key: u32, user: &str) -> Self {
        let lock = name(key);
        let time = step.lasts.as_millis().max(1);
        let listeners = |all: bool| match all {
            true => words("CLIENT KILL TYPE pubsub"),
            false => Request::KillOneListener,
        };
        let denied = |what: &str, again: &str| Self {
            requests: vec![words(&format!("ACL SETUSER {user} {what}"))],
            lasts_on: step.lasts,
            undo: vec![words(&format!("ACL SETUSER {user} {again}"))],
        };
        let text = match (step.kind, step.otherwise) {
            (Kind::ServerAsleep, _) => format!("DEBUG SLEEP {}", step.lasts.as_secs_f64()),
            (Kind::ClientsPaused, false) => format!("CLIENT PAUSE {time} ALL"),
            (Kind::ClientsPaused, true) => format!("CLIENT PAUSE {time} WRITE"),
            (Kind::SlowScript, _) => return Self::once(Request::Work(step.lasts)),
            // The killed subscribers return while the script runs.
            (Kind::BusyReplies, all) => {
                return Self {
                    requests: vec![
                        words("CONFIG SET lua-time-limit 5"),
                        listeners(all),
                        Request::Work(step.lasts),
                    ],
                    lasts_on: Duration::ZERO,
                    undo: vec![words("CONFIG SET lua-time-limit 5000")],
                };
            }
            (Kind::SubscribeRefused, all) => {
                let mut refused = denied("-subscribe", "+subscribe");
                refused.requests.push(listeners(all));
                return refused;
            }
            (Kind::ChannelsDenied, _) => return denied("resetchannels", "allchannels"),
            (Kind::ScriptsDenied, _) => return denied("-@scripting", "+@scripting"),
            (Kind::CommandDenied, _) => {
                let command = IN_SCRIPTS[step.at.as_micros() as usize % IN_SCRIPTS.len()];
                return denied(&format!("-{command}"), &format!("+{command}"));
            }
            (Kind::Nonsense, _) => {
                let script = ["EVAL", NONSENSE, "0"].map(str::to_owned);
                return Self::once(Request::Words(script.to_vec()));
            }
            (Kind::KeyDeleted, _) => format!("DEL {lock}"),
            (Kind::KeyOverwritten, _) => format!("SET {lock} other-client PX {time}"),
            (Kind::Flushed, _) => "FLUSHALL".to_owned(),
            (Kind::ScriptsFlushed, _) => "SCRIPT FLUSH".to_owned(),
            (Kind::ClientsKilled, false) => "CLIENT KILL TYPE normal".to_owned(),
            (Kind::ClientsKilled, true) => "CLIENT KILL TYPE pubsub".to_owned(),
            (kind, _) => unreachable!("{kind:?} is not a command"),
        };
        let lasts_on = match step.kind {
            Kind::ClientsPaused | Kind::KeyOverwritten => step.lasts,
            _ => Duration::ZERO,
        };
        Self {
            lasts_on,
            ..Self::once(words(&text))
        }
    }

    fn once(request: Request) -> Self {
        Self {
            requests: vec![request],
            lasts_on: Duration::ZERO,
            undo: Vec::new(),
        }
    }
}

fn words(text: &str) -> Request {
    Request::Words(text.split(' ').map(str::to_owned).collect())
}

/// The commands that scripts call.
const IN_SCRIPTS: [&str; 25] = [
    "get",
    "mget",
    "set",
    "del",
    "exists",
    "pexpire",
    "pexpireat",
    "pttl",
    "time",
    "type",
    "zadd",
    "zcard",
    "zpopmin",
    "zrange",
    "zrangebyscore",
    "zrevrangebyscore",
    "zremrangebyscore",
    "zrank",
    "zrem",
    "zscore",
    "hset",
    "hget",
    "hdel",
    "hexists",
    "publish",
];

/// Names without the prefix, of locks that are not kept, or cut within a character of it; numbers that exceed
/// every type; and texts that are no messages.
const NONSENSE: &str = r"
    local token = '0123456789abcdef0123456789abcdef'
    local grants = {
        '1700000000000001 2000 x', '1700000000000001 2000 lock\226\130\172', '1 2 ',
        '18446744073709551615 18446744073709551615 lock:door:0', '0 0 lock:door:0',
        '99999999999999999999999999 2000 lock:door:0', '-1 -1 lock:door:0', '1 2',
    }
    local messages = {
        '', ' ', 'grant', 'grant ' .. token, 'first', 'first ' .. token, 'others x', 'others ' .. token,
        'lost ' .. token, '\255\254\0', 'grant \255 1 2 lock:door:0', string.rep('grant ', 20000),
    }
    for _, rest in ipairs(grants) do
        messages[#messages + 1] = 'grant ' .. token .. ' ' .. rest
    end
    for _, rest in ipairs({'', ' ', ' x lock:door:0', ' ' .. token, ' ' .. token .. ' x', ' ' .. token .. ' lock:door:0'}) do
        messages[#messages + 1] = 'recall' .. rest
    end
    for _, pattern in ipairs({'*::grants:*', '*::recalls:*'}) do
        for _, channel in ipairs(redis.call('PUBSUB', 'CHANNELS', pattern)) do
            for _, message in ipairs(messages) do
                redis.call('PUBLISH', channel, message)
            end
        end
    end
";
