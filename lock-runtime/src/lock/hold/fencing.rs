//! The fencing token of a hold.

use crate::error::LockError;
use crate::lock::context::Effort;
use crate::lock::hold::Hold;
use crate::util::time;

impl Hold {
    /// Returns a number greater than that of every earlier hold. Guards that own the hold together have the
    /// same.
    pub(crate) async fn fencing_token(&self) -> Result<u64, LockError> {
        if let Some(token) = self.known_fencing_token() {
            return self.check_lost().map_or(Ok(token), Err);
        }
        let drawn = self.draw_fencing_token().await?;
        Ok(self.learn_fencing_token(drawn))
    }

    /// Returns the fencing token of the guards that own the hold, if any of them has drawn one.
    pub(crate) fn known_fencing_token(&self) -> Option<u64> {
        self.state().fencing_token
    }

    /// Records the fencing token of the guards that own the hold. Returns the one that was recorded first.
    pub(crate) fn learn_fencing_token(&self, token: u64) -> u64 {
        *self.state().fencing_token.get_or_insert(token)
    }

    /// Fetches a number greater than that of every earlier hold.
    pub(crate) async fn draw_fencing_token(&self) -> Result<u64, LockError> {
        if let Some(loss) = self.check_lost() {
            return Err(loss);
        }
        let claim = self.claim();
        let deadline = time::now() + self.remaining();
        let context = self.context();
        let request = |deadline| context.engine.fencing_token(&claim, deadline);
        let token = context.retry(Effort::InCall { deadline }, request).await;
        match token {
            // The number is this hold's only if the lock was still held when it arrived.
            Ok((Some(token), _)) => self.check_lost().map_or(Ok(token), Err),
            Ok((None, _)) => Err(self.not_owner()),
            Err(error) => Err(self
                .check_lost()
                .unwrap_or_else(|| context.unavailable(&self.name, error))),
        }
    }

    /// Makes all later numbers of this lock's counter greater than `token`.
    pub(crate) async fn raise_fencing_token(&self, token: u64) -> Result<(), LockError> {
        let claim = self.claim();
        let deadline = time::now() + self.remaining();
        let context = self.context();
        let request = |deadline| context.engine.raise_fencing_token(&claim, token, deadline);
        match context.retry(Effort::InCall { deadline }, request).await {
            Ok((true, _)) => Ok(()),
            Ok((false, _)) => Err(self.not_owner()),
            Err(error) => Err(self
                .check_lost()
                .unwrap_or_else(|| context.unavailable(&self.name, error))),
        }
    }
}
