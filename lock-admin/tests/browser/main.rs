//! The page in Chromium, as people see and use it.

mod accessibility;
mod browser;
mod cost;
mod losses;
mod mounts;
mod outage;
mod page;
mod request;
mod service;
mod totals;
