//! The Sentinels' views of the master: the view with the newest epoch wins.

use crate::engine::error::EngineError;
use crate::engine::redis::address::Address;
use crate::engine::url::NodeAddress;
use std::sync::Arc;
use std::time::Duration;

/// The views of all Sentinels.
pub(crate) struct Views {
    /// `None` if a Sentinel has not replied yet.
    pub(crate) by_sentinel: Vec<Option<Result<MasterView, EngineError>>>,
    /// The master that is followed.
    pub(crate) master: Option<(Arc<Address>, NodeAddress)>,
}

/// The last reply of a Sentinel, valid until the same Sentinel replies differently.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MasterView {
    pub(crate) epoch: u64,
    pub(crate) master: NodeAddress,
    /// How long the master must be silent before it counts as down.
    pub(crate) down_after: Option<Duration>,
}

impl Views {
    /// Returns `true` if every Sentinel failed to name the master.
    pub(crate) fn all_failed(&self) -> bool {
        self.by_sentinel
            .iter()
            .all(|view| matches!(view, Some(Err(_))))
    }

    /// Returns the master of the newest epoch, if it differs from the one that is followed.
    pub(crate) fn newer_master(&self) -> Option<NodeAddress> {
        let views = || self.by_sentinel.iter().flatten().flatten();
        let newest = views().map(|view| view.epoch).max()?;
        let named = || {
            views()
                .filter(|view| view.epoch == newest)
                .map(|view| &view.master)
        };
        let present = self.master.as_ref().map(|(_, address)| address);
        match named().any(|master| Some(master) == present) {
            true => None,
            false => named().next().cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::engine::error::EngineErrorKind;

    fn views(named: &[(u64, &str)], master: Option<&str>) -> Views {
        let server = Address::parse("redis://host", &Config::new("")).unwrap();
        let address = |host: &str| (host.to_owned(), 6379);
        let view = |(epoch, host): &(u64, &str)| {
            Some(Ok(MasterView {
                epoch: *epoch,
                master: address(host),
                down_after: None,
            }))
        };
        Views {
            by_sentinel: named.iter().map(view).collect(),
            master: master.map(|host| (Arc::new(server), address(host))),
        }
    }

    fn newer_master(named: &[(u64, &str)], master: Option<&str>) -> Option<String> {
        views(named, master).newer_master().map(|(host, _)| host)
    }

    #[test]
    fn the_newest_epoch_wins() {
        assert_eq!(newer_master(&[(1, "a")], None).as_deref(), Some("a"));
        assert_eq!(
            newer_master(&[(1, "a"), (2, "b")], Some("a")).as_deref(),
            Some("b")
        );
        assert_eq!(
            newer_master(&[(1, "a"), (2, "b"), (1, "a")], Some("b")),
            None
        );
        // Two Sentinels of the same epoch report it at different times.
        assert_eq!(newer_master(&[(1, "a"), (1, "b")], Some("b")), None);
        assert_eq!(newer_master(&[], None), None);
    }

    #[test]
    fn a_sentinel_that_was_not_polled_has_not_failed() {
        let failed = Some(Err(EngineError::new(
            EngineErrorKind::NotConnected,
            "it is away",
        )));
        let mut views = views(&[], None);
        views.by_sentinel = vec![failed.clone(), None];
        assert!(!views.all_failed());
        views.by_sentinel = vec![failed.clone(), failed];
        assert!(views.all_failed());
    }
}
