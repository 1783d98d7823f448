//! The guards that callers have not picked up yet. The watchdog withdraws them when their time is over, so
//! that no lease is renewed for a call that is not polled.

use crate::lock::hold::Hold;
use crate::lock::hold::state::{Phase, State};
use crate::lock::offer::{Offered, OpenOffer};
use std::sync::Arc;
use tokio::time::Instant;

impl Hold {
    /// Lets the watchdog withdraw the offer of a guard at `until`, unless the guard has been picked up by
    /// then. A hold that has ended is not offered.
    pub(crate) fn withdraw_at(self: &Arc<Self>, until: Instant, offered: Arc<dyn Offered>) {
        let mut state = self.state();
        if state.phase == Phase::Held {
            state.offers.push(OpenOffer { until, offered });
            if state.scheduled_at.is_none_or(|at| until < at) {
                self.schedule(&mut state, until);
            }
            return;
        }
        drop(state);
        offered.withdraw();
    }

    /// Withdraws the offers whose time is over.
    pub(super) fn expire(self: &Arc<Self>, offers: Vec<OpenOffer>, instant: Instant) {
        for OpenOffer { offered, .. } in offers {
            if let Some(until) = offered.expire(instant) {
                self.withdraw_at(until, offered);
            }
        }
    }
}

impl State {
    /// Returns when the time of the first offer is over.
    pub(super) fn offered_until(&self) -> Option<Instant> {
        self.offers.iter().map(|offer| offer.until).min()
    }

    /// Removes the offers whose time is over.
    pub(super) fn take_late_offers(&mut self, instant: Instant) -> Vec<OpenOffer> {
        let late = |offer: &mut OpenOffer| offer.until <= instant;
        self.offers.extract_if(.., late).collect()
    }
}
