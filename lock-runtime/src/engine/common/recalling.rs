//! Recalling a lock from a process that may keep it for its next call.

use crate::engine::event::EngineEvent;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::util::sync::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// After how long a recall is repeated at first, and at last: it may have been lost, or the body goes on.
const REPEAT: Duration = Duration::from_millis(500);
const LAST_REPEAT: Duration = Duration::from_secs(30);
/// From how many claims on those are forgotten that recall nothing any more.
const MANY: usize = 256;

/// What the claims of this process have recalled.
#[derive(Default)]
pub(crate) struct Recalling(Mutex<HashMap<Token, Recall>>);

struct Recall {
    holder: Token,
    at: Instant,
    pause: Duration,
}

impl Recalling {
    /// Returns the text by which the claim recalls the lock, if it is time for that.
    pub(crate) fn text(
        &self,
        claim: &Claim,
        ahead: u64,
        holder: Token,
        now: Instant,
    ) -> Option<String> {
        if !claim.recalls(ahead, holder) {
            return None;
        }
        let mut all = self.0.lock();
        let last = all.get(&claim.token).filter(|it| it.holder == holder);
        if last.is_some_and(|it| now < it.at + it.pause) {
            return None;
        }
        let recall = Recall {
            holder,
            at: now,
            pause: last.map_or(REPEAT, |it| (it.pause * 2).min(LAST_REPEAT)),
        };
        if last.is_none() && all.len() >= MANY && all.len().is_power_of_two() {
            all.retain(|_, it| now < it.at + 2 * LAST_REPEAT);
        }
        all.insert(claim.token, recall);
        Some(format!("{holder} {}", claim.name))
    }
}

/// Reads such a text, which any client may have written.
pub(crate) fn recalled(text: &str) -> Option<EngineEvent> {
    let (token, name) = text.split_once(' ')?;
    Some(EngineEvent::Recalled {
        name: name.into(),
        token: Token::parse(token)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;
    use crate::process::ProcessId;
    use crate::util::time::now;

    fn claim() -> Claim {
        Claim {
            name: "lock:a b".into(),
            token: Token::draw(ProcessId::random()),
            ttl: Duration::from_secs(1),
            replicas: 0,
        }
    }

    #[test]
    fn a_lock_is_recalled_from_another_process_that_may_keep_it() {
        let (claim, holder) = (claim(), Token::draw(ProcessId::random()));
        let recallable = holder.recallable();
        for (ahead, holder, expected) in [
            (2, recallable, true),
            (3, recallable, false),
            (0, holder, false),
            (0, recallable.with_limit(Limit::UNLIMITED), false),
            (0, claim.token.recallable(), false),
        ] {
            assert_eq!(claim.recalls(ahead, holder), expected, "{holder} {ahead}");
        }
    }

    #[test]
    fn a_recall_is_repeated_less_and_less() {
        let (recalling, claim) = (Recalling::default(), claim());
        let holders = [(); 2].map(|()| Token::draw(ProcessId::random()).recallable());
        let mut recalled_at = Vec::new();
        let start = now();
        for after in (0..90_000).step_by(100) {
            let at = start + Duration::from_millis(after);
            if let Some(text) = recalling.text(&claim, 0, holders[0], at) {
                let Some(EngineEvent::Recalled { name, token }) = recalled(&text) else {
                    panic!("{text}");
                };
                assert_eq!((&*name, token), ("lock:a b", holders[0]));
                recalled_at.push(after);
            }
        }
        assert_eq!(
            recalled_at,
            [0, 500, 1500, 3500, 7500, 15_500, 31_500, 61_500]
        );
        assert!(recalling.text(&claim, 0, holders[1], start).is_some());
    }
}
