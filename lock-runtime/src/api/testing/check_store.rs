//! Checks a store that a user brings.

use crate::own_store::{Loaded, Store, StoreError, Swapped, Version};
use crate::util::join_all::join_all;
use std::error::Error;
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

/// The longest name in bytes.
const MAX_NAME: usize = 1000;

/// How many writers there are at once, and how often each writes.
const WRITERS: usize = 16;
const WRITES: usize = 8;

/// A promise of a [`Store`](crate::store::Store) that [`check_store`] has found broken.
#[derive(Clone, Debug)]
pub struct BrokenPromise {
    promise: &'static str,
    found: String,
}

impl BrokenPromise {
    /// Returns what the store should do.
    #[must_use]
    pub fn promise(&self) -> &str {
        self.promise
    }
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the store must keep this promise: {}; {}",
            self.promise, self.found
        )
    }
}

impl Error for BrokenPromise {}

/// Checks what can be seen of the promises of a [`Store`](crate::store::Store): that it keeps any bytes under
/// any name, compares what it swaps, also when many write at once, and has versions that never come again.
/// Takes some 400 requests, and leaves nothing behind unless it fails.
///
/// Nothing is seen of what happens when replies are lost: whether an error is
/// [`Unknown`](crate::store::StoreError::Unknown) is up to the author.
///
/// ```
/// # use lock_runtime::store::{Loaded, Store, StoreFuture, Swapped, Version};
/// # struct Table;
/// # impl Store for Table {
/// #     fn load<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Loaded> {
/// #         Box::pin(async { Ok(Loaded::nothing()) })
/// #     }
/// #     fn swap<'a>(
/// #         &'a self,
/// #         _: &'a str,
/// #         _: Option<&'a Version>,
/// #         _: Option<&'a [u8]>,
/// #     ) -> StoreFuture<'a, Swapped> {
/// #         Box::pin(async { Ok(Swapped::Conflict(Loaded::nothing())) })
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// // This one refuses all swaps.
/// let broken = lock_runtime::testing::check_store(&Table).await.unwrap_err();
/// assert_eq!(broken.promise(), "where there is no record, one can be inserted");
/// # }
/// ```
///
/// # Errors
///
/// The first promise that is broken. An error of the store is one, too. Dropping the future leaves the
/// records that it has inserted.
pub async fn check_store(store: &dyn Store) -> Result<(), BrokenPromise> {
    let checks = Checks {
        store,
        names: format!("lock-runtime-check-{}:", Uuid::new_v4().simple()),
    };
    checks.keep_records().await?;
    checks.keep_names_apart().await?;
    checks.compare().await?;
    checks.never_repeat_versions().await?;
    checks.compare_when_many_write().await?;
    checks.list_names().await?;
    checks.show_the_time().await
}

struct Checks<'a> {
    store: &'a dyn Store,
    /// What the names of all records begin with.
    names: String,
}

/// Returns a record as the library writes them: its first 16 bytes are random.
fn record(rest: &[u8]) -> Vec<u8> {
    [Uuid::new_v4().as_bytes(), rest].concat()
}

fn expect(promise: &'static str, kept: bool, found: impl fmt::Debug) -> Result<(), BrokenPromise> {
    match kept {
        true => Ok(()),
        false => Err(BrokenPromise {
            promise,
            found: format!("found: {found:?}"),
        }),
    }
}

