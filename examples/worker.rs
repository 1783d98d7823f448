//! A scheduled job that runs on one replica at a time, whatever their number.
//!
//! ```text
//! export LOCK_URL=redis://127.0.0.1/
//! cargo run --example worker -- --name a    # in one terminal
//! cargo run --example worker -- --name b    # in another
//! ```
//!
//! Stop the replica that runs the job, with ctrl-c or `kill -9`: another one takes over, at once in
//! the first case, after the `ttl` in the second.

use lock_runtime::{Config, LockError, distributed_lock};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::sleep;

const HELP: &str = "\
A scheduled job that runs on one replica at a time.

Usage: LOCK_URL=redis://127.0.0.1/ worker [options]

Options:
  --name <name>      what this replica is called [default: its process id]
  --every <seconds>  how often the job is due [default: 2]
  --runs <number>    ends after this many times, run or skipped [default: on ctrl-c]
  --help             prints this";

enum Outcome {
    Ran,
    Skipped,
}

/// With `wait = "0s"` a replica that finds the lock held does not wait for it, only to run the same job
/// again right afterwards.
///
/// The lock prevents concurrent runs, not repeated ones: a replica whose clock is late finds the lock
/// free again. A job that must run once per period records its runs while it holds the lock.
#[distributed_lock(
    key = "job:report",
    ttl = "5s",
    wait = "0s",
    on_busy = Ok(Outcome::Skipped)
)]
async fn report(replica: &str, work: Duration) -> Result<Outcome, LockError> {
    say(replica, "runs the job");
    sleep(work).await;
    say(replica, "is done");
    Ok(Outcome::Ran)
}

async fn work(options: &Options) {
    let replica = &options.name;
    let mut runs = 0;
    while options.runs.is_none_or(|most| runs < most) {
        runs += 1;
        sleep(until_next(options.every)).await;
        match report(replica, options.every / 2).await {
            Ok(Outcome::Ran) => {}
            Ok(Outcome::Skipped) => say(replica, "skipped: another replica has it"),
            // An outage costs only this run; the library reconnects by itself.
            Err(error) => say(replica, &format!("skipped: {error}")),
        }
    }
}

async fn run(options: &Options) -> Result<(), LockError> {
    lock_runtime::init(Config::from_env()?).await?;
    say(&options.name, "is ready");
    // A running job is dropped at its next await point, and its lock is released.
    tokio::select! {
        () = work(options) => {}
        () = asked_to_stop() => say(&options.name, "stops"),
    }
    lock_runtime::shutdown().await;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let error = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => match run(&options).await {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => error.to_string(),
        },
        Err(error) => error,
    };
    eprintln!("worker: {error}");
    ExitCode::FAILURE
}

struct Options {
    name: String,
    every: Duration,
    runs: Option<u64>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            name: std::process::id().to_string(),
            every: Duration::from_secs(2),
            runs: None,
        };
        while let Some(option) = arguments.next() {
            if option == "--help" || option == "-h" {
                println!("{HELP}");
                std::process::exit(0);
            }
            let mut value = || arguments.next().ok_or(format!("`{option}` needs a value"));
            match option.as_str() {
                "--name" => options.name = value()?,
                "--every" => {
                    let seconds = value()?.parse().ok();
                    options.every = seconds
                        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                        .filter(|every| *every >= Duration::from_millis(10))
                        .ok_or("`--every` needs a number of seconds, 0.01 or more")?;
                }
                "--runs" => {
                    let runs = value()?.parse();
                    options.runs = Some(runs.map_err(|_| "`--runs` needs a whole number")?);
                }
                _ => return Err(format!("`{option}` is not known; see `worker --help`")),
            }
        }
        Ok(options)
    }
}

/// Returns the time until the next run, which is the same instant for all replicas.
fn until_next(every: Duration) -> Duration {
    let past = since_epoch().as_secs_f64() % every.as_secs_f64();
    every.saturating_sub(Duration::from_secs_f64(past))
}

/// Resolves on ctrl-c or SIGTERM.
async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

fn say(replica: &str, what: &str) {
    let now = since_epoch();
    let (seconds, millis) = (now.as_secs(), now.subsec_millis());
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    let seconds = seconds % 60;
    println!("{hours:02}:{minutes:02}:{seconds:02}.{millis:03}  replica {replica}  {what}");
}

fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
