//! `locks processes`: who uses locks.

use crate::answers::settled;
use crate::args::Server;
use crate::connect::{connect_to_look, say_where};
use crate::exit::{DONE, Failure};
use crate::output::{is_json, print, print_json};
use crate::table::table;
use crate::text::{age, duration, millis, timestamp};
use lock_runtime::ProcessInfo;
use serde_json::{Value, json};

pub(crate) async fn processes(server: &Server) -> Result<u8, Failure> {
    let locks = connect_to_look(server).await?;
    let look = async || Ok(locks.processes().await?);
    let awaits = |found: &Vec<ProcessInfo>| found.iter().any(ProcessInfo::is_awaited);
    let found = settled(&locks, look, awaits).await?;
    match is_json() {
        true => found
            .iter()
            .for_each(|process| print_json(&object(process))),
        false if found.is_empty() => {
            print("no process has reported\n");
            say_where(server);
        }
        false => {
            let names = [
                "PROCESS", "SERVICE", "VERSION", "HOST", "PID", "HELD", "WAITING", "LOST",
                "STARTED", "REPORTED",
            ];
            print(&table(names, found.iter().map(row).collect()));
        }
    }
    Ok(DONE)
}

fn row(process: &ProcessInfo) -> [String; 10] {
    let count = |count: Option<u64>| count.map_or(String::new(), |count| count.to_string());
    [
        process.id().to_string(),
        process.service().to_owned(),
        process.version().unwrap_or_default().to_owned(),
        process.host().unwrap_or_default().to_owned(),
        process.pid().to_string(),
        count(process.held()),
        count(process.waiting()),
        count(process.lost()),
        format!("{} ago", duration(age(process.started()))),
        reported(process),
    ]
}

fn reported(process: &ProcessInfo) -> String {
    match (process.age().map(duration), process.silence().map(duration)) {
        (Some(age), None) => format!("{age} ago"),
        (Some(age), Some(_)) => format!("{age} ago, silent"),
        (None, Some(silence)) => format!("silent for {silence}"),
        (None, None) => String::new(),
    }
}

pub(crate) fn object(process: &ProcessInfo) -> Value {
    json!({
        "process": process.id().to_string(),
        "service": process.service(),
        "version": process.version(),
        "host": process.host(),
        "pid": process.pid(),
        "held": process.held(),
        "waiting": process.waiting(),
        "lost": process.lost(),
        "started": timestamp(process.started()),
        "age_ms": process.age().map(millis),
        "silent_ms": process.silence().map(millis),
    })
}
