use super::{Contender, PERMITS, Retry, TTL};
use lock_runtime::{Config, LockError, LockGuard, LockManager, ReleaseMode, distributed_lock};
use std::time::Duration;

pub struct Ours(pub LockManager);

/// Returns the configuration for a URL, or for a quorum of several, with spaces between them.
pub fn config(urls: &str) -> Config {
    match urls.contains(' ') {
        true => Config::quorum(urls.split(' ')),
        false => Config::new(urls),
    }
}

/// Like [`Ours`], without waiting for releases.
pub struct Background(Ours);

/// Like [`Ours`], released lazily.
pub struct Lazy(Ours);

/// An annotated function.
pub struct Attribute(Ours);

/// Like [`Ours`], for reading.
pub struct Read(pub Ours);

/// Like [`Ours`], with several permits.
pub struct Permits(Ours);

impl Contender for Ours {
    type Hold = LockGuard;

    async fn connect(url: &str, _: Retry) -> Ours {
        Ours(LockManager::connect(config(url)).await.unwrap())
    }

    async fn acquire(&self, key: &str) -> LockGuard {
        let lock = self.0.lock(key).ttl(TTL).wait(Duration::MAX);
        lock.acquire().await.unwrap()
    }

    async fn release(&self, hold: LockGuard) {
        hold.release().await.unwrap();
    }
}

impl Contender for Background {
    type Hold = LockGuard;

    async fn connect(url: &str, retry: Retry) -> Background {
        Background(Ours::connect(url, retry).await)
    }

    async fn acquire(&self, key: &str) -> LockGuard {
        self.0.acquire(key).await
    }

    async fn release(&self, hold: LockGuard) {
        drop(hold);
    }
}

impl Contender for Lazy {
    type Hold = LockGuard;

    async fn connect(url: &str, retry: Retry) -> Lazy {
        Lazy(Ours::connect(url, retry).await)
    }

    async fn acquire(&self, key: &str) -> LockGuard {
        let lock = self.0.0.lock(key).ttl(TTL).wait(Duration::MAX);
        lock.release_mode(ReleaseMode::Lazy)
            .acquire()
            .await
            .unwrap()
    }

    async fn release(&self, hold: LockGuard) {
        self.0.release(hold).await;
    }
}

impl Contender for Attribute {
    type Hold = LockGuard;

    async fn connect(url: &str, retry: Retry) -> Attribute {
        Attribute(Ours::connect(url, retry).await)
    }

    async fn acquire(&self, key: &str) -> LockGuard {
        self.0.acquire(key).await
    }

    async fn release(&self, hold: LockGuard) {
        self.0.release(hold).await;
    }

    async fn run<T: Send>(&self, key: &str, body: impl Future<Output = T> + Send) -> T {
        annotated(&self.0.0, key, body).await.unwrap()
    }
}

impl Contender for Read {
    type Hold = LockGuard;

    const SHARED: bool = true;

    async fn connect(url: &str, retry: Retry) -> Read {
        Read(Ours::connect(url, retry).await)
    }

    async fn acquire(&self, key: &str) -> LockGuard {
        let lock = self.0.0.lock(key).read().ttl(TTL).wait(Duration::MAX);
        lock.acquire().await.unwrap()
    }

    async fn release(&self, hold: LockGuard) {
        self.0.release(hold).await;
    }
}

impl Contender for Permits {
    type Hold = LockGuard;

    const SHARED: bool = true;

    async fn connect(url: &str, retry: Retry) -> Permits {
        Permits(Ours::connect(url, retry).await)
    }

    async fn acquire(&self, key: &str) -> LockGuard {
        let lock = self.0.0.lock(key).permits(PERMITS).ttl(TTL);
        lock.wait(Duration::MAX).acquire().await.unwrap()
    }

    async fn release(&self, hold: LockGuard) {
        self.0.release(hold).await;
    }
}

#[distributed_lock(key = "<key>", ttl = TTL, wait = "forever", manager = locks)]
async fn annotated<T>(
    locks: &LockManager,
    key: &str,
    body: impl Future<Output = T>,
) -> Result<T, LockError> {
    Ok(body.await)
}
