//! Getting a lock back from its holders.

use crate::engine::operations::Taken;
use crate::engine::token::Token;
use crate::error::LockError;
use crate::lock::asks::{Ask, RevokeRequest, Stop};
use crate::lock::context::Context;
use crate::lock::inspect::{inspect, viewed};
use crate::lock_info::{ClaimInfo, LockInfo, Mode};
use crate::revocation::Revocation;
use crate::trace;
use crate::util::time::{deadline_in, elapsed_since, now};
use std::collections::HashSet;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

/// How often the holders are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// After how many looks the ask is repeated: its message may have been lost, or have come before the hold.
const REPEAT: u32 = 10;

/// How many holders one text names, unless the key is long.
const AT_ONCE: usize = 32;
const LONG: usize = 1024;

/// From whom to get a lock back, and how.
pub(crate) struct RevokeOptions {
    pub(crate) target: Target,
    pub(crate) by: String,
    pub(crate) reason: String,
    pub(crate) grace: Duration,
    pub(crate) force: bool,
}

pub(crate) enum Target {
    /// The one that holds it.
    Sole,
    All,
    /// The one with that token; not a body to which its process has handed the lock on after more handoffs
    /// than that.
    Token(Box<str>, Option<u32>),
}

impl RevokeOptions {
    fn handoffs(&self) -> Option<u32> {
        match self.target {
            Target::Token(_, handoffs) => handoffs,
            Target::Sole | Target::All => None,
        }
    }

    /// Returns `true` if the body has ended that is meant, once those have that got the lock by so many
    /// handoffs.
    fn ends_by(&self, handoffs: u32) -> bool {
        self.handoffs().is_some_and(|it| it <= handoffs)
    }
}

pub(crate) async fn revoke(
    context: &Context,
    key: &str,
    options: &RevokeOptions,
) -> Result<Revocation, LockError> {
    let begun = now();
    let found = inspect(context, key).await?;
    let targets = targets(&found, &options.target)?;
    if targets.is_empty() {
        return Ok(Revocation::NotHeld);
    }
    let (by, reason) = (&*options.by, &*options.reason);
    for holder in &targets {
        trace::revokes(key, by, reason, &holder.token, options.force);
    }
    let probe = Token::draw(context.process);
    let tokens = targets.iter().filter_map(|it| Token::parse(&it.token));
    let mut stopping = Stopping {
        context,
        key,
        options,
        answers: context.answers.about(tokens.chain([probe]).collect()),
        probe,
        targets,
        stopped: HashSet::new(),
    };
    let mut left = stopping.ask_all().await?;
    if options.force && !left.is_empty() {
        if let Some(taken) = take(context, key, &left).await? {
            return Ok(taken);
        }
        // Released by then, or no lock: a key of another type is left alone.
        left = stopping.left(inspect(context, key).await?);
    }
    if !left.is_empty() {
        return Ok(Revocation::NotStopped { holders: left });
    }
    let after = elapsed_since(begun);
    Ok(match stopping.have_all().await {
        true => Revocation::Stopped { after },
        false => Revocation::Unconfirmed { after },
    })
}

/// The holders that are to stop.
struct Stopping<'a> {
    context: &'a Context,
    key: &'a str,
    options: &'a RevokeOptions,
    answers: UnboundedReceiver<(Token, Stop)>,
    /// What this process answers itself, to find out that it hears answers.
    probe: Token,
    /// Those whose bodies are meant.
    targets: Vec<ClaimInfo>,
    /// The tokens of those whose bodies run no more.
    stopped: HashSet<Token>,
}

