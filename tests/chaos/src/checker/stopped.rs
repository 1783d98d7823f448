//! A revocation says that the holder has stopped only once its body runs no more, whoever else has taken its lock, and
//! whether or not its lease has ended.

use super::{Case, Rule, Verdict};
use crate::journal::Answer;
use crate::revocation::Whom;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for revocation in &case.revocations {
        let (Some(Answer::Stopped), Some(until)) = (&revocation.answer, revocation.until) else {
            continue;
        };
        let Whom::Worker {
            worker,
            exclusive: true,
        } = revocation.whom
        else {
            continue;
        };
        // Another body may have got the lock since.
        let is_meant = |began: u64| began < revocation.seen;
        let calls = case.by_key.get(&revocation.key).into_iter().flatten();
        let calls = calls.map(|call| &case.calls[*call]);
        let mut calls = calls.filter(|call| call.worker == worker);
        let runs_on = calls.find(|call| {
            call.began().is_some_and(|look| is_meant(look.at))
                && call.looks.last().is_some_and(|look| look.at > until)
        });
        if let Some(call) = runs_on {
            let text = format!(
                "worker {worker} had stopped, a revocation said at {}; its call {} for key {} ran on",
                case.when(until),
                call.number,
                call.key
            );
            verdict.broken(Rule::Stopped, text);
        }
    }
}
