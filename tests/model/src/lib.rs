//! A model of the protocol: see PROTOCOL.md.
//!
//! [`server`] is one lock on a server, as the scripts keep it. Real servers ([`stage`]) and the embedded
//! engine are driven beside it, request by request, by every order of requests ([`scene`]).
//!
//! [`world`] adds clients and a network in which messages are lost or slow. All that can come of it is gone
//! through ([`search`]), for the protocol as it is and with one rule left out each time ([`left_out`]); and what
//! its server was asked is asked of the real ones, too ([`walk`]).

mod client;
pub mod conduct;
pub mod left_out;
pub mod network;
pub mod scene;
mod scripts;
pub mod search;
pub mod server;
pub mod stage;
pub mod walk;
mod wire;
pub mod world;
