//! A model of the protocol: see PROTOCOL.md.
//!
//! [`server`] is one lock on a server, as the scripts keep it. Real servers ([`stage`]) and the embedded
//! engine are driven beside it, request by request, by every order of requests ([`scene`]).

#![allow(missing_docs, reason = "nobody but the tests reads it")]

pub mod scene;
mod scripts;
pub mod server;
pub mod stage;
mod wire;
