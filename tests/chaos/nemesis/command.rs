//! What is asked of a server that no client of a lock ever asks.

use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock;
use crate::fault::{Fault, Kind};
use crate::ground::name;
use crate::plan::Step;
use crate::support::time::millis;

/// On a thread of its own, since the server may not answer for a while. Nothing if it was not there to
/// be asked.
pub fn ask(socket: PathBuf, command: Command, mut fault: Fault) -> JoinHandle<Option<Fault>> {
    thread::spawn(move || {
        let url = format!("redis+unix://{}", socket.display());
        let mut connection = redis::Client::open(url).ok()?.get_connection().ok()?;
        let _ = connection.set_read_timeout(Some(millis(20_000)));
        let mut query = redis::cmd(&command.words[0]);
        query.arg(&command.words[1..]);
        fault.from = clock::now();
        let answer = query.exec(&mut connection);
        fault.until = clock::now() + command.lasts_on.as_nanos() as u64;
        match answer {
            // Whether it was carried out is not known.
            Err(error) if error.is_io_error() => Some(fault),
            answer => answer.is_ok().then_some(fault),
        }
    })
}

pub struct Command {
    pub words: Vec<String>,
    /// How long it has an effect after it was answered.
    pub lasts_on: Duration,
}

impl Command {
    /// What makes it happen, and in which of two ways.
    pub fn of(step: &Step, key: u32) -> Self {
        let lock = name(key);
        let time = step.lasts.as_millis().max(1);
        let text = match (step.kind, step.otherwise) {
            (Kind::ServerAsleep, _) => format!("DEBUG SLEEP {}", step.lasts.as_secs_f64()),
            (Kind::ClientsPaused, false) => format!("CLIENT PAUSE {time} ALL"),
            (Kind::ClientsPaused, true) => format!("CLIENT PAUSE {time} WRITE"),
            (Kind::SlowScript, _) => {
                return Self::busy(step.lasts);
            }
            (Kind::KeyDeleted, _) => format!("DEL {lock}"),
            (Kind::KeyOverwritten, _) => format!("SET {lock} somebody-else PX {time}"),
            (Kind::Flushed, _) => "FLUSHALL".to_owned(),
            (Kind::ScriptsFlushed, _) => "SCRIPT FLUSH".to_owned(),
            (Kind::ClientsKilled, false) => "CLIENT KILL TYPE normal".to_owned(),
            (Kind::ClientsKilled, true) => "CLIENT KILL TYPE pubsub".to_owned(),
            (kind, _) => unreachable!("{kind:?} is no command"),
        };
        let lasts_on = match step.kind {
            Kind::ClientsPaused | Kind::KeyOverwritten => step.lasts,
            _ => Duration::ZERO,
        };
        Self {
            words: text.split(' ').map(str::to_owned).collect(),
            lasts_on,
        }
    }

    /// The time that a script is told may stand still while it runs; that of its process does not.
    fn busy(lasts: Duration) -> Self {
        let time = lasts.as_secs_f64();
        let script = format!("local t = os.clock() + {time} while os.clock() < t do end");
        let words = ["EVAL", &script, "0"].map(str::to_owned);
        Self {
            words: words.to_vec(),
            lasts_on: Duration::ZERO,
        }
    }
}
