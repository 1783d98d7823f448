//! What the members said where no majority agreed.

use crate::engine::error::{EngineError, Fault};
use crate::engine::member::Member;
use crate::engine::quorum::votes::majority;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The source of an error: each member's answer.
#[derive(Debug)]
pub(crate) struct NoMajority {
    said: Vec<(Box<str>, Said)>,
}

#[derive(Debug)]
pub(crate) enum Said {
    Words(&'static str),
    Failed(EngineError),
}

impl NoMajority {
    /// An error with the fault of as many as stand in the way of a majority.
    pub(crate) fn error(
        members: &[Arc<dyn Member>],
        said: impl Iterator<Item = Said>,
    ) -> EngineError {
        let addresses = members.iter().map(|member| member.address().into());
        let said: Vec<(Box<str>, Said)> = addresses.zip(said).collect();
        let in_the_way = said.len() + 1 - majority(said.len());
        let failed = |fault| {
            let failed = |said: &Said| matches!(said, Said::Failed(error) if error.fault == fault);
            said.iter().filter(|(_, said)| failed(said)).count() >= in_the_way
        };
        let fault = [Fault::Refused, Fault::Down]
            .into_iter()
            .find(|&fault| failed(fault));
        EngineError::new(fault.unwrap_or(Fault::Hindered), NoMajority { said })
    }
}

impl fmt::Display for NoMajority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = majority(self.said.len());
        write!(f, "no {needed} of {} members agreed", self.said.len())?;
        for (n, (address, said)) in self.said.iter().enumerate() {
            let separator = if n == 0 { ":" } else { ";" };
            write!(f, "{separator} `{address}`: {said}")?;
        }
        Ok(())
    }
}

impl Error for NoMajority {}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Said::Words(words) => f.write_str(words),
            Said::Failed(error) => {
                let words = match error.fault {
                    Fault::Down => "not reached",
                    Fault::Unanswered => "no answer",
                    Fault::Unacknowledged => "not acknowledged",
                    Fault::Hindered => "not ready",
                    Fault::Refused => "refused",
                };
                write!(f, "{words} ({error})")
            }
        }
    }
}
