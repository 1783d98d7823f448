//! The page as a service mounts it: its options, and its routes.

use crate::assets::Assets;
use crate::body::Body;
use crate::options::Options;
use crate::recorder::Recorder;
use crate::sampler::Sampler;
use crate::security::{Keep, plain, respond};
use crate::{json, live, lock_page, page, revoke};
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use lock_runtime::LockManager;
use std::fmt;
use std::sync::Arc;

const HTML: &str = "text/html; charset=utf-8";

/// A page about the locks of a manager's server. Clones share one.
///
/// It shows the locks of all processes that use the server with the manager's prefix, and sends requests only
/// while a person looks: about one look in each [`report_interval`](LockManager::report_interval), for all
/// viewers together.
///
/// It has no authentication of its own: whoever can reach it sees the names of the locks and processes. Mount
/// it behind that of your service.
#[derive(Clone)]
#[must_use = "it is to be mounted"]
pub struct Admin {
    sampler: Arc<Sampler>,
}

impl Admin {
    /// Creates a page that only shows. Sends nothing.
    pub fn new(manager: LockManager) -> Admin {
        Admin::with(Options::new(manager))
    }

    fn with(options: Options) -> Admin {
        Admin {
            sampler: Arc::new(Sampler::new(options)),
        }
    }

    fn change(self, change: impl FnOnce(&mut Options)) -> Admin {
        let mut options = self.sampler.options.clone();
        change(&mut options);
        Admin::with(options)
    }

    /// Lets those revoke locks for whom `allow` returns a name. The holder is asked to stop, and both
    /// processes log the name with the reason: see [`LockManager::revoke`].
    ///
    /// `allow` is called for each request, with what the middleware of the service has put into the
    /// extensions, and must not block. In actix, whose extensions are its own, put an
    /// [`Operator`](crate::Operator) there.
    ///
    /// ```
    /// # use lock_admin::Admin;
    /// # use lock_runtime::LockManager;
    /// #[derive(Clone)]
    /// struct User {
    ///     name: String,
    ///     is_admin: bool,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let admin = Admin::new(locks).allow_revoke(|parts| {
    ///     let user = parts.extensions.get::<User>()?;
    ///     user.is_admin.then(|| user.name.clone())
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn allow_revoke(
        self,
        allow: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Admin {
        self.change(|options| options.allow_revoke = Some(Arc::new(allow)))
    }

    /// Shows what `redact` returns instead of each key: in the page, in `state.json`, in events and in URLs,
    /// where the holder's token names the lock. Templates, places in the code and labels are shown as they
    /// are.
    ///
    /// ```
    /// # use lock_admin::Admin;
    /// # use lock_runtime::LockManager;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let admin = Admin::new(locks).redact(|key| match key.split_once(':') {
    ///     Some((kind, _)) => format!("{kind}:…"),
    ///     None => "…".to_owned(),
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn redact(self, redact: impl Fn(&str) -> String + Send + Sync + 'static) -> Admin {
        self.change(|options| options.redact = Some(Arc::new(redact)))
    }

    /// Shows what the [`Recorder`] has recorded, too.
    pub fn recorder(self, recorder: Recorder) -> Admin {
        self.change(|options| options.recorder = Some(recorder))
    }

    /// Answers a request, whose path begins where the page is mounted: `/` is the page. Whatever runs it must
    /// be in a tokio runtime.
    ///
    /// All links are relative, so where it is mounted the address of the page ends with `/`, or with
    /// `/overview`, to which the adapters for axum and actix redirect. A body of more than 8 KB is refused;
    /// don't read a larger one. Dropping the future stops waiting, but a lock that was revoked stays so.
    pub async fn handle(&self, request: Request<Bytes>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let sampler = &self.sampler;
        if path == "/revoke" {
            return match parts.method {
                Method::POST => revoke::revoke(&sampler.options, sampler, &parts, &body).await,
                _ => plain(StatusCode::METHOD_NOT_ALLOWED, "only the form revokes\n"),
            };
        }
        if parts.method != Method::GET && parts.method != Method::HEAD {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "the page is read\n");
        }
        let assets = Assets::get();
        match path {
            "/" | "/overview" => {
                let seen = sampler.look().await;
                let may_revoke = sampler.options.may_revoke(&parts);
                let name = seen.fragments.name();
                let html = page::page(&seen.state, &name, assets, may_revoke.as_deref());
                respond(StatusCode::OK, HTML, Keep::Never, html.into_string())
            }
            // There is no end to wait for.
            "/events" if parts.method == Method::HEAD => {
                respond(StatusCode::OK, "text/event-stream", Keep::Never, "")
            }
            "/events" => {
                let body = live::events(sampler, &parts);
                respond(StatusCode::OK, "text/event-stream", Keep::Never, body)
            }
            "/lock" => lock_page::respond_with(sampler, &parts).await,
            "/state.json" => {
                let seen = sampler.look().await;
                let text = json::json(&seen.state).to_string();
                respond(StatusCode::OK, "application/json", Keep::Never, text)
            }
            path => match assets.find(path) {
                Some((kind, content)) => respond(StatusCode::OK, kind, Keep::Forever, content),
                None => plain(StatusCode::NOT_FOUND, "there is no such page\n"),
            },
        }
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin")
            .field("manager", &self.sampler.options.manager)
            .finish_non_exhaustive()
    }
}
