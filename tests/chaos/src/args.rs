//! The command line.

use std::path::PathBuf;
use std::process::exit;
use std::str::FromStr;

use crate::deployment::Topology;

const HELP: &str = "\
Injects faults into servers, networks and processes while a few processes compete for locks, and
checks the recorded history.

    chaos [options]
    chaos row NUMBER …     rows of the table in RELIABILITY.md, until each has had its faults
    chaos seeded [RULE …]  remove rules from a copy of the library one by one; each must be detected
                           (with --compile: the library must compile without each)
    chaos provoke SCENE S  repeat a scene for S seconds or until a violation is found

    --minutes N        duration of the run; default 2
    --schedules N      number of schedules, instead of a duration
    --on A,B           topologies: memory, standalone, sentinel, cluster, quorum, postgres,
                       etcd, zookeeper, mariadb, sqlite; default the first five; scenes are played
                       on these instead of their own, also to detect rules and to provoke
    --scene A,B        these scenes only; by default a third of all schedules are scenes
    --seed S           replay one schedule, on the first of those topologies or scenes
    --lanes N          concurrent schedules; default 4
    --report FILE      also write the report to FILE
    --trace FILE       write the schedule with the most faults and holds for ui.perfetto.dev
    --compile          compile the library without each rule, and play nothing
";

pub struct Args {
    pub minutes: f64,
    pub schedules: Option<u64>,
    pub on: Vec<Topology>,
    pub scenes: Vec<String>,
    pub seed: Option<u64>,
    pub lanes: usize,
    pub report: Option<PathBuf>,
    pub trace: Option<PathBuf>,
    pub compile: bool,
    /// Arguments that are not options.
    pub words: Vec<String>,
}

impl Args {
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut args = Self {
            minutes: 2.0,
            schedules: None,
            on: Vec::new(),
            scenes: Vec::new(),
            seed: None,
            lanes: 4,
            report: None,
            trace: None,
            compile: false,
            words: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().unwrap_or_default();
            match argument.as_str() {
                "--minutes" => args.minutes = number(&argument, &value()),
                "--schedules" => args.schedules = Some(number(&argument, &value())),
                "--on" => args.on = value().split(',').map(topology).collect(),
                "--scene" => args.scenes = value().split(',').map(str::to_owned).collect(),
                "--seed" => args.seed = Some(number(&argument, &value())),
                "--lanes" => args.lanes = number(&argument, &value()),
                "--report" => args.report = Some(value().into()),
                "--trace" => args.trace = Some(value().into()),
                "--compile" => args.compile = true,
                "--help" => {
                    print!("{HELP}");
                    exit(0);
                }
                option if option.starts_with("--") => leave(&format!("unknown option `{option}`")),
                _ => args.words.push(argument),
            }
        }
        args
    }
}

fn topology(name: &str) -> Topology {
    Topology::named(name).unwrap_or_else(|| leave(&format!("unknown topology `{name}`")))
}

fn number<T: FromStr>(option: &str, value: &str) -> T {
    let number = value.parse();
    number.unwrap_or_else(|_| leave(&format!("`{option}` takes a number, not `{value}`")))
}

/// Prints `why` and the help, and exits with status 2.
pub fn leave(why: &str) -> ! {
    eprintln!("{why}\n\n{HELP}");
    exit(2);
}