impl Stopping<'_> {
    /// Begins to hear answers.
    async fn listen(&mut self) {
        self.context.engine.listen();
        let probe = self.probe;
        let is_heard = |it: &Self| it.stopped.contains(&probe);
        for _ in 0..REPEAT {
            // Whoever may not ask may still take the lock.
            let said = self.context.say_stopped(vec![probe], Stop::Ended).await;
            if said.is_err() {
                break;
            }
            self.hear(deadline_in(LOOK), false, is_heard).await;
            if is_heard(self) {
                break;
            }
        }
    }

    /// Asks them until none has the lock, or the grace is over. Returns those that have it.
    async fn ask_all(&mut self) -> Result<Vec<ClaimInfo>, LockError> {
        let (context, key) = (self.context, self.key);
        let mut left = self.targets.clone();
        // Another client cannot be asked.
        let can_be_asked = left.iter().any(|it| token(it).is_some());
        if can_be_asked {
            self.listen().await;
        }
        let deadline = deadline_in(self.options.grace);
        let mut looks = 0;
        while can_be_asked && !left.is_empty() && (looks == 0 || now() < deadline) {
            if looks % REPEAT == 0 {
                let sent = send(context, key, &left, self.options).await;
                // Whoever may not ask may still take the lock.
                if !self.options.force {
                    sent?;
                }
            }
            looks += 1;
            self.hear(deadline_in(LOOK).min(deadline), false, |_| false)
                .await;
            left = self.left(viewed(context, &context.name_of(key)).await?);
        }
        match left.is_empty() {
            true => Ok(left),
            false => Ok(self.left(inspect(context, key).await?)),
        }
    }

    /// Returns those that still hold the lock.
    fn left(&self, found: LockInfo) -> Vec<ClaimInfo> {
        let is_meant = |it: &ClaimInfo| self.targets.iter().any(|meant| meant.token == it.token);
        found.holders.into_iter().filter(is_meant).collect()
    }

    /// Returns `true` once the processes of all, who hold the lock no more, have said that their bodies have
    /// stopped: a lease may have ended, or another may have taken the lock, while a body runs on. Waits for
    /// at most a command timeout.
    async fn have_all(&mut self) -> bool {
        let deadline = deadline_in(self.context.command_timeout);
        let can_answer = |it: &ClaimInfo| token(it).is_some();
        while !self.is_over() && self.targets.iter().all(can_answer) && now() < deadline {
            // No more than there is room for, there and here.
            let missing = self.targets.iter().filter(|it| !self.has_stopped(it));
            let missing: Vec<_> = missing.take(AT_ONCE).cloned().collect();
            let sent = send(self.context, self.key, &missing, self.options).await;
            if sent.is_err() {
                break;
            }
            let again = deadline_in(LOOK * REPEAT).min(deadline);
            let have = |it: &Self| missing.iter().all(|holder| it.has_stopped(holder));
            self.hear(again, true, have).await;
        }
        self.is_over()
    }

    fn is_over(&self) -> bool {
        self.targets.iter().all(|it| self.has_stopped(it))
    }

    fn has_stopped(&self, holder: &ClaimInfo) -> bool {
        let token = Token::parse(&holder.token);
        token.is_some_and(|token| self.stopped.contains(&token))
    }

    /// Hears answers until then, or until one comes that is awaited. `gone`: none that is meant holds the
    /// lock any more.
    async fn hear(&mut self, until: Instant, gone: bool, is_awaited: impl Fn(&Self) -> bool) {
        let io = self.context.io;
        let heard = async {
            while !is_awaited(self)
                && let Some((token, how)) = self.answers.recv().await
            {
                match how {
                    // It passes the same token on. Another operator may mean the body that has it now.
                    Stop::PassedOn(handoffs) if self.options.ends_by(handoffs) => {
                        let is_other = |it: &ClaimInfo| Token::parse(&it.token) != Some(token);
                        self.targets.retain(is_other);
                    }
                    how if gone || how == Stop::Ended => {
                        self.stopped.insert(token);
                    }
                    _ => {}
                }
            }
        };
        let _ = io.timeout_at(until, heard).await;
    }
}

/// Returns the holders that are to lose the lock.
fn targets(found: &LockInfo, target: &Target) -> Result<Vec<ClaimInfo>, LockError> {
    let holders = found.holders();
    match target {
        Target::All => Ok(holders.to_vec()),
        Target::Token(token, handoffs) => {
            let meant = holders.iter().filter(|it| it.token == *token);
            let has_it = |it: &&ClaimInfo| {
                let meant = handoffs.filter(|_| it.mode != Mode::Read);
                let both = it.handoffs().zip(meant);
                both.is_none_or(|(now, then)| now <= then)
            };
            Ok(meant.filter(has_it).cloned().collect())
        }
        Target::Sole => {
            // A member of a quorum may have one that holds nothing, and is in the way.
            let mut owners = holders.iter().filter(|it| it.is_holder());
            match (owners.next(), owners.next()) {
                (Some(_), Some(_)) => Err(LockError::InvalidOption {
                    option: "token",
                    reason: "several share the lock; name one of them by its token, or say that all are meant",
                }),
                (Some(sole), None) => Ok(vec![sole.clone()]),
                (None, _) => Ok(holders.to_vec()),
            }
        }
    }
}

