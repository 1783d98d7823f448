//! Sentinels: they know which server is the master, and tell when another one is.
//!
//! Each of them is listened to, and asked from time to time should a message be lost. Of what they
//! say, what was decided last counts: each failover has a greater epoch than the one before. So a
//! Sentinel that was cut off from the others leads nobody back to a master of old.

use crate::engine::error::{EngineError, Fault};
use crate::engine::redis::net::connection::{Dialer, Sending, Subscriber};
use crate::engine::redis::net::reconnect::Link;
use crate::engine::redis::net::target::{Access, Target, invalid};
use crate::engine::redis::net::url::{Hosts, written};
use crate::engine::redis::topology::Site;
use crate::engine::timeouts::Timeouts;
use crate::error::LockError;
use crate::trace;
use crate::util::backoff::fraction;
use crate::util::io_thread::{Io, after, kept};
use redis::Cmd;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

/// How often each Sentinel is asked.
const PERIOD: Duration = Duration::from_secs(1);

const PORT: u16 = 26379;

/// The Sentinels of one master. Nobody listens to them any more when this is dropped.
pub(crate) struct Sentinels {
    watch: Arc<Watch>,
    listeners: Vec<JoinHandle<()>>,
}

struct Watch {
    name: String,
    addresses: Vec<String>,
    /// How to speak to the master, wherever it is.
    server: Target,
    said: watch::Sender<Said>,
    /// How many masters there have been.
    masters: AtomicU64,
    /// For each Sentinel: it is to be asked now.
    hurry: Vec<Notify>,
}

/// What has been said so far.
struct Said {
    /// By each Sentinel.
    views: Vec<Option<Result<View, EngineError>>>,
    master: Option<(Arc<Target>, Address)>,
}

/// What a Sentinel said last; it stands until the same Sentinel says otherwise.
#[derive(Clone, Debug, PartialEq)]
struct View {
    epoch: u64,
    master: Address,
    /// How long the master must be silent before it counts as down.
    down_after: Option<Duration>,
}

type Address = (String, u16);

/// The time of one master.
#[derive(Clone)]
pub(crate) struct Tenure {
    watch: Arc<Watch>,
    number: u64,
}

impl Sentinels {
    /// Reads a URL like `redis-sentinel://user:password@h1,h2,h3/mymaster/0` and starts listening.
    pub(crate) fn start(
        io: Io,
        url: &str,
        access: &Access<'_>,
        own_credentials: Option<&(String, String)>,
        timeouts: Timeouts,
    ) -> Result<Sentinels, LockError> {
        let tls = url.starts_with("rediss");
        let (hosts, name, database) = read(url)?;
        let server = access.with(access.credentials.or(hosts.credentials.as_ref()));
        // Where it is, the Sentinels will say.
        let server = Target::at("", 0, tls, database, &server)?;
        let access = access.with(own_credentials);
        let targets = hosts.hosts.iter();
        let targets: Vec<Target> = targets
            .map(|(host, port)| Target::at(host, *port, tls, 0, &access))
            .collect::<Result<_, _>>()?;
        let watch = Arc::new(Watch {
            name,
            addresses: hosts.hosts.iter().map(written).collect(),
            server,
            said: watch::Sender::new(Said {
                views: vec![None; targets.len()],
                master: None,
            }),
            masters: AtomicU64::new(0),
            hurry: targets.iter().map(|_| Notify::new()).collect(),
        });
        let listen = |(number, target)| {
            let dialer = watch.clone().dialer(io, number, target, timeouts);
            let watch = watch.clone();
            io.spawn(kept(move || listen(watch.clone(), number, dialer.clone())))
        };
        Ok(Sentinels {
            listeners: targets.into_iter().enumerate().map(listen).collect(),
            watch,
        })
    }

    /// The master and its time, as soon as a Sentinel has named it; an error if none can.
    pub(crate) async fn master(&self) -> Result<(Arc<Target>, Tenure), EngineError> {
        let mut said = self.watch.said.subscribe();
        let settled = said.wait_for(|said| said.master.is_some() || said.is_hopeless());
        let Ok(said) = settled.await else {
            return Err(EngineError::new(Fault::Down, "nobody listens any more"));
        };
        match &said.master {
            Some((target, _)) => Ok((
                target.clone(),
                Tenure {
                    number: self.watch.masters.load(Ordering::Acquire),
                    watch: self.watch.clone(),
                },
            )),
            None => Err(self.watch.failure(&said)),
        }
    }