impl Checks<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.names)
    }

    async fn load(&self, name: &str) -> Result<Loaded, BrokenPromise> {
        self.store.load(name).await.map_err(failed)
    }

    async fn swap(
        &self,
        name: &str,
        expected: Option<&Version>,
        record: Option<&[u8]>,
    ) -> Result<Swapped, BrokenPromise> {
        let swapped = self.store.swap(name, expected, record).await;
        swapped.map_err(failed)
    }

    async fn insert(&self, name: &str, record: &[u8]) -> Result<Version, BrokenPromise> {
        match self.swap(name, None, Some(record)).await? {
            Swapped::Done(version) => Ok(version),
            other => {
                let promise = "where there is no record, one can be inserted";
                expect(promise, false, other).map(|()| Version::new([]))
            }
        }
    }

    async fn delete(&self, name: &str, version: &Version) -> Result<(), BrokenPromise> {
        let deleted = self.swap(name, Some(version), None).await?;
        let is_done = matches!(deleted, Swapped::Done(_));
        expect(
            "a record of the version that is there can be deleted",
            is_done,
            deleted,
        )
    }

    /// Checks that a swap conflicts with this record, and changes nothing.
    async fn expect_conflict(
        &self,
        promise: &'static str,
        name: &str,
        (expected, new): (Option<&Version>, Option<&[u8]>),
        present: Option<(&[u8], &Version)>,
    ) -> Result<(), BrokenPromise> {
        let swapped = self.swap(name, expected, new).await?;
        let Swapped::Conflict(found) = swapped else {
            return expect(promise, false, swapped);
        };
        let found = found.found.as_ref();
        let found = found.map(|(record, version)| (&**record, version));
        expect(
            "a conflict shows the record and the version that are there",
            found == present,
            found,
        )
    }

    async fn keep_records(&self) -> Result<(), BrokenPromise> {
        let all: Vec<u8> = (0..=255).collect();
        let long = all.repeat(16);
        for (n, rest) in [&[][..], &[0], &all, &long].into_iter().enumerate() {
            let (name, record) = (self.name(&format!("record {n}")), record(rest));
            let empty = self.load(&name).await?;
            expect(
                "there is no record before it is inserted",
                empty.found.is_none(),
                empty,
            )?;
            let version = self.insert(&name, &record).await?;
            // What it loads may be out of date: a conflict is not.
            let conflict = self.swap(&name, None, Some(&record)).await?;
            let Swapped::Conflict(found) = conflict else {
                return expect(
                    "an insertion changes no record that is there",
                    false,
                    conflict,
                );
            };
            let (found, known) = found.found.unzip();
            let promise = "a record of up to 4 KiB has the bytes that were written";
            expect(promise, found.as_ref() == Some(&record), found)?;
            let promise = "a swap that is done returns the version that is found next";
            expect(promise, known.as_ref() == Some(&version), (known, &version))?;
            self.delete(&name, &version).await?;
        }
        Ok(())
    }

    async fn keep_names_apart(&self) -> Result<(), BrokenPromise> {
        let longer = "n".repeat(MAX_NAME - self.names.len());
        let long = &longer[1..];
        let odd = [
            "a", "A", "á", "a ", "a/b", "a\\b", "a%b", "a_b", "a:b", "日本", "a'b", "a\"b", "a\tb",
            long, &longer,
        ];
        let mut kept = Vec::new();
        for name in odd.map(|odd| self.name(odd)) {
            let record = record(name.as_bytes());
            let inserted = self.swap(&name, None, Some(&record)).await?;
            let Swapped::Done(version) = inserted else {
                let promise =
                    "names of up to 1,000 bytes that differ are those of different records";
                return expect(promise, false, (name, inserted));
            };
            kept.push((name, record, version));
        }
        for (name, record, version) in &kept {
            let present = Some((&**record, version));
            let again = (None, Some(&**record));
            let promise = "an insertion changes no record that is there";
            self.expect_conflict(promise, name, again, present).await?;
            self.delete(name, version).await?;
        }
        Ok(())
    }

    async fn compare(&self) -> Result<(), BrokenPromise> {
        let (name, other) = (self.name("row"), self.name("other"));
        let [first, second, third] = [b"1", b"2", b"3"].map(|rest| record(rest));
        let old = self.insert(&name, &first).await?;
        let of_other = self.insert(&other, &third).await?;
        let present = match self.swap(&name, Some(&old), Some(&second)).await? {
            Swapped::Done(version) => version,
            found => {
                return expect(
                    "a record of the version that is there can be replaced",
                    false,
                    found,
                );
            }
        };
        expect("each record has another version", old != present, &present)?;
        let here = Some((&*second, &present));
        for wrong in [&old, &of_other] {
            let promise = "a record of another version is not replaced";
            let replace = (Some(wrong), Some(&*third));
            self.expect_conflict(promise, &name, replace, here).await?;
            let promise = "a record of another version is not deleted";
            self.expect_conflict(promise, &name, (Some(wrong), None), here)
                .await?;
        }
        let promise = "nothing is swapped for nothing where a record is";
        self.expect_conflict(promise, &name, (None, None), here)
            .await?;
        self.delete(&name, &present).await?;
        self.delete(&other, &of_other).await
    }

    async fn never_repeat_versions(&self) -> Result<(), BrokenPromise> {
        let name = self.name("again");
        let mut earlier: Vec<Version> = Vec::new();
        for _ in 0..4 {
            let record = record(b"again");
            let version = self.insert(&name, &record).await?;
            let promise = "a version never comes again, even after a deletion";
            expect(promise, !earlier.contains(&version), &version)?;
            for old in &earlier {
                let replace = (Some(old), Some(&*record));
                let here = Some((&*record, &version));
                self.expect_conflict(promise, &name, replace, here).await?;
            }
            self.delete(&name, &version).await?;
            let promise = "where there is no record, none is replaced";
            let replace = (Some(&version), Some(&*record));
            self.expect_conflict(promise, &name, replace, None).await?;
            earlier.push(version);
        }
        let nothing = self.swap(&name, None, None).await?;
        let is_done = matches!(nothing, Swapped::Done(_));
        expect(
            "nothing is swapped for nothing where no record is",
            is_done,
            nothing,
        )
    }

    async fn compare_when_many_write(&self) -> Result<(), BrokenPromise> {
        let name = self.name("counter");
        let inserted = join_all((0..WRITERS).map(async |_| {
            let record = record(&[0; 8]);
            let swapped = self.swap(&name, None, Some(&record)).await?;
            Ok(matches!(swapped, Swapped::Done(_)))
        }));
        let inserted: Result<Vec<bool>, _> = inserted.await.into_iter().collect();
        let done = inserted?.into_iter().filter(|done| *done).count();
        expect("of many insertions at once, one is done", done == 1, done)?;
        let counted = join_all((0..WRITERS).map(async |_| {
            for _ in 0..WRITES {
                self.count(&name).await?;
            }
            Ok(())
        }));
        let counted: Result<(), BrokenPromise> = counted.await.into_iter().collect();
        counted?;
        let (count, version) = self.counter(&name).await?;
        let promise = "of many swaps of one version at once, one is done";
        expect(promise, count == (WRITERS * WRITES) as u64, count)?;
        self.delete(&name, &version).await
    }

    /// Adds one to a counter.
    async fn count(&self, name: &str) -> Result<(), BrokenPromise> {
        let (mut count, mut version) = self.counter(name).await?;
        loop {
            let record = record(&count.wrapping_add(1).to_be_bytes());
            match self.swap(name, Some(&version), Some(&record)).await? {
                Swapped::Done(_) => return Ok(()),
                Swapped::Conflict(found) => (count, version) = counter(found)?,
            }
        }
    }

    async fn counter(&self, name: &str) -> Result<(u64, Version), BrokenPromise> {
        // What it loads may be out of date: a conflict is not.
        match self.swap(name, None, Some(&record(&[]))).await? {
            Swapped::Conflict(found) => counter(found),
            done => expect("an insertion changes no record that is there", false, done)
                .map(|()| (0, Version::new([]))),
        }
    }

    async fn list_names(&self) -> Result<(), BrokenPromise> {
        let names = match self.store.names(&self.names, 10).await {
            // A store need not list them.
            Err(StoreError::Denied(_)) => return Ok(()),
            names => names.map_err(failed)?,
        };
        expect(
            "names of records that are gone are not listed",
            names.is_empty(),
            names,
        )?;
        let mut versions = Vec::new();
        for n in 0..3 {
            let name = self.name(&format!("listed {n}"));
            let version = self.insert(&name, &record(&[])).await?;
            versions.push((name, version));
        }
        let listed = self.store.names(&self.name("listed"), 2).await;
        let listed = listed.map_err(failed)?;
        let is_own = |name: &String| versions.iter().any(|(own, _)| own == name);
        let promise = "as many names with the prefix are listed as are wanted";
        expect(
            promise,
            listed.len() == 2 && listed.iter().all(is_own),
            &listed,
        )?;
        for (name, version) in &versions {
            self.delete(name, version).await?;
        }
        Ok(())
    }

    async fn show_the_time(&self) -> Result<(), BrokenPromise> {
        let mut last = Duration::ZERO;
        for _ in 0..3 {
            let Some(at) = self.load(&self.name("time")).await?.at else {
                return Ok(());
            };
            expect(
                "the server's clock does not go back",
                at >= last,
                (last, at),
            )?;
            last = at;
        }
        Ok(())
    }
}

fn counter(found: Loaded) -> Result<(u64, Version), BrokenPromise> {
    let parts = found.found.as_ref().and_then(|(record, version)| {
        let count = record.get(16..)?.try_into().ok()?;
        Some((u64::from_be_bytes(count), version.clone()))
    });
    parts.ok_or_else(|| BrokenPromise {
        promise: "a conflict shows the record and the version that are there",
        found: format!("found: {found:?}"),
    })
}

fn failed(error: StoreError) -> BrokenPromise {
    BrokenPromise {
        promise: "requests do not fail",
        found: format!("one did: {error}"),
    }
}
