//! Pings, to which a majority replies.

use crate::engine::redis::quorum::tests::{Bench, DEADLINE, PATIENCE};
use crate::util::time::deadline_in;

#[tokio::test(start_paused = true)]
async fn a_ping_needs_a_majority() {
    let bench = Bench::of(5);
    bench.members[0].is_down(true);
    bench.members[1].pause();
    let ping = |within| bench.quorum.ping(deadline_in(within));
    assert!(ping(DEADLINE).await.is_ok());
    bench.members[2].is_down(true);
    let error = ping(PATIENCE).await.unwrap_err().to_string();
    assert!(error.contains("`member-3`: accepts locks"), "{error}");
}
