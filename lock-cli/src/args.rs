//! The command line.

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const AFTER_HELP: &str = "\
A lock is stuck:
  locks show order:42                                 who holds it, where, and who waits
  locks revoke order:42 --reason \"stuck since 3:05\"   asks the holder to stop
  locks list --longer-than 10m; locks processes       what else is held, and by whom

URLs: redis://HOST/DATABASE, redis-sentinel://, redis-cluster://, postgres://, mysql://, etcd://, zookeeper://, sqlite:///FILE,
memory://; with TLS rediss:// and so on. Durations: 500ms, 10s, 2m.

Exit codes: 0 done, 1 warnings of `check`, 2 wrong arguments or nothing was done, 69 the server is unavailable, 74 the output
cannot be written, 75 the lock is (still) held, 78 the configuration is wrong or a permission is missing; those of `run`: see
there.";

/// Shows who holds a distributed lock, gets it back, and runs a command under one.
#[derive(Debug, Parser)]
#[command(name = "locks", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Prints JSON, one object per line; an error, too
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) server: Server,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the locks are kept.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Server {
    /// The lock server, such as redis://127.0.0.1/; several, separated by spaces, are a quorum.
    ///
    /// Other users see arguments: set LOCK_URL instead if the URL has a password.
    // The values are hidden, since a URL may have a password.
    #[arg(long, global = true, env = "LOCK_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,

    /// The prefix of all keys on the server [default: lock:]
    // The value would be shown as `LOCK_PREFIX=` where it is not set.
    #[arg(long, global = true, env = "LOCK_PREFIX", hide_env_values = true)]
    pub(crate) prefix: Option<String>,

    /// The file of the certificate authority to trust, instead of the public ones
    #[arg(long = "cacert", global = true, value_name = "FILE")]
    pub(crate) authority: Option<PathBuf>,

    /// The file of the certificate to show to a server that demands one
    #[arg(long = "cert", global = true, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,

    /// The file of the private key of that certificate
    #[arg(long = "key", global = true, value_name = "FILE")]
    pub(crate) private_key: Option<PathBuf>,

    /// The time limit for connecting, and for each request [default: 2s and 500ms]
    #[arg(long, global = true, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Option<Duration>,
}

impl Server {
    pub(crate) fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or("lock:")
    }

    /// Returns the time limit for each request.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_millis(500))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows who holds a lock, since when and for how long yet, and who waits for it
    ///
    /// A process is silent if its report, its answer or a renewal is late: it is stopped or cut off, or has
    /// ended. On etcd, which does not know the age of a report, only `top --watch` and the page of `serve`
    /// find that.
    Show {
        /// The key of the lock, without the prefix
        key: String,
    },
    /// Lists the locks in use, in the order of their keys
    ///
    /// On Redis it finds what the processes report: of each the 64 locks that it has held longest, and 64 of
    /// those that it waits for. It says if there are others.
    List(List),
    /// Shows the locks that are held longest, and how many there are
    Top {
        /// Shows it again and again, until it is interrupted
        #[arg(short, long)]
        watch: bool,

        /// The time between two looks
        #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = humantime::parse_duration)]
        every: Duration,

        #[command(flatten)]
        list: List,
    },
    /// Lists the processes that use locks
    Processes,
    Revoke(Revoke),
    Run(Run),
    /// Prints a warning for each setting of the servers that may lose locks; exits with 1 if there are any
    Check,
    /// Checks that locks can be acquired now
    Ping,
    /// Serves a live page about the locks, which changes nothing, at 127.0.0.1; prints its URL
    ///
    /// All users of this machine can read it. Nothing is asked of the lock server while no page is open.
    Serve {
        /// The port [default: a free one]
        #[arg(long, default_value_t = 0, hide_default_value = true)]
        port: u16,
    },
    /// Prints a script with which a shell completes the arguments of `locks`
    Completions {
        shell: clap_complete::Shell,
    },
    /// Prints the manual page
    Man,
    /// Becomes the command, which dies with `locks`
    #[command(name = "__exec", hide = true)]
    Exec {
        parent: i32,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

/// Which locks are listed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct List {
    /// The beginning of their keys
    // Not `prefix`, which is that of all keys on the server.
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) beginning: String,

    /// Only those that are held for longer
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) longer_than: Option<Duration>,

    /// Only those that a process waits for
    #[arg(long)]
    pub(crate) waiting: bool,

    /// On Redis, reads the names of all keys of the server, to find what no process has reported
    #[arg(long)]
    pub(crate) scan: bool,

    /// The greatest number of locks that are looked at
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) limit: usize,
}

impl List {
    /// Returns `true` if some locks are meant, and not all.
    pub(crate) fn chooses(&self) -> bool {
        !self.beginning.is_empty() || self.longer_than.is_some() || self.waiting
    }
}

