//! How old the holds and the waits of a manager are.

use std::collections::HashMap;
use std::time::Duration;

/// For how long the oldest hold and the oldest wait of each template last; zero without one.
pub(crate) type Ages = HashMap<&'static str, [Duration; 2]>;

/// The place of a hold's age.
pub(crate) const HOLD: usize = 0;

/// The place of a wait's age.
pub(crate) const WAIT: usize = 1;
