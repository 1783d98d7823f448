//! The parameters of a URL that the driver does not know, or that locks decide themselves.

use crate::config::{Config, invalid};
use crate::engine::postgres::sql::schema::Schema;
use crate::error::LockError;

#[derive(Default)]
pub(crate) struct Parameters<'u> {
    schema: Option<&'u str>,
    /// The addresses of the servers for `LISTEN`.
    pub(crate) listen: Option<&'u str>,
    sslmode: Option<&'u str>,
}

impl<'u> Parameters<'u> {
    /// Takes the parameters out of a URL, and returns the rest of it.
    pub(crate) fn take_from(url: &'u str) -> Result<(Parameters<'u>, String), LockError> {
        let (address, all) = url.split_once('?').unwrap_or((url, ""));
        let mut taken = Parameters::default();
        let mut others = Vec::new();
        for parameter in all.split('&').filter(|it| !it.is_empty()) {
            match parameter.split_once('=') {
                Some(("schema", name)) => taken.schema = Some(name),
                Some(("listen", servers)) => taken.listen = Some(servers),
                Some(("sslmode", mode)) => taken.sslmode = Some(mode),
                Some(("target_session_attrs", "read-write")) => {}
                Some(("target_session_attrs", _)) => {
                    return Err(invalid(
                        "locks need a server that accepts writes; leave out `target_session_attrs`",
                    ));
                }
                _ => others.push(parameter),
            }
        }
        let rest = match others.is_empty() {
            true => address.to_owned(),
            false => format!("{address}?{}", others.join("&")),
        };
        Ok((taken, rest))
    }

    pub(crate) fn schema(&self) -> Result<Schema, LockError> {
        let Some(name) = self.schema else {
            return Ok(Schema::default());
        };
        Schema::new(name).ok_or_else(|| {
            invalid(
                "`schema` in the URL is not a name of lowercase letters, digits and underscores",
            )
        })
    }

    /// Returns `true` if connections are to be encrypted; then certificates are always checked.
    pub(crate) fn encrypts(&self, config: &Config) -> Result<bool, LockError> {
        #[cfg(feature = "tls")]
        let has_certificates = crate::engine::tls::has_certificates(config);
        #[cfg(not(feature = "tls"))]
        let (has_certificates, _) = (false, config);
        let encrypts = match self.sslmode {
            Some("disable") => false,
            None => has_certificates,
            Some("require" | "verify-ca" | "verify-full") => true,
            Some(_) => {
                return Err(invalid(
                    "`sslmode` in the URL is not known; use `require`, with which certificates are always \
                     checked, or `disable`",
                ));
            }
        };
        if encrypts && !cfg!(feature = "tls") {
            return Err(invalid(
                "`sslmode=require` needs TLS; enable the feature `tls` of `lock-runtime`",
            ));
        }
        Ok(encrypts)
    }
}