/// Gets a lock back: asks its holder to stop, and waits until it has
///
/// The body of the holder is canceled at its next await, and the next in line gets the lock: there are never
/// two holders. Exits with 0 if it does not have the lock any more, and with 75 if it, or a transaction that
/// has proven the lock, still keeps it.
#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// The key of the lock, without the prefix
    pub(crate) key: String,

    /// Why, for the logs of both
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,

    /// Who wants it back [default: $USER]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,

    /// Means the holder with this token alone, as `locks show` prints it; its beginning is enough
    #[arg(long, conflicts_with = "all")]
    pub(crate) token: Option<String>,

    /// Means whoever has the lock, also if several share it
    #[arg(long)]
    pub(crate) all: bool,

    /// For how long the holder may take to stop; a command of `locks run` has 5 s by default
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) grace: Duration,

    /// Takes the lock from a holder that has not stopped: then TWO MAY RUN AT ONCE for some time
    ///
    /// The old holder notices it when its lease is renewed, at the latest when that ends. A resource that
    /// checks fencing tokens refuses its writes: give it the number that is printed.
    #[arg(long)]
    pub(crate) force: bool,

    /// Does not ask whether that is meant, if `--token` or `--all` says who is: another may have the lock by
    /// now
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Runs a command while it holds a lock
///
/// Exits with the command's status, with 128 + N if signal N ended it, with 75 if the lock is held, 69 if the
/// server is unavailable, 78 if the configuration is wrong, 124 if the lock was lost, 126 if the command
/// cannot be executed, and 127 if it is not found.
///
/// The command finds the key in LOCK_KEY, and a number greater than that of every earlier holder in
/// LOCK_FENCING_TOKEN (not with permits).
///
/// While `--grace` is left of a lease that cannot be renewed, the command gets TERM, and KILL at the end of
/// the lease.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The key of the lock, without the prefix
    pub(crate) key: String,

    /// Shares the lock with other readers
    #[arg(long, conflicts_with = "permits")]
    pub(crate) read: bool,

    /// Shares the lock with so many holders
    #[arg(long, value_name = "N")]
    pub(crate) permits: Option<u32>,

    /// The time after which the lock is free if it can't be renewed
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) ttl: Duration,

    /// For how long to wait for the lock, or `forever`
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = wait)]
    pub(crate) wait: Duration,

    /// The time between TERM and KILL when the lock is lost; at most half of the lease
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = humantime::parse_duration)]
    pub(crate) grace: Duration,

    /// The exit code if the lock is held
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::BUSY)]
    pub(crate) conflict_exit_code: u8,

    /// The command and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

fn wait(text: &str) -> Result<Duration, humantime::DurationError> {
    match text {
        "forever" => Ok(Duration::MAX),
        text => humantime::parse_duration(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    /// Returns the words of a command as a shell reads them, up to a pipe, a redirection or a comment.
    fn words(command: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in command.chars().chain([' ']) {
            match quote {
                Some(open) if c == open => quote = None,
                None if c == '"' || c == '\'' => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                None if c.is_whitespace() => words.extend(word.take()),
                _ => word.get_or_insert_default().push(c),
            }
        }
        let end = words
            .iter()
            .position(|word| word.starts_with(['|', '>', '#']));
        words.truncate(end.unwrap_or(words.len()));
        words
    }

    #[test]
    fn arguments_in_the_manifest_are_understood() {
        let manifest = include_str!("../../ops/kubernetes/nightly.yaml");
        let arguments = manifest
            .lines()
            .find_map(|it| it.trim().strip_prefix("args: ["));
        let arguments = arguments.and_then(|it| it.strip_suffix(']')).unwrap();
        let arguments = arguments.split(", ").map(|it| it.trim_matches('"'));
        match Args::try_parse_from(["locks"].into_iter().chain(arguments)) {
            Ok(Args {
                command: Command::Run(run),
                ..
            }) => assert_eq!(run.conflict_exit_code, 0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn documented_commands_are_understood() {
        let mut tried = 0;
        for document in [
            include_str!("../README.md"),
            include_str!("../../lock-runtime/src/guide/runbook.md"),
        ] {
            let sessions = document.lines().filter(|line| line.starts_with("$ locks "));
            let scripts = document
                .lines()
                .filter(|line| line.starts_with("locks run "));
            let inline = document.split('`').skip(1).step_by(2);
            let inline = inline.filter(|code| code.starts_with("locks ") && code.contains(" --"));
            for command in sessions.chain(scripts).chain(inline) {
                let words = words(command.trim_start_matches("$ "));
                if let Err(error) = Args::try_parse_from(&words) {
                    panic!("`{command}`: {error}");
                }
                tried += 1;
            }
        }
        assert!(tried > 10, "{tried}");
    }
}
