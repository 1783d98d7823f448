use super::program::Program;
use lock_test_support::server::Server;

const REPLICAS: [&str; 3] = ["a", "b", "c"];
const RUNS: usize = 8;

#[test]
fn replicas_run_the_job_one_at_a_time() {
    let server = Server::start();
    let replicas = REPLICAS.map(|name| {
        let runs = RUNS.to_string();
        let arguments = ["--name", name, "--every", "0.3", "--runs", &runs];
        Program::start("worker", &arguments, Some(&server.url()))
    });
    let lines: Vec<String> = replicas.into_iter().flat_map(Program::succeeds).collect();
    let at = |what: &str| -> Vec<u64> {
        let said = lines
            .iter()
            .filter(|line| line.ends_with(&format!("  {what}")));
        let mut times: Vec<u64> = said.map(|line| milliseconds(line)).collect();
        times.sort_unstable();
        times
    };
    let starts = at("runs the job");
    let ends = at("is done");
    let skips = at("skipped: another replica has it");
    println!("{}", lines.join("\n"));
    assert_eq!(
        starts.len() + skips.len(),
        REPLICAS.len() * RUNS,
        "each replica runs or skips each time"
    );
    assert_eq!(starts.len(), ends.len());
    assert!(starts.len() >= RUNS / 2, "the job runs");
    assert!(
        !skips.is_empty(),
        "at least one replica finds the lock held"
    );
    for run in 0..starts.len() - 1 {
        assert!(ends[run] >= starts[run] + 149);
        assert!(starts[run + 1] >= ends[run], "two replicas ran at once");
    }
}

#[test]
fn stopped_replica_leaves_no_lock() {
    let server = Server::start();
    let arguments = ["--name", "a", "--every", "1"];
    let replica = Program::start("worker", &arguments, Some(&server.url()));
    replica.line("runs the job");
    assert!(server.exists("lock:job:report"));
    replica.terminate();
    let last = replica.succeeds().pop().unwrap();
    assert!(last.ends_with("stops"), "in the middle of the job: {last}");
    assert!(!server.exists("lock:job:report"));
}

/// Returns the line's time since midnight.
fn milliseconds(line: &str) -> u64 {
    let (time, _) = line.split_once("  ").unwrap();
    let (seconds, millis) = time.split_once('.').unwrap();
    let seconds = seconds
        .split(':')
        .fold(0, |sum, part| sum * 60 + part.parse::<u64>().unwrap());
    seconds * 1000 + millis.parse::<u64>().unwrap()
}
