#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "actix")]
mod actix;
mod admin;
mod assets;
#[cfg(feature = "axum")]
mod axum;
mod body;
mod claim;
mod folder;
mod fragment;
mod histogram;
mod history;
mod json;
mod live;
mod lock;
mod lock_page;
mod look;
mod operator;
mod options;
mod page;
mod problem;
mod process;
mod query;
mod recorder;
mod revoke;
mod sampler;
mod security;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod timeline;

pub use admin::Admin;
pub use body::Body;
pub use operator::Operator;
pub use recorder::Recorder;
