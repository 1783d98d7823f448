//! What is done with a database.

use crate::engine::sqlite::database::Database;
use crate::engine::sqlite::error::may_pass;
use crate::engine::store::swap::Swap;
use crate::own_store::{Loaded, StoreError, Swapped, Version};
use rusqlite::{Error, OptionalExtension, Result, Statement};

pub(crate) struct Statements<'a> {
    database: &'a Database<'a>,
    begin: Statement<'a>,
    commit: Statement<'a>,
    rollback: Statement<'a>,
    load: Statement<'a>,
    insert: Statement<'a>,
    update: Statement<'a>,
    delete: Statement<'a>,
    names: Statement<'a>,
    /// `false` once an error has occurred after which the file is opened anew.
    pub(crate) are_usable: bool,
}

impl<'a> Statements<'a> {
    pub(crate) fn of(database: &'a Database<'a>) -> Result<Statements<'a>> {
        let prepare = |sql| database.connection.prepare(sql);
        Ok(Statements {
            database,
            begin: prepare("BEGIN IMMEDIATE")?,
            commit: prepare("COMMIT")?,
            rollback: prepare("ROLLBACK")?,
            load: prepare("SELECT record FROM lock WHERE name = ?1")?,
            insert: prepare("INSERT INTO lock VALUES (?1, ?2) ON CONFLICT DO NOTHING")?,
            update: prepare(
                "UPDATE lock SET record = ?2 WHERE name = ?1 AND substr(record, 1, 16) = ?3",
            )?,
            delete: prepare("DELETE FROM lock WHERE name = ?1 AND substr(record, 1, 16) = ?2")?,
            names: prepare("SELECT name FROM lock WHERE name >= ?1 ORDER BY name LIMIT ?2")?,
            are_usable: true,
        })
    }

    pub(crate) fn load(&mut self, name: &str) -> std::result::Result<Loaded, StoreError> {
        self.try_load(name).map_err(|error| self.refused(&error))
    }

    fn try_load(&mut self, name: &str) -> Result<Loaded> {
        let record = self.load.query_row([name], |row| row.get::<_, Vec<u8>>(0));
        let loaded = match record.optional()? {
            Some(record) => {
                let version = Version::stamp_of(&record);
                Loaded::found(record, version)
            }
            None => Loaded::nothing(),
        };
        Ok(match self.database.time() {
            Some(time) => loaded.at(time),
            None => loaded,
        })
    }

    pub(crate) fn names(
        &mut self,
        prefix: &str,
        most: usize,
    ) -> std::result::Result<Vec<String>, StoreError> {
        let names = self.try_names(prefix, most);
        names.map_err(|error| self.refused(&error))
    }

    fn try_names(&mut self, prefix: &str, most: usize) -> Result<Vec<String>> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let names = self.names.query_map((prefix, most), |row| row.get(0))?;
        // Those that begin with it follow each other.
        let is_one = |name: &Result<String>| !matches!(name, Ok(it) if !it.starts_with(prefix));
        names.take_while(is_one).collect()
    }

    /// Carries swaps out in one transaction: all are written, or none is.
    pub(crate) fn swap<'s>(
        &mut self,
        swaps: impl Iterator<Item = &'s Swap>,
    ) -> std::result::Result<Vec<Swapped>, StoreError> {
        let begun = self.begin.execute(());
        begun.map_err(|error| self.refused(&error))?;
        let swapped: Result<Vec<_>> = swaps.map(|swap| self.try_swap(swap)).collect();
        let committed =
            swapped
                .map_err(|error| self.refused(&error))
                .and_then(|swapped| match self.commit.execute(()) {
                    Ok(_) => Ok(swapped),
                    Err(error) => {
                        self.are_usable &= may_pass(&error);
                        Err(self.database.file.not_committed(&error))
                    }
                });
        if committed.is_err() && !self.database.connection.is_autocommit() {
            self.are_usable &= self.rollback.execute(()).is_ok();
        }
        committed
    }

    fn try_swap(&mut self, swap: &Swap) -> Result<Swapped> {
        let Swap {
            name,
            expected,
            record,
        } = swap;
        let changed = match (expected.as_ref().map(Version::as_bytes), record) {
            (None, Some(record)) => self.insert.execute((name, record))?,
            (Some(stamp), Some(record)) => self.update.execute((name, record, stamp))?,
            (Some(stamp), None) => self.delete.execute((name, stamp))?,
            (None, None) => {
                let loaded = self.try_load(name)?;
                usize::from(loaded.found.is_none())
            }
        };
        Ok(match changed {
            0 => Swapped::Conflict(self.try_load(name)?),
            _ => swap.done(),
        })
    }

    fn refused(&mut self, error: &Error) -> StoreError {
        self.are_usable &= may_pass(error);
        self.database.file.refused(error)
    }
}
