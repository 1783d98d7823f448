//! A schedule as a trace, which [Perfetto](https://ui.perfetto.dev) draws: the calls of each worker, and the
//! faults.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::checker::{Call, Case};
use crate::fault::Fault;
use crate::history::History;
use crate::report::words;

/// The faults that hit no worker are shown as a process with this number, which no worker has.
const SERVERS: u32 = 1000;

/// Returns the trace as JSON, in the format of Chrome.
pub fn of(history: &History) -> String {
    let case = Case::new(history);
    let (start, events) = (case.start, Vec::new());
    let mut trace = Trace { start, events };
    trace.name(SERVERS, "servers and networks");
    let workers: BTreeSet<u32> = history.events.iter().map(|event| event.worker).collect();
    for worker in workers {
        trace.name(worker, &format!("worker {worker}"));
    }
    for call in &case.calls {
        trace.call(call, case.end);
    }
    for fault in &history.faults {
        trace.fault(fault);
    }
    for write in history.writes.iter().filter(|write| !write.accepted) {
        let name = format!("lock {}: write refused", write.key);
        let event = json!({ "ph": "i", "s": "p", "tid": 0, "args": write });
        trace.put(write.worker, write.at, &name, event);
    }
    json!({ "traceEvents": trace.events }).to_string()
}

struct Trace {
    start: u64,
    events: Vec<Value>,
}

impl Trace {
    fn name(&mut self, process: u32, name: &str) {
        let event = json!({ "ph": "M", "args": { "name": name } });
        self.put(process, self.start, "process_name", event);
    }

    /// `end`: the time of the last event.
    fn call(&mut self, call: &Call, end: u64) {
        let (worker, key, over) = (call.worker, call.key, call.over().unwrap_or(end));
        let args = json!({ "call": call.name(), "outcome": format!("{:?}", call.outcome()) });
        let waits = (call.called, call.waited_until().unwrap_or(end));
        self.span(worker, waits, &format!("lock {key}: waits"), &args);
        let Some(began) = call.began() else {
            return;
        };
        let lease = call.proof().map_or(began.at, |it| it.at + it.left);
        let (held, rest, words) = match call.outcome() {
            None => (over, over.max(lease), "lease of a call that was cut off"),
            Some(_) => (over.min(lease), over, "lease is over"),
        };
        let holds = (began.at, held);
        self.span(worker, holds, &format!("lock {key}: held"), &args);
        if held < rest {
            let name = format!("lock {key}: {words}");
            self.span(worker, (held, rest), &name, &args);
        }
    }

    fn fault(&mut self, fault: &Fault) {
        let processes = match fault.workers.is_empty() {
            true => &[SERVERS][..],
            false => &fault.workers,
        };
        let args = json!({ "fault": format!("{fault:?}") });
        let span = (fault.from, fault.until);
        for process in processes {
            self.span(*process, span, &words(fault.kind), &args);
        }
    }

    /// Adds a span, which may overlap others of the process.
    fn span(&mut self, process: u32, (from, until): (u64, u64), name: &str, args: &Value) {
        let id = self.events.len().to_string();
        for (phase, at) in [("b", from), ("e", until)] {
            let event = json!({ "ph": phase, "cat": "chaos", "id": id, "args": args });
            self.put(process, at, name, event);
        }
    }

    fn put(&mut self, process: u32, at: u64, name: &str, mut event: Value) {
        event["pid"] = process.into();
        event["ts"] = (at.saturating_sub(self.start) as f64 / 1e3).into();
        event["name"] = name.into();
        self.events.push(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::tests::generated::{self, World};

    #[test]
    fn every_hold_fault_and_refused_write_is_in_the_trace() {
        let world = World {
            stops: true,
            forgets: true,
            last_first: false,
        };
        let history = generated::history(world, 1);
        let trace: Value = serde_json::from_str(&of(&history)).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let count = |phase: &str, name: &str| {
            let has =
                |it: &&Value| it["ph"] == phase && it["name"].as_str().unwrap().ends_with(name);
            events.iter().filter(has).count()
        };
        assert_eq!(count("b", ": held"), Case::new(&history).holds().count());
        assert_eq!(count("b", ""), count("e", ""));
        let refused = history.writes.iter().filter(|write| !write.accepted);
        assert_eq!(count("i", ": write refused"), refused.count());
        assert!(count("b", "worker stopped") > 0 && count("b", ": lease is over") > 0);
    }
}
