//! Sentinels: they name the master, and report failovers.
//!
//! The client subscribes to each Sentinel, and polls it from time to time in case a message is lost.
//! [`views`] says which master is followed.

pub(crate) mod url;
pub(crate) mod views;

use crate::engine::credentials::Credentials;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::opening::Opening;
use crate::engine::redis::address::{Address, invalid};
use crate::engine::redis::conn::connect::{Connector, PushHandler};
use crate::engine::redis::conn::endpoint::{Discovery, Endpoint, MasterEpoch};
use crate::engine::redis::conn::reconnect::ReconnectingConnection;
use crate::engine::redis::topology::sentinel::url::parse_url;
use crate::engine::redis::topology::sentinel::views::{Master, MasterView, Views};
use crate::engine::redis::wire::encode::{Encoding, command};
use crate::engine::request::EngineFuture;
use crate::engine::timeouts::Timeouts;
use crate::engine::url::{NodeAddress, format_address};
use crate::error::LockError;
use crate::trace;
use crate::util::backoff::fraction;
use crate::util::io_thread::{IoThread, kept};
use crate::util::time::{deadline_in, now};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

/// How often each Sentinel is polled.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long the first master waits for the word of most Sentinels, once one has named it.
const SETTLING: Duration = Duration::from_millis(500);

/// The Sentinels of one master. Dropping the value stops polling.
pub(crate) struct Sentinels {
    io: IoThread,
    monitor: Arc<Monitor>,
    pollers: Vec<JoinHandle<()>>,
}

struct Monitor {
    master_name: String,
    addresses: Vec<String>,
    /// How to connect to the master, without its host.
    server: Address,
    views: watch::Sender<Views>,
    /// Learns of each other master.
    handler: EventHandler,
    /// The number of failovers that were followed.
    epoch: watch::Sender<u64>,
    /// Notified for each Sentinel that must be polled at once.
    poll_now: Vec<Notify>,
}

impl Sentinels {
    /// Parses a URL like `redis-sentinel://user:password@h1,h2,h3/mymaster/0`, and starts polling.
    pub(crate) fn start(opening: &Opening<'_>, url: &str) -> Result<Sentinels, LockError> {
        let Opening {
            config,
            timeouts,
            io,
            handler,
            ..
        } = opening.clone();
        let tls = url.starts_with("rediss");
        let (hosts, master_name, database) = parse_url(url)?;
        let credentials = Credentials::of(config, hosts.credentials);
        let server = Address::at(("", 0), tls, database, credentials, config)?;
        let own = Credentials::fixed(config.sentinel_credentials.clone());
        let sentinel = Address::at(("", 0), tls, 0, own, config)?;
        let addresses: Vec<_> = hosts
            .hosts
            .iter()
            .map(|it| sentinel.with_host(it))
            .collect();
        let monitor = Arc::new(Monitor {
            master_name,
            addresses: hosts.hosts.iter().map(format_address).collect(),
            server,
            views: watch::Sender::new(Views::of(addresses.len())),
            handler,
            epoch: watch::Sender::new(0),
            poll_now: addresses.iter().map(|_| Notify::new()).collect(),
        });
        let encoding = Encoding::new(&config.prefix, false);
        let encoding = Arc::new(encoding.map_err(|reason| invalid(reason, None))?);
        let poll = |(index, address)| {
            let (timeouts, encoding) = (timeouts.clone(), encoding.clone());
            let connector = monitor
                .clone()
                .connector(io, index, address, timeouts, encoding);
            let monitor = monitor.clone();
            let poll = move || poll_sentinel(monitor.clone(), index, connector.clone());
            io.spawn(kept(poll))
        };
        Ok(Sentinels {
            io,
            pollers: addresses.into_iter().enumerate().map(poll).collect(),
            monitor,
        })
    }

    /// Waits until most Sentinels have named the master, or one has, and the others fail or are silent. Fails
    /// if none can name it.
    pub(crate) async fn master(&self) -> Result<Endpoint, EngineError> {
        let mut views = self.monitor.views.subscribe();
        let is_settled = |views: &Views| views.master.is_some() || views.all_failed();
        let named = views.wait_for(|views| is_settled(views) || views.named().next().is_some());
        let is_there = named.await.is_ok();
        if is_there {
            let settled = views.wait_for(is_settled);
            if self
                .io
                .timeout_at(deadline_in(SETTLING), settled)
                .await
                .is_err()
            {
                self.monitor.update(true, |_| {});
            }
        }
        let views = views.borrow();
        match &views.master {
            Some(master) => {
                let epoch = MasterEpoch::new(self.monitor.epoch.subscribe());
                Ok(Endpoint::of_master(master.address.clone(), epoch))
            }
            None if is_there => Err(self.monitor.no_master_error(&views)),
            None => {
                let words = "the Sentinel monitor has stopped";
                Err(EngineError::new(EngineErrorKind::NotConnected, words))
            }
        }
    }

    /// Returns the shortest time after which a silent master counts as down.
    pub(crate) fn down_after(&self) -> Option<Duration> {
        let views = self.monitor.views.borrow();
        views.named().filter_map(|view| view.down_after).min()
    }
}

