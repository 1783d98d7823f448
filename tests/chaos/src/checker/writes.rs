//! A resource that compares fencing tokens accepts no write with a token older than the last it accepted, so
//! no update is lost. A resource that does not compare them loses some, which the rule only counts.

use std::collections::HashMap;

use super::{Case, Rule, Verdict};

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    let fenced = case.history.promises.fenced;
    let mut greatest: HashMap<u32, u64> = HashMap::new();
    for write in &case.history.writes {
        verdict.writes += 1;
        if !write.accepted {
            verdict.refused += 1;
            continue;
        }
        let writer = format!("call {} of worker {}", write.call, write.worker);
        let key = write.key;
        let greatest = greatest.entry(key).or_default();
        if write.token < *greatest {
            verdict.stale += 1;
            if fenced {
                let text = format!(
                    "the write of {writer} with {} was accepted after {greatest}, key {key}",
                    write.token
                );
                verdict.broken(Rule::Writes, text);
            }
        }
        *greatest = write.token.max(*greatest);
        if write.read != write.found {
            verdict.lost_updates += 1;
            if fenced {
                let text = format!(
                    "{writer} had read {} and overwrote {}, key {key}",
                    write.read, write.found
                );
                verdict.broken(Rule::Writes, text);
            }
        }
    }
}
