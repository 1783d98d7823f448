//! The records in the table.

use crate::engine::common::upkeep::Upkeep;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::mysql::bells::Ears;
use crate::engine::mysql::conn::batch::{Answer, Other, Request};
use crate::engine::mysql::conn::connection::Connection;
use crate::engine::mysql::wire::reply::Reply;
use crate::engine::store::swap::Swap;
use crate::own_store::{Bells, Loaded, Store, StoreError, StoreFuture, Swapped, Version};
use std::sync::Arc;

pub(crate) struct MySqlStore {
    pub(crate) requests: Arc<Upkeep<Connection>>,
    pub(crate) ears: Ears,
    /// It has the tables, which may be made.
    pub(crate) database: String,
    pub(crate) creates: bool,
}

impl MySqlStore {
    pub(crate) async fn send<T>(
        &self,
        request: impl FnOnce(Answer<T>) -> Request,
    ) -> Result<T, StoreError> {
        self.connection().await?.send(request).await
    }

    /// Carries a statement out.
    pub(crate) async fn run(&self, text: String) -> Result<Reply, StoreError> {
        self.send(|answer| Request::Other(Other::Run(text, answer)))
            .await
    }

    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, StoreError> {
        Ok(match self.requests.present() {
            Some(present) => present,
            None => self.requests.connection(false).await?,
        })
    }
}

impl Store for MySqlStore {
    fn load<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Loaded> {
        Box::pin(self.send(|answer| Request::Other(Other::Load(name.to_owned(), answer))))
    }

    fn swap<'a>(
        &'a self,
        name: &'a str,
        expected: Option<&'a Version>,
        record: Option<&'a [u8]>,
    ) -> StoreFuture<'a, Swapped> {
        let swap = Swap::new(name, expected, record);
        Box::pin(self.send(|answer| Request::Swap(swap, answer)))
    }

    fn names<'a>(&'a self, prefix: &'a str, most: usize) -> StoreFuture<'a, Vec<String>> {
        Box::pin(
            self.send(move |answer| Request::Other(Other::Names(prefix.to_owned(), most, answer))),
        )
    }

    fn loads_the_present(&self) -> bool {
        self.requests.present().is_some_and(|it| it.is_sole)
    }

    fn bells(&self) -> Option<&dyn Bells> {
        Some(&self.ears)
    }
}

/// Of a request that was not sent.
impl From<EngineError> for StoreError {
    fn from(error: EngineError) -> StoreError {
        match error.kind {
            EngineErrorKind::Rejected => StoreError::Denied(error.source),
            _ => StoreError::NotDone(error.source),
        }
    }
}
