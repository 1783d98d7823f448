//! Looks at what this process has and waits for, to report it and to measure its ages.

pub(crate) mod ages;
pub(crate) mod longest;
pub(crate) mod report;
