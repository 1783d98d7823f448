//! Texts of others in messages and logs.

use std::fmt::{self, Write};

/// Displays a text with escapes for what a terminal would interpret: control characters, line ends, and marks
/// that change the direction of writing.
pub(crate) struct Visible<'a>(pub(crate) &'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '"' | '\'' | '\\' => f.write_char(c),
            c => write!(f, "{}", c.escape_debug()),
        })
    }
}
