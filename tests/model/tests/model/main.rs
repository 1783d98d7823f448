//! All states of small systems, with all rules of the protocol and without each.

mod exclusive;
mod mutations;
mod quorum;
mod shared;
