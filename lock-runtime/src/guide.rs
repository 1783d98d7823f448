//! Guides for services that use the attribute.
//!
//! - [`guarantees`]: guarantees, the limits of any lease, and how to handle them.
//! - [`engines`]: which engine keeps the locks: what each survives, and what it costs.
//! - [`own_server`]: locks on a server that the library does not know, by the two functions that it needs.
//! - [`deployment`]: servers, permissions, unsafe settings, shutdown, complete services.
//! - [`observability`]: numbers, events, metrics and traces of a service's locks.
//! - [`runbook`]: what to do when a lock is stuck, lost or out of reach, and who may do it.
//! - [`recipes`]: work that is done once, once per period, at a limited rate, or by a leader.
//! - [`lazy_release`]: locks that stay with their process between calls: who gains, and who loses.
//! - [`testing`]: tests of a service without a server: its failures, and leases in virtual time.
//! - [`migration`]: moving from other locks, of Rust, the JVM, Python and shells, and from hand-written
//!   scripts.
//! - [`faq`]: questions and answers.

// GitHub shows the guides, too, and follows the links to source files at their ends. Of two definitions of a
// link Markdown takes the first, so here those in `links.txt` lead to the items.

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/engines.md")]
pub mod engines {}

#[doc = include_str!("guide/links.txt")]
// Its example needs this feature.
#[cfg_attr(
    any(not(doctest), feature = "store"),
    doc = include_str!("guide/own_server.md")
)]
pub mod own_server {}

#[doc = include_str!("guide/links.txt")]
// Its examples need these features.
#[cfg_attr(
    any(not(doctest), all(feature = "actix", feature = "axum")),
    doc = include_str!("guide/deployment.md")
)]
pub mod deployment {}

#[doc = include_str!("guide/links.txt")]
// Its examples need this feature.
#[cfg_attr(
    any(not(doctest), feature = "metrics"),
    doc = include_str!("guide/observability.md")
)]
pub mod observability {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/runbook.md")]
pub mod runbook {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/recipes.md")]
pub mod recipes {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/lazy_release.md")]
pub mod lazy_release {}

#[doc = include_str!("guide/links.txt")]
// Its examples need these features.
#[cfg_attr(
    any(not(doctest), all(feature = "axum", feature = "testing")),
    doc = include_str!("guide/testing.md")
)]
pub mod testing {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/migration.md")]
pub mod migration {
    #[doc = include_str!("guide/links.txt")]
    #[doc = include_str!("guide/migration/rust.md")]
    pub mod rust {}

    #[doc = include_str!("guide/links.txt")]
    #[doc = include_str!("guide/migration/java.md")]
    pub mod java {}

    #[doc = include_str!("guide/links.txt")]
    #[doc = include_str!("guide/migration/others.md")]
    pub mod others {}
}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/faq.md")]
pub mod faq {}
