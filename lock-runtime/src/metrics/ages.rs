//! How old the holds and the waits of a manager are.

use std::collections::HashMap;
use std::time::Duration;

/// Those of each template.
pub(crate) type Ages = HashMap<&'static str, Oldest>;

/// For how long the oldest hold and the oldest wait have lasted; zero without one.
#[derive(Default)]
pub(crate) struct Oldest {
    pub(crate) hold: Duration,
    pub(crate) wait: Duration,
}
