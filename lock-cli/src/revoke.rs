//! `locks revoke`: gets a lock back.

use crate::args::{Revoke, Server};
use crate::connect::{connect_to_revoke, say_where};
use crate::exit::{BUSY, DONE, Failure, USAGE};
use crate::output::{ask, is_json, print, print_json, say};
use crate::show::{rest_of_lease, who};
use crate::text::{duration, escaped, millis};
use lock_runtime::{ClaimInfo, LockManager, Revocation};
use serde_json::{Value, json};

pub(crate) async fn revoke(server: &Server, options: &Revoke) -> Result<u8, Failure> {
    let locks = connect_to_revoke(server).await?;
    let meant = meant(&locks, options).await?;
    if !meant.is_empty() {
        confirm(options, &meant)?;
    } else if !is_json() {
        say_where(server);
    }
    // Another client is not asked.
    if meant.iter().any(|it| it.process().is_some()) && !is_json() {
        say(&format!(
            "waiting up to {} for it to stop",
            duration(options.grace)
        ));
    }
    let by = options.by.clone().or_else(|| std::env::var("USER").ok());
    let revoke = locks
        .revoke(&*options.key)
        .reason(&*options.reason)
        .grace(options.grace);
    let revoke = revoke.by(by.unwrap_or_else(|| "locks".to_owned()));
    let revoke = match &meant[..] {
        [] => revoke.token(options.token.as_deref().unwrap_or_default()),
        // Not a body that gets the lock later.
        [sole] => revoke.holder(sole),
        _ => revoke.all(),
    };
    let revoked = match options.force {
        true => revoke.force().await?,
        false => revoke.await?,
    };
    match is_json() {
        true => print_json(&object(&options.key, &revoked)),
        false => print(&sentence(options, &meant, &revoked)),
    }
    Ok(match revoked {
        Revocation::NotStopped { .. } | Revocation::InTransaction { .. } => BUSY,
        _ => DONE,
    })
}

/// Returns the holders that are to stop.
async fn meant(locks: &LockManager, options: &Revoke) -> Result<Vec<ClaimInfo>, Failure> {
    let found = locks.inspect(&options.key).await?;
    let is_meant = |it: &&ClaimInfo| {
        let token = options.token.as_deref();
        token.is_none_or(|token| it.token().starts_with(token))
    };
    let meant: Vec<_> = found.holders().iter().filter(is_meant).cloned().collect();
    if meant.is_empty() && !found.holders().is_empty() {
        say(&format!(
            "no holder of `{}` has that token any more, so nothing is left to do: it is held by {}, who is not asked",
            options.key,
            names(found.holders())
        ));
    }
    if meant.len() > 1 && !options.all {
        for holder in &meant {
            say(&format!("{}  {}", holder.token(), who(holder)));
        }
        let message = format!(
            "{} share the lock; choose one by `--token`, or all of them by `--all`",
            meant.len()
        );
        return Err(Failure::new(USAGE, message));
    }
    Ok(meant)
}

/// Makes sure that these holders are meant: another may have the lock by now than the one that was seen.
fn confirm(options: &Revoke, meant: &[ClaimInfo]) -> Result<(), Failure> {
    let is_named = options.token.is_some() || options.all;
    if options.yes && is_named {
        return Ok(());
    }
    let danger = match options.force {
        true => "; if it does not, take the lock away, so that two may run at once",
        false => "",
    };
    let question = format!("Ask {} to stop{danger}?", escaped(&names(meant)));
    let reason = match (ask(&question), meant) {
        (Some(true), _) => return Ok(()),
        (Some(false), _) => "nothing was done".to_owned(),
        (None, [sole]) if !is_named => format!(
            "`{}` is held by {}, and there is no terminal to ask whether that is meant; add `--yes` and `--token {}`, or `--all` for \
             whoever has the lock",
            options.key,
            who(sole),
            sole.token()
        ),
        (None, _) => "there is no terminal to ask whether that is meant; add `--yes`".to_owned(),
    };
    Err(Failure::new(USAGE, reason))
}

fn names(holders: &[ClaimInfo]) -> String {
    let names: Vec<_> = holders.iter().map(who).collect();
    names.join(" and ")
}

fn sentence(options: &Revoke, meant: &[ClaimInfo], revoked: &Revocation) -> String {
    let (key, holders) = (escaped(&options.key), escaped(&names(meant)));
    match revoked {
        Revocation::Stopped { after, .. } => {
            format!(
                "{key}: asked {holders}; stopped after {}\n",
                duration(*after)
            )
        }
        Revocation::Unconfirmed { after, .. } => {
            format!(
                "{key}: asked {holders}, who does not have it any more after {}, and has not answered; unless its process has \
                 released the lock, its lease has ended, or another has taken the lock, and it may still run\n",
                duration(*after)
            )
        }
        Revocation::NotStopped { holders: left, .. } => {
            // The token: by then another may have the lock.
            let tokens: Vec<_> = left.iter().map(|it| escaped(it.token())).collect();
            let token = format!("`--token {}`", tokens.join("` or `--token "));
            if meant.iter().all(|it| it.process().is_none()) && !options.force {
                return format!(
                    "{key}: {holders} has it, which cannot be asked; make sure that it is dead, then add `--force` and {token}\n"
                );
            }
            let lease = left.first().map(rest_of_lease).unwrap_or_default();
            let advice = match options.force {
                true => "",
                false => ", or `--force`, so that two may run at once",
            };
            format!(
                "{key}: asked {holders}, who still has it, and may stop yet; its lease: {lease}; repeat it with {token}, and a longer \
                 `--grace`{advice}\n"
            )
        }
        Revocation::Taken { fencing_token, .. } => format!(
            "{key}: taken from {holders}; writes with a fencing token below {fencing_token} are late\n"
        ),
        Revocation::InTransaction { fencing_token, .. } => format!(
            "{key}: taken from {holders}, but free only when the transaction ends that has proven it; writes with a \
             fencing token below {fencing_token} are late\n"
        ),
        _ if meant.is_empty() => match options.token {
            Some(_) => format!("{key}: not held with that token\n"),
            None => format!("{key}: free\n"),
        },
        _ => format!("{key}: released by {holders} meanwhile\n"),
    }
}

fn object(key: &str, revoked: &Revocation) -> Value {
    match revoked {
        Revocation::Stopped { after, .. } => {
            json!({ "key": key, "outcome": "stopped", "after_ms": millis(*after) })
        }
        Revocation::Unconfirmed { after, .. } => {
            json!({ "key": key, "outcome": "unconfirmed", "after_ms": millis(*after) })
        }
        Revocation::NotStopped { holders, .. } => {
            let tokens: Vec<_> = holders.iter().map(ClaimInfo::token).collect();
            json!({ "key": key, "outcome": "not stopped", "tokens": tokens })
        }
        Revocation::Taken { fencing_token, .. } => {
            json!({ "key": key, "outcome": "taken", "fencing_token": fencing_token })
        }
        Revocation::InTransaction { fencing_token, .. } => {
            json!({ "key": key, "outcome": "in transaction", "fencing_token": fencing_token })
        }
        _ => json!({ "key": key, "outcome": "not held" }),
    }
}
