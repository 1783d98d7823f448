//! How often processes report.

use std::time::Duration;

/// When processes report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportPace {
    /// The time between two reports without a request; `None` if there is only the first one, since the
    /// server keeps what is overwritten.
    pub(crate) regular: Option<Duration>,
    /// The least time between two reports.
    pub(crate) least: Duration,
}

impl ReportPace {
    pub(crate) const REGULAR: ReportPace = ReportPace {
        regular: Some(Duration::from_secs(60)),
        least: Duration::from_secs(1),
    };

    /// For servers that keep what is overwritten, as history or in a log.
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    pub(crate) const RARE: ReportPace = ReportPace {
        regular: None,
        least: Duration::from_secs(10),
    };
}
