//! Where a lock is used in the code.

use crate::util::sync::Mutex;
use once_cell::sync::Lazy;
use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A place in the code that uses a lock: a function with the attribute, or a call of
/// [`Lock::template`](crate::Lock::template).
///
/// There are as many as such places, whatever the keys are, so that metrics may have one series for each.
///
/// ```
/// use lock_runtime::{Config, LockEvent, LockManager};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_runtime::LockError> {
/// let config = Config::new("memory://").on_event(|event| {
///     if let LockEvent::Acquired { site: Some(site), .. } = event {
///         assert_eq!(site.template(), "stock:<sku>");
///         println!("{site}"); // such as `stock:<sku>` at src/stock.rs:12
///     }
/// });
/// let locks = LockManager::connect(config).await?;
/// let stock = |sku: u32| locks.lock(format!("stock:{sku}")).template("stock:<sku>");
/// stock(7).acquire().await?.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Site {
    template: &'static str,
    function: &'static str,
    file: &'static str,
    line: u32,
}

/// Where a call is in the code, and what it is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Purpose {
    pub(crate) site: Option<&'static Site>,
    pub(crate) label: Option<Arc<str>>,
}

impl Purpose {
    pub(crate) fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }
}

impl Site {
    /// Creates the site of a function; `function` is its path.
    pub(crate) const fn new(
        template: &'static str,
        function: &'static str,
        file: &'static str,
        line: u32,
    ) -> Site {
        Site {
            template,
            function,
            file,
            line,
        }
    }

    /// Returns the site of a call, always the same one. It is never freed, like the code that it names.
    pub(crate) fn of_call(
        template: &'static str,
        caller: &'static Location<'static>,
    ) -> &'static Site {
        type Known = HashMap<(&'static str, &'static Location<'static>), &'static Site>;
        static KNOWN: Lazy<Mutex<Known>> = Lazy::new(Mutex::default);
        let mut known = KNOWN.lock();
        known.entry((template, caller)).or_insert_with(|| {
            let site = Site::new(template, "", caller.file(), caller.line());
            Box::leak(Box::new(site))
        })
    }

    /// Returns what is locked, in words that have few values: the key as the attribute has it, such as
    /// `order:<id>`, or the argument of [`Lock::template`](crate::Lock::template).
    #[must_use]
    pub fn template(&self) -> &'static str {
        self.template
    }

    /// Returns the path of the annotated function, such as `orders::ship`.
    #[must_use]
    pub fn function(&self) -> Option<&'static str> {
        Some(self.function).filter(|path| !path.is_empty())
    }

    /// Returns the source file, as the compiler has it.
    #[must_use]
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// Returns the line in that file.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Returns where it is, such as `orders::ship (src/orders.rs:12)`.
    pub(crate) fn place(&self) -> String {
        let Site { file, line, .. } = self;
        match self.function() {
            Some(function) => format!("{function} ({file}:{line})"),
            None => format!("{file}:{line}"),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ", self.template)?;
        match self.function() {
            Some(function) => write!(f, "in {function} at")?,
            None => f.write_str("at")?,
        }
        write!(f, " {}:{}", self.file, self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_one_site() {
        let here = || Location::caller();
        let (one, other) = (here(), Location::caller());
        let site = |template, at| Site::of_call(template, at);
        assert!(std::ptr::eq(site("a", one), site("a", one)));
        assert!(!std::ptr::eq(site("a", one), site("b", one)));
        assert!(!std::ptr::eq(site("a", one), site("a", other)));
        assert!(site("a", one).to_string().starts_with("`a` at "));
    }
}