    /// How soon a master that is silent counts as down, for the most impatient of them.
    pub(crate) fn down_after(&self) -> Option<Duration> {
        let said = self.watch.said.borrow();
        let views = said.views.iter().flatten().flatten();
        views.filter_map(|view| view.down_after).min()
    }

    /// Asks all of them now.
    pub(crate) fn hurry(&self) {
        self.watch.hurry.iter().for_each(Notify::notify_one);
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        self.listeners.iter().for_each(JoinHandle::abort);
    }
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.watch.fmt(f)
    }
}

impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Watch {
            addresses,
            name,
            server,
            ..
        } = self;
        let scheme = match server.has_tls() {
            true => "rediss",
            false => "redis",
        };
        write!(f, "{scheme}-sentinel://{}/{name}", addresses.join(","))
    }
}

impl Tenure {
    pub(crate) fn is_over(&self) -> bool {
        self.watch.masters.load(Ordering::Acquire) != self.number
    }

    /// Waits for its end.
    pub(crate) async fn over(&self) {
        let mut said = self.watch.said.subscribe();
        let _ = said.wait_for(|_| self.is_over()).await;
    }
}

/// Listens to one Sentinel, and asks it.
async fn listen(watch: Arc<Watch>, number: usize, dialer: Dialer) {
    let patience = dialer.timeouts.command;
    let (link, connected) = Link::open(dialer.io, dialer);
    if let Ok(Err(error)) = connected.await {
        watch.hear(number, Err(error));
    }
    loop {
        watch.hear(number, watch.ask(&link, patience).await);
        let next = after(PERIOD * 3 / 4 + fraction(PERIOD / 2));
        let _ = timeout_at(next, watch.hurry[number].notified()).await;
    }
}

impl Watch {
    fn dialer(
        self: Arc<Self>,
        io: Io,
        number: usize,
        target: Target,
        timeouts: Timeouts,
    ) -> Dialer {
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg("+switch-master");
        let ask: Arc<dyn Fn() + Send + Sync> = Arc::new(move || self.hurry[number].notify_one());
        let connected = ask.clone();
        Dialer {
            io,
            site: Site::fixed(target),
            timeouts,
            greeting: Vec::new(),
            // It is asked every second in any case.
            optional: vec![subscribe],
            subscriber: Some(Subscriber {
                // What is said is asked for again: the message tells no epoch.
                message: Arc::new(move |_| ask()),
                connected,
            }),
            sending: Sending::Single,
            dialled: 0,
            last: None,
        }
    }

    async fn ask(&self, link: &Link, patience: Duration) -> Result<View, EngineError> {
        let question = |about: &str| {
            let mut command = Cmd::new();
            command.arg("SENTINEL").arg(about).arg(&self.name);
            command
        };
        // The epoch first: should the master change in between, it is too small rather than too great.
        let about = link.ask(question("MASTER"), after(patience)).await;
        let address = question("GET-MASTER-ADDR-BY-NAME");
        let address: Option<Address> = link.ask(address, after(patience)).await?;
        let Some(master) = address else {
            let words = format!("it knows no master called `{}`", self.name);
            return Err(EngineError::new(Fault::Refused, words));
        };
        let about: HashMap<String, String> = about?;
        let number = |field: &str| about.get(field)?.parse().ok();
        Ok(View {
            epoch: number("config-epoch").unwrap_or(0),
            master,
            down_after: number("down-after-milliseconds").map(Duration::from_millis),
        })
    }

    /// Takes what a Sentinel said, or why it has said nothing so far.
    fn hear(&self, number: usize, view: Result<View, EngineError>) {
        let mut followed = None;
        self.said.send_if_modified(|said| {
            let known = &mut said.views[number];
            match (&known, &view) {
                (Some(Ok(known)), Ok(view)) if known == view => return false,
                (Some(_), Err(_)) => return false,
                _ => *known = Some(view),
            }
            if let Some(master) = said.changed()
                && let Ok(target) = self.server.moved_to(&master)
            {
                let target = Arc::new(target);
                let before = said.master.replace((target.clone(), master));
                followed = before.map(|(before, _)| (before, target));
                self.masters.fetch_add(1, Ordering::AcqRel);
            }
            true
        });
        if let Some((before, now)) = followed {
            trace::master_followed(self, &*before, &*now);
        }
    }

    /// Why there is no master.
    fn failure(&self, said: &Said) -> EngineError {
        let mut fault = Fault::Down;
        let mut words = String::from("no Sentinel names the master");
        for (address, view) in self.addresses.iter().zip(&said.views) {
            if let Some(Err(error)) = view {
                if error.fault == Fault::Refused {
                    fault = Fault::Refused;
                }
                words += &format!("; `{address}`: {error}");
            }
        }
        EngineError::new(fault, words)
    }
}

