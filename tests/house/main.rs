//! What holds of the sources, the documents and the programs of tests themselves; needs no server.

// For `lints`, beside those that it denies: these concern whole programs.
#![deny(
    future_incompatible,
    non_ascii_idents,
    rust_2018_idioms,
    rust_2021_compatibility,
    rust_2024_compatibility
)]

mod documents;
mod features;
mod layers;
mod lints;
mod ops;
mod packages;
mod public_api;
mod sources;
