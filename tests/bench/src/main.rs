//! Compares the lock with others. How to run it, and how to read the results: see `Cargo.toml`.

mod child;
mod contenders;
mod delay;
mod load;
mod monitor;
mod numbers;
mod plot;
mod process;
mod process_group;
mod report;
mod round;
mod runtime;
mod server;
mod work;

use report::Report;
use server::Server;
use std::process::exit;
use std::time::Duration;
use work::engines::{self, Engine};

const HELP: &str = "\
Compares locks on a redis-server of its own.

Usage: lock-bench [options]

Options:
  --engine <name>      compare locks in another engine: `quorum`, `postgres`, `mysql`, `etcd`, `zookeeper`
  --members <number>   start that many members of etcd or ZooKeeper [default: 1]
  --only <names>       run only these workloads, for example `alone,many`
  --quick              run a few short rounds, as a smoke test
  --rounds <number>    turns of each contender [default: depends on the workload]
  --millis <number>    length of a turn [default: 200; 500 with `--engine`]
  --help               print this help

Workloads:";

pub struct Bench {
    pub server: Server,
    pub report: Report,
    /// The length of a turn.
    pub time: Duration,
    pub quick: bool,
    rounds: Option<usize>,
}

impl Bench {
    fn rounds(&self, usual: usize) -> usize {
        match self.rounds {
            Some(rounds) => rounds,
            None if self.quick => 3,
            None => usual,
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [child, kind, arguments @ ..] = &arguments[..]
        && child == child::CHILD
    {
        return work::child(kind, arguments);
    }
    let options = Options::read(arguments);
    let mut bench = Bench {
        server: Server::start(None),
        report: Report::default(),
        time: options.time(),
        quick: options.quick,
        rounds: options.rounds,
    };
    match options.engine {
        Some(engine) => engine.run(&mut bench, options.members),
        None => {
            println!(
                "redis-server {}, turns of {:?}",
                bench.server.version(),
                bench.time
            );
            let is_chosen =
                |name| options.only.is_empty() || options.only.iter().any(|it| it == name);
            let chosen = work::ALL.iter().filter(|work| is_chosen(work.name));
            chosen.for_each(|work| (work.run)(&mut bench));
        }
    }
    bench.report.print();
}

struct Options {
    engine: Option<&'static Engine>,
    members: usize,
    only: Vec<String>,
    quick: bool,
    rounds: Option<usize>,
    time: Option<Duration>,
}

impl Options {
    fn read(arguments: Vec<String>) -> Options {
        let mut options = Options {
            engine: None,
            members: 1,
            only: Vec::new(),
            quick: false,
            rounds: None,
            time: None,
        };
        let mut arguments = arguments.into_iter();
        while let Some(option) = arguments.next() {
            let mut value = || arguments.next().unwrap_or_default();
            match option.as_str() {
                "--help" | "-h" => {
                    println!("{HELP} {}", names().join(", "));
                    exit(0);
                }
                "--quick" => {
                    options.quick = true;
                    options.time = Some(Duration::from_millis(50));
                }
                "--engine" => {
                    let name = value();
                    let engine = engines::ALL.iter().find(|engine| engine.name == name);
                    let unknown = || refuse(&engines::unknown(&name));
                    options.engine = Some(engine.unwrap_or_else(unknown));
                }
                "--members" => options.members = number(&option, &value()) as usize,
                "--only" => {
                    options.only = value().split(',').map(str::to_owned).collect();
                    for name in &options.only {
                        if !names().contains(&name.as_str()) {
                            refuse(&format!("unknown workload `{name}`"));
                        }
                    }
                }
                "--rounds" => options.rounds = Some(number(&option, &value()) as usize),
                "--millis" => {
                    options.time = Some(Duration::from_millis(number(&option, &value())));
                }
                _ => refuse(&format!("unknown option `{option}`")),
            }
        }
        options
    }

    /// Returns the length of a turn. In other engines the first lock with a key may need more than later
    /// ones.
    fn time(&self) -> Duration {
        let usual = match self.engine {
            Some(_) => 500,
            None => 200,
        };
        self.time.unwrap_or(Duration::from_millis(usual))
    }
}

fn names() -> Vec<&'static str> {
    work::ALL.iter().map(|work| work.name).collect()
}

fn number(option: &str, value: &str) -> u64 {
    match value.parse() {
        Ok(number) if number > 0 => number,
        _ => refuse(&format!(
            "`{option}` needs a whole number greater than zero"
        )),
    }
}

fn refuse(why: &str) -> ! {
    eprintln!("{why}\n\n{HELP} {}", names().join(", "));
    exit(2);
}
