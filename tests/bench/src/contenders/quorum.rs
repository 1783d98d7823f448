//! The minimum for a safe lock on three servers: the commands of one, on all of them at once.

use super::raw::{self, Raw};
use super::{Contender, Retry};
use tokio::join;

pub struct Everywhere([Raw; 3]);

impl Contender for Everywhere {
    type Hold = [raw::Hold; 3];

    async fn connect(urls: &str, retry: Retry) -> Everywhere {
        let urls: Vec<_> = urls.split(' ').collect();
        let [first, second, third] = urls[..] else {
            panic!("expected three servers");
        };
        Everywhere([
            Raw::connect(first, retry).await,
            Raw::connect(second, retry).await,
            Raw::connect(third, retry).await,
        ])
    }

    async fn acquire(&self, key: &str) -> Self::Hold {
        let [first, second, third] = &self.0;
        let (first, second, third) =
            join!(first.acquire(key), second.acquire(key), third.acquire(key));
        [first, second, third]
    }

    async fn release(&self, holds: Self::Hold) {
        let [first, second, third] = &self.0;
        let [of_first, of_second, of_third] = holds;
        join!(
            first.release(of_first),
            second.release(of_second),
            third.release(of_third),
        );
    }
}
