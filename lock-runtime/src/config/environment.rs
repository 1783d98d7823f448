//! A configuration from environment variables.

use crate::config::{Config, invalid};
use crate::error::LockError;
use std::ffi::OsString;

impl Config {
    /// Creates a configuration from environment variables:
    ///
    /// | variable | meaning |
    /// | --- | --- |
    /// | `LOCK_URL` | the URL of the server; several, separated by spaces, are the members of a [quorum](Self::quorum) |
    /// | `LOCK_PREFIX` | [`prefix`](Self::prefix) |
    /// | `LOCK_SERVICE` | [`service`](Self::service) |
    /// | `LOCK_VERSION` | [`version`](Self::version) |
    ///
    /// Only `LOCK_URL` must be set. What is set in code afterwards replaces the variable:
    /// `Config::from_env()?.prefix("shop:")` ignores `LOCK_PREFIX`. There are no variables for `ttl` and
    /// `wait`: they belong to the code that they protect.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidConfig`], which names the variable, if `LOCK_URL` is not set, or one of them is
    /// empty, not valid Unicode, or has a control character. What a URL means is checked when connecting.
    pub fn from_env() -> Result<Config, LockError> {
        Config::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Result<Config, LockError> {
        let read = |name: &str| get(name).map(|value| text_of(name, value)).transpose();
        let urls = read("LOCK_URL")?.ok_or_else(|| {
            invalid(
                "the environment variable `LOCK_URL` is not set; \
                 set it to a URL like `redis://127.0.0.1/`",
            )
        })?;
        let urls: Vec<&str> = urls.split_whitespace().collect();
        let mut config = match urls[..] {
            [url] => Config::new(url),
            _ => Config::quorum(urls),
        };
        if let Some(prefix) = read("LOCK_PREFIX")? {
            config = config.prefix(prefix);
        }
        config.service = read("LOCK_SERVICE")?;
        config.version = read("LOCK_VERSION")?;
        Ok(config)
    }
}

/// Returns the text of an environment variable. The error quotes nothing of it, which may be a secret.
fn text_of(name: &str, value: OsString) -> Result<String, LockError> {
    let why = |why: &str| invalid(&format!("the environment variable `{name}` {why}"));
    let text = value
        .into_string()
        .map_err(|_| why("is not valid Unicode; correct it"))?;
    if text.trim().is_empty() {
        return Err(why("is empty; give it a value, or unset it"));
    }
    if text.contains(char::is_control) {
        return Err(why(
            "has a control character, such as the end of a line; leave it out",
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Servers;

    fn from(variables: &[(&str, &str)]) -> Result<Config, LockError> {
        let variables = variables.to_owned();
        Config::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        })
    }

    #[test]
    fn environment_variables_are_read() {
        let config = from(&[("LOCK_URL", "memory://")]).unwrap();
        assert!(matches!(config.servers, Servers::One(url) if url == "memory://"));
        assert_eq!(config.prefix, "lock:");
        assert_eq!((config.service, config.version), (None, None));

        let config = from(&[
            ("LOCK_URL", " redis://a  redis://b redis://c "),
            ("LOCK_PREFIX", "shop:"),
            ("LOCK_SERVICE", "orders"),
            ("LOCK_VERSION", "1.2"),
        ]);
        let config = config.unwrap();
        assert!(matches!(config.servers, Servers::Quorum(urls) if urls.len() == 3));
        assert_eq!(config.prefix, "shop:");
        assert_eq!(config.service.as_deref(), Some("orders"));
        assert_eq!(config.version.as_deref(), Some("1.2"));
    }

    #[test]
    fn a_bad_variable_is_named_and_not_shown() {
        let error = from(&[("LOCK_PREFIX", "shop:")]).unwrap_err().to_string();
        assert!(error.contains("`LOCK_URL` is not set"), "{error}");
        for name in ["LOCK_URL", "LOCK_PREFIX", "LOCK_SERVICE", "LOCK_VERSION"] {
            for value in ["", " ", "se\ncret", "secret\0"] {
                let mut variables = vec![(name, value), ("LOCK_URL", "memory://")];
                let error = from(&variables).unwrap_err();
                assert!(matches!(error, LockError::InvalidConfig { .. }), "{error}");
                let text = format!("{error} {error:?}");
                assert!(text.contains(&format!("`{name}`")), "{text}");
                assert!(!text.contains("cret"), "{text}");
                variables.remove(0);
                assert!(from(&variables).is_ok());
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_no_text_is_named() {
        use std::os::unix::ffi::OsStringExt;
        let get = |name: &str| match name {
            "LOCK_SERVICE" => Some(OsString::from_vec(vec![0xff])),
            _ => Some("memory://".into()),
        };
        let error = Config::from_variables(get).unwrap_err().to_string();
        assert!(error.contains("`LOCK_SERVICE` is not valid"), "{error}");
    }
}