impl Discovery for Sentinels {
    fn endpoint(&self) -> EngineFuture<'_, Endpoint> {
        Box::pin(self.master())
    }

    fn credentials(&self) -> &Credentials {
        &self.monitor.server.credentials
    }

    fn connection_failed(&self) {
        self.monitor.update(false, |views| {
            if let Some(master) = &mut views.master {
                master.failed_at = Some(now());
            }
        });
        self.monitor.poll_now.iter().for_each(Notify::notify_one);
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        self.pollers.iter().for_each(JoinHandle::abort);
    }
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.monitor.fmt(f)
    }
}

impl fmt::Display for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.server.has_tls() {
            true => "rediss",
            false => "redis",
        };
        let (hosts, name) = (self.addresses.join(","), &self.master_name);
        write!(f, "{scheme}-sentinel://{hosts}/{name}")
    }
}

/// Keeps a connection to one Sentinel, and polls it.
async fn poll_sentinel(monitor: Arc<Monitor>, index: usize, connector: Connector) {
    let timeouts = connector.timeouts.clone();
    let (connection, first) = ReconnectingConnection::connect(connector);
    if let Err(error) = first.result().await {
        monitor.record(index, Err(error));
    }
    loop {
        let view = monitor.query(&connection, &timeouts).await;
        monitor.record(index, view);
        let next = deadline_in(POLL_INTERVAL * 3 / 4 + fraction(POLL_INTERVAL / 2));
        let _ = timeout_at(next, monitor.poll_now[index].notified()).await;
    }
}

impl Monitor {
    fn connector(
        self: Arc<Self>,
        io: IoThread,
        index: usize,
        address: Address,
        timeouts: Timeouts,
        encoding: Arc<Encoding>,
    ) -> Connector {
        let poll: Arc<dyn Fn() + Send + Sync> = Arc::new(move || self.poll_now[index].notify_one());
        let connected = poll.clone();
        Connector {
            // The Sentinel is polled every second in any case.
            optional_commands: vec![command(&["SUBSCRIBE", "+switch-master"])],
            push_handler: Some(PushHandler {
                // The message names no epoch, so the Sentinel is polled for it.
                message: Arc::new(move |_| poll()),
                connected: Arc::new(move |_| connected()),
            }),
            ..Connector::new(io, Arc::new(address), timeouts, encoding)
        }
    }

    async fn query(
        &self,
        connection: &ReconnectingConnection,
        timeouts: &Timeouts,
    ) -> Result<MasterView, EngineError> {
        let deadline = || deadline_in(timeouts.silence());
        let ask = |subcommand| ["SENTINEL", subcommand, &self.master_name];
        // Query the epoch first: if the master changes in between, the epoch is too small rather than too
        // great.
        let info = connection.ask(&ask("MASTER"), deadline()).await;
        let ask = ask("GET-MASTER-ADDR-BY-NAME");
        let address: Option<NodeAddress> = connection.ask(&ask, deadline()).await?;
        let Some(master) = address else {
            let words = format!("it knows no master called `{}`", self.master_name);
            return Err(EngineError::new(EngineErrorKind::Rejected, words));
        };
        let info: HashMap<String, String> = info?;
        let number = |field: &str| info.get(field)?.parse().ok();
        Ok(MasterView {
            epoch: number("config-epoch").unwrap_or(0),
            master,
            is_down: info
                .get("flags")
                .is_some_and(|flags| flags.contains("_down")),
            down_after: number("down-after-milliseconds").map(Duration::from_millis),
        })
    }

    /// Records a Sentinel's view, or its failure.
    fn record(&self, index: usize, view: Result<MasterView, EngineError>) {
        self.update(false, |views| views.record(index, view));
    }

    /// Changes the views, and follows the master that they name then. `waited`: see [`Views::next`].
    fn update(&self, waited: bool, change: impl FnOnce(&mut Views)) {
        let mut followed = None;
        self.views.send_modify(|views| {
            change(views);
            let Some(view) = views.next(waited) else {
                return;
            };
            let (node, epoch) = (view.master.clone(), view.epoch);
            let address = Arc::new(self.server.with_host(&node));
            let master = Master {
                address: address.clone(),
                node,
                epoch,
                since: now(),
                failed_at: None,
            };
            let before = views.master.replace(master);
            followed = before.map(|before| (before.address, address));
            self.epoch.send_modify(|epoch| *epoch += 1);
        });
        if let Some((before, now)) = followed {
            trace::master_followed(self, &*before, &*now);
            (self.handler)(EngineEvent::MasterChanged);
        }
    }

    fn no_master_error(&self, views: &Views) -> EngineError {
        let mut kind = EngineErrorKind::NotConnected;
        let mut words = String::from("no Sentinel names the master");
        for (address, view) in self.addresses.iter().zip(&views.by_sentinel) {
            if let Some(Err(error)) = view {
                if error.kind == EngineErrorKind::Rejected {
                    kind = EngineErrorKind::Rejected;
                }
                words += &format!("; `{address}`: {error}");
            }
        }
        EngineError::new(kind, words)
    }
}
