//! `locks revoke`: gets a lock back.

use crate::args::{Revoke, Server};
use crate::connect::connect_to_revoke;
use crate::exit::{BUSY, DONE, Failure, USAGE};
use crate::output::{ask, print, print_json, say};
use crate::show::{rest_of_lease, who};
use crate::text::{duration, escaped};
use lock_runtime::{ClaimInfo, LockManager, Revocation};
use serde_json::{Value, json};

pub(crate) async fn revoke(
    server: &Server,
    options: &Revoke,
    as_json: bool,
) -> Result<u8, Failure> {
    let locks = connect_to_revoke(server).await?;
    let meant = meant(&locks, options).await?;
    if !meant.is_empty() && !options.yes {
        confirm(options, &meant)?;
    }
    if !meant.is_empty() && !as_json {
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
    match as_json {
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
        let message = "no holder has this token; `locks show` prints them";
        return Err(Failure::new(USAGE, message));
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

fn confirm(options: &Revoke, meant: &[ClaimInfo]) -> Result<(), Failure> {
    let danger = match options.force {
        true => "; if it does not, take the lock away, so that two may run at once",
        false => "",
    };
    let question = format!("Ask {} to stop{danger}?", names(meant));
    match ask(&question) {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::new(USAGE, "nothing was done")),
        None => {
            let message = "nobody can be asked whether that is meant; add `--yes`";
            Err(Failure::new(USAGE, message))
        }
    }
}

fn names(holders: &[ClaimInfo]) -> String {
    let names: Vec<_> = holders.iter().map(|it| escaped(&who(it))).collect();
    names.join(" and ")
}

fn sentence(options: &Revoke, meant: &[ClaimInfo], revoked: &Revocation) -> String {
    let (key, holders) = (escaped(&options.key), names(meant));
    match revoked {
        Revocation::Stopped { after, .. } => {
            format!(
                "{key}: asked {holders}; stopped after {}\n",
                duration(*after)
            )
        }
        Revocation::Unconfirmed { after, .. } => {
            format!(
                "{key}: asked {holders}, who does not have it any more after {}, and has not said that it has stopped: its lease \
                 has ended, or another has taken the lock; it may still run\n",
                duration(*after)
            )
        }
        Revocation::NotStopped { holders: left, .. } => {
            if meant.iter().all(|it| it.process().is_none()) && !options.force {
                return format!(
                    "{key}: {holders} has it, which cannot be asked; make sure that it is dead, then `--force`\n"
                );
            }
            let lease = left.first().map(rest_of_lease).unwrap_or_default();
            let advice = match options.force {
                true => "",
                false => ", or `--force`, so that two may run at once",
            };
            format!(
                "{key}: asked {holders}, who still has it; its lease: {lease}; repeat it with a longer `--grace`{advice}\n"
            )
        }
        Revocation::Taken { fencing_token, .. } => format!(
            "{key}: taken from {holders}; writes with a fencing token below {fencing_token} are late\n"
        ),
        Revocation::InTransaction { fencing_token, .. } => format!(
            "{key}: taken from {holders}, but free only when the transaction ends that has proven it; writes with a \
             fencing token below {fencing_token} are late\n"
        ),
        _ if meant.is_empty() => format!("{key}: free\n"),
        _ => format!("{key}: released by {holders} meanwhile\n"),
    }
}

fn object(key: &str, revoked: &Revocation) -> Value {
    match revoked {
        Revocation::Stopped { after, .. } => {
            let ms = u64::try_from(after.as_millis()).ok();
            json!({ "key": key, "outcome": "stopped", "after_ms": ms })
        }
        Revocation::Unconfirmed { after, .. } => {
            let ms = u64::try_from(after.as_millis()).ok();
            json!({ "key": key, "outcome": "unconfirmed", "after_ms": ms })
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