/// Returns the holder's token; `None` for another client, which cannot be asked.
fn token(holder: &ClaimInfo) -> Option<Token> {
    holder.process().and_then(|_| Token::parse(&holder.token))
}

async fn send(
    context: &Context,
    key: &str,
    holders: &[ClaimInfo],
    options: &RevokeOptions,
) -> Result<(), LockError> {
    let tokens: Vec<_> = holders.iter().filter_map(token).collect();
    let at_once = if key.len() > LONG { 1 } else { AT_ONCE };
    for tokens in tokens.chunks(at_once) {
        let ask = Ask::Revoke(RevokeRequest {
            key: key.into(),
            tokens: tokens.to_vec(),
            handoffs: options.handoffs(),
            by: options.by.as_str().into(),
            reason: options.reason.as_str().into(),
        });
        let deadline = deadline_in(context.command_timeout);
        let sent = context.engine.ask(&ask.to_string(), deadline).await;
        sent.map_err(|error| context.unavailable(&context.name_of(key), error))?;
    }
    Ok(())
}

async fn take(
    context: &Context,
    key: &str,
    holders: &[ClaimInfo],
) -> Result<Option<Revocation>, LockError> {
    let name = context.name_of(key);
    let mut all = Vec::new();
    for holder in holders {
        let deadline = deadline_in(context.command_timeout);
        let at_least = greatest(&all);
        let taken = context
            .engine
            .take(&name, &holder.token, at_least, deadline);
        let taken = taken.await;
        all.push(taken.map_err(|error| context.unavailable(&name, error))?);
    }
    Ok(outcome(&all))
}

fn outcome(all: &[Taken]) -> Option<Revocation> {
    let fencing_token = greatest(all);
    match all.iter().any(|taken| taken.pinned) {
        _ if !all.iter().any(was_taken) => None,
        true => Some(Revocation::InTransaction { fencing_token }),
        false => Some(Revocation::Taken { fencing_token }),
    }
}

/// Returns `true` unless the lock had been released by then.
fn was_taken(taken: &Taken) -> bool {
    taken.held || taken.pinned
}

/// Returns the greatest number of those that were drawn against a holder. If a lock had been released by
/// then, others may have it with a number below the one that was drawn.
fn greatest(all: &[Taken]) -> u64 {
    let taken = all.iter().filter(|taken| was_taken(taken));
    let numbers = taken.map(|taken| taken.fencing_token);
    numbers.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(held: bool, fencing_token: u64) -> Taken {
        Taken {
            held,
            pinned: false,
            fencing_token,
        }
    }

    /// Another operator may mean the body before.
    #[test]
    fn handoff_ends_the_body_that_had_the_lock_before() {
        let ends = |handoffs, by| {
            let options = RevokeOptions {
                target: Target::Token("?".into(), handoffs),
                by: String::new(),
                reason: String::new(),
                grace: Duration::ZERO,
                force: false,
            };
            options.ends_by(by)
        };
        assert!(ends(Some(2), 2) && ends(Some(2), 3));
        assert!(!ends(Some(3), 2) && !ends(None, 2));
    }

    #[test]
    fn number_that_was_drawn_against_no_holder_is_not_returned() {
        assert_eq!(outcome(&[taken(false, 7)]), None);
        let fencing_token = 7;
        let revoked = Some(Revocation::Taken { fencing_token });
        assert_eq!(outcome(&[taken(true, 7), taken(false, 9)]), revoked);
        assert_eq!(outcome(&[taken(false, 5), taken(true, 7)]), revoked);
        let pinned = Taken {
            pinned: true,
            ..taken(false, 7)
        };
        let revoked = Some(Revocation::InTransaction { fencing_token });
        assert_eq!(outcome(&[pinned]), revoked);
        assert_eq!(outcome(&[pinned, taken(true, 6)]), revoked);
    }
}
