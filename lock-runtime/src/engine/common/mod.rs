//! What several engines have in common.

pub(crate) mod line;
