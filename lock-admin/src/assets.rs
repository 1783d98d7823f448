//! The style and the script, whose names change with their content.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

pub(crate) struct Assets {
    pub(crate) style: String,
    pub(crate) script: String,
}

static ASSETS: LazyLock<Assets> = LazyLock::new(|| Assets {
    style: format!("{}.css", hash(STYLE)),
    script: format!("{}.js", hash(SCRIPT)),
});

impl Assets {
    pub(crate) fn get() -> &'static Assets {
        &ASSETS
    }

    /// Returns the type and the content of the file at a path.
    pub(crate) fn find(&self, path: &str) -> Option<(&'static str, &'static str)> {
        match path.strip_prefix('/')? {
            name if name == self.style => Some(("text/css; charset=utf-8", STYLE)),
            name if name == self.script => Some(("text/javascript; charset=utf-8", SCRIPT)),
            _ => None,
        }
    }
}

fn hash(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_small() {
        assert!(SCRIPT.len() < 6 * 1024, "{}", SCRIPT.len());
    }
}
