//! What Prometheus reads at `GET /metrics`.

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use std::time::Duration;

/// Prometheus' text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// In seconds, from a round trip to the longest hold.
const DURATIONS: [f64; 15] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];

/// Parts of a ttl.
const MARGINS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// Installs the exporter, which counts from then on. Without buckets, it would report summaries, which can't
/// be added up over the instances.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let margin = Matcher::Full("distributed_lock.renewal.margin".to_owned());
    let exporter = PrometheusBuilder::new()
        .with_recommended_naming(true)
        .set_buckets_for_metric(Matcher::Suffix(".duration".to_owned()), &DURATIONS)?
        .set_buckets_for_metric(margin, &MARGINS)?
        .install_recorder()?;
    tokio::spawn(keep_small(exporter.clone()));
    Ok(exporter)
}

/// Sorts recorded durations into their buckets. Otherwise all are kept until the next scrape.
async fn keep_small(exporter: PrometheusHandle) {
    let mut times = tokio::time::interval(Duration::from_secs(5));
    loop {
        times.tick().await;
        exporter.run_upkeep();
    }
}
