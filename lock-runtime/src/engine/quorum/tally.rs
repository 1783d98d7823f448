//! What the members answered to a question that takes yes or no.

use crate::engine::error::EngineError;
use crate::engine::quorum::majority::{NoMajority, Said};
use crate::engine::quorum::members::Members;
use crate::engine::quorum::votes::majority;

#[derive(Clone)]
pub(crate) struct Tally {
    answers: Vec<Option<Result<bool, EngineError>>>,
}

impl Tally {
    pub(crate) fn new(members: usize) -> Tally {
        Tally {
            answers: vec![None; members],
        }
    }

    pub(crate) fn enter(&mut self, member: usize, answer: Result<bool, EngineError>) {
        self.answers[member] = Some(answer);
    }

    /// Whether a majority says yes, as soon as that is certain.
    pub(crate) fn decided(&self) -> Option<bool> {
        let members = self.answers.len();
        if self.count(true) >= majority(members) {
            Some(true)
        } else if self.count(false) > members - majority(members) {
            Some(false)
        } else {
            None
        }
    }

    /// Why it is not certain, member by member.
    pub(crate) fn error(
        &self,
        members: &Members,
        yes: &'static str,
        no: &'static str,
    ) -> EngineError {
        let said = self.answers.iter().map(|answer| match answer {
            None => Said::Words("no answer yet"),
            Some(Ok(answer)) => Said::Words(if *answer { yes } else { no }),
            Some(Err(error)) => Said::Failed(error.clone()),
        });
        NoMajority::error(&members.all, said)
    }

    fn count(&self, answer: bool) -> usize {
        let same = |it: &&Option<_>| matches!(it, Some(Ok(said)) if *said == answer);
        self.answers.iter().filter(same).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::error::Fault;

    #[test]
    fn it_is_decided_as_soon_as_the_rest_can_change_nothing() {
        for (said, decided) in [
            ("yy-", Some(true)),
            ("y-y", Some(true)),
            ("nn-", Some(false)),
            ("yn-", None),
            ("ynx", None),
            ("xx-", None),
            ("yynn-", None),
            ("yynny", Some(true)),
            ("xnnxn", Some(false)),
        ] {
            let mut tally = Tally::new(said.len());
            for (member, letter) in said.bytes().enumerate() {
                match letter {
                    b'-' => {}
                    b'x' => tally.enter(member, Err(EngineError::new(Fault::Down, "as told"))),
                    _ => tally.enter(member, Ok(letter == b'y')),
                }
            }
            assert_eq!(tally.decided(), decided, "{said}");
        }
    }
}