impl Said {
    /// Whether no Sentinel has anything to say.
    fn is_hopeless(&self) -> bool {
        self.views.iter().all(|view| matches!(view, Some(Err(_))))
    }

    /// The master that was decided on last, if it is another than before.
    fn changed(&self) -> Option<Address> {
        let views = || self.views.iter().flatten().flatten();
        let last = views().map(|view| view.epoch).max()?;
        let named = || {
            views()
                .filter(|view| view.epoch == last)
                .map(|view| &view.master)
        };
        let present = self.master.as_ref().map(|(_, address)| address);
        match named().any(|master| Some(master) == present) {
            true => None,
            false => named().next().cloned(),
        }
    }
}

/// The hosts in a URL, the master's name and the database.
fn read(url: &str) -> Result<(Hosts, String, i64), LockError> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let wrong = |what: &str| {
        let form = "write `redis-sentinel://user:password@h1:26379,h2,h3/mymaster/0`";
        invalid(&format!("the URL can't be read: {what}; {form}"), None)
    };
    let hosts = Hosts::parse(rest, PORT).map_err(wrong)?;
    let (name, database) = match &hosts.path[..] {
        [] => return Err(wrong("the name of the master is missing")),
        [name] => (name, 0),
        [name, database] => match database.parse() {
            Ok(database @ 0..) => (name, database),
            _ => return Err(wrong("the database is no number")),
        },
        _ => return Err(wrong("only a database can follow the name of the master")),
    };
    if name.is_empty() {
        return Err(wrong("the name of the master is empty"));
    }
    let name = name.clone();
    Ok((hosts, name, database))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_hosts_master_and_database() {
        let (hosts, name, database) = read("redis-sentinel://u:p@h1:1,h2/my%2Fmaster/7").unwrap();
        assert_eq!(hosts.hosts, [("h1".to_owned(), 1), ("h2".to_owned(), PORT)]);
        assert_eq!((&*name, database), ("my/master", 7));
        assert_eq!(read("redis-sentinel://h1/mymaster").unwrap().2, 0);
        assert_eq!(
            read("rediss-sentinel://h1/mymaster/").unwrap().1,
            "mymaster"
        );
    }

    #[test]
    fn a_bad_url_is_told_what_is_wrong() {
        for (rest, word) in [
            ("", "host"),
            ("h1", "name of the master"),
            ("h1,h2/", "name of the master"),
            ("h1//0", "empty"),
            ("h1/mymaster/x", "database"),
            ("h1/mymaster/-1", "database"),
            ("h1/mymaster/0/1", "database"),
            ("h1:x/mymaster", "port"),
        ] {
            let error = read(&format!("redis-sentinel://{rest}"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(word), "`{rest}`: {error}");
            assert!(error.contains("h1:26379,h2,h3/mymaster/0"), "{error}");
        }
    }

    fn said(views: &[(u64, &str)], master: Option<&str>) -> Said {
        let target = Target::at("", 0, false, 0, &Access::default()).unwrap();
        let address = |host: &str| (host.to_owned(), 6379);
        let view = |(epoch, host): &(u64, &str)| {
            Some(Ok(View {
                epoch: *epoch,
                master: address(host),
                down_after: None,
            }))
        };
        Said {
            views: views.iter().map(view).collect(),
            master: master.map(|host| (Arc::new(target), address(host))),
        }
    }

    fn changed(views: &[(u64, &str)], master: Option<&str>) -> Option<String> {
        said(views, master).changed().map(|(host, _)| host)
    }

    #[test]
    fn what_was_decided_last_counts() {
        assert_eq!(changed(&[(1, "a")], None).as_deref(), Some("a"));
        assert_eq!(
            changed(&[(1, "a"), (2, "b")], Some("a")).as_deref(),
            Some("b")
        );
        assert_eq!(changed(&[(1, "a"), (2, "b"), (1, "a")], Some("b")), None);
        // Two who have decided the same say so at different times.
        assert_eq!(changed(&[(1, "a"), (1, "b")], Some("b")), None);
        assert_eq!(changed(&[], None), None);
    }

    #[test]
    fn nobody_is_hopeless_who_has_not_been_asked() {
        let failed = Some(Err(EngineError::new(Fault::Down, "it is away")));
        let mut said = said(&[], None);
        said.views = vec![failed.clone(), None];
        assert!(!said.is_hopeless());
        said.views = vec![failed.clone(), failed];
        assert!(said.is_hopeless());
    }
}
