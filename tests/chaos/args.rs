//! The command line.

use std::path::PathBuf;
use std::process::exit;
use std::str::FromStr;

const HELP: &str = "\
Makes servers, networks and processes go wrong while a few processes compete for locks, and looks at
what came of it.

    chaos [options]
    chaos row NUMBER …     rows of the table in RELIABILITY.md, until each has had its faults
    chaos seeded [RULE …]  rules of the library left out, one by one: each is found
    chaos provoke SCENE S  a scene again and again, for S seconds or until something is found

    --minutes N        for so long; 2 if nothing is said
    --schedules N      so many schedules instead
    --on A,B           where: memory, standalone, sentinel, cluster, quorum; all if nothing is said
    --scene A,B        these scenes only; a third of all is scenes if nothing is said
    --seed S           one schedule again, on the first of those places or scenes
    --lanes N          so many schedules at a time; 4 if nothing is said
    --report FILE      writes the report there, too
    --timeline FILE    draws the liveliest schedule as an SVG: who held what, and what went wrong
";

pub struct Args {
    pub minutes: f64,
    pub schedules: Option<u64>,
    pub on: Vec<String>,
    pub scenes: Vec<String>,
    pub seed: Option<u64>,
    pub lanes: usize,
    pub report: Option<PathBuf>,
    pub timeline: Option<PathBuf>,
    /// What is no option.
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
            timeline: None,
            words: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().unwrap_or_default();
            match argument.as_str() {
                "--minutes" => args.minutes = number(&argument, &value()),
                "--schedules" => args.schedules = Some(number(&argument, &value())),
                "--on" => args.on = value().split(',').map(str::to_owned).collect(),
                "--scene" => args.scenes = value().split(',').map(str::to_owned).collect(),
                "--seed" => args.seed = Some(number(&argument, &value())),
                "--lanes" => args.lanes = number(&argument, &value()),
                "--report" => args.report = Some(value().into()),
                "--timeline" => args.timeline = Some(value().into()),
                "--help" => {
                    print!("{HELP}");
                    exit(0);
                }
                option if option.starts_with("--") => leave(&format!("`{option}` is no option")),
                _ => args.words.push(argument),
            }
        }
        args
    }
}

fn number<T: FromStr>(option: &str, value: &str) -> T {
    let number = value.parse();
    number.unwrap_or_else(|_| leave(&format!("`{option}` wants a number, not `{value}`")))
}

/// There is nothing to be done but to say why.
pub fn leave(why: &str) -> ! {
    eprintln!("{why}\n\n{HELP}");
    exit(2);
}
