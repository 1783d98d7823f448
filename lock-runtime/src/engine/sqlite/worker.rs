//! The thread that uses the file, so that no caller waits for a disk or for other processes. It writes all
//! that has come meanwhile in one transaction.

use crate::engine::sqlite::database::Database;
use crate::engine::sqlite::file::File;
use crate::engine::sqlite::statements::Statements;
use crate::engine::store::swap::Swap;
use crate::own_store::{Loaded, Store, StoreError, StoreFuture, Swapped, Version};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{io, thread};
use tokio::sync::oneshot;

/// How much is done at once. Other processes wait for the end of a transaction.
const MANY: usize = 128;

/// The store in a file. Its thread ends when it is dropped.
pub(crate) struct SqliteStore {
    jobs: Sender<Job>,
}

enum Job {
    Load(String, Reply<Loaded>),
    Names(String, usize, Reply<Vec<String>>),
    Swap(Swap, Reply<Swapped>),
}

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

impl SqliteStore {
    /// Starts the thread, which opens the file for the first request.
    pub(crate) fn start(file: File) -> io::Result<SqliteStore> {
        let (jobs, queue) = channel();
        let thread = thread::Builder::new().name("lock-sqlite".into());
        thread.spawn(move || run(&file, &queue))?;
        Ok(SqliteStore { jobs })
    }

    fn ask<'a, T: Send + 'a>(&'a self, job: impl FnOnce(Reply<T>) -> Job) -> StoreFuture<'a, T> {
        let (reply, replied) = oneshot::channel();
        // If the thread has ended, it has dropped the reply.
        let _ = self.jobs.send(job(reply));
        Box::pin(async move {
            let ended = |_| Err(StoreError::unknown("the thread of the file has ended"));
            replied.await.unwrap_or_else(ended)
        })
    }
}

impl Store for SqliteStore {
    fn load<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Loaded> {
        self.ask(|reply| Job::Load(name.to_owned(), reply))
    }

    fn swap<'a>(
        &'a self,
        name: &'a str,
        expected: Option<&'a Version>,
        record: Option<&'a [u8]>,
    ) -> StoreFuture<'a, Swapped> {
        let swap = Swap::new(name, expected, record);
        self.ask(|reply| Job::Swap(swap, reply))
    }

    fn names<'a>(&'a self, prefix: &'a str, most: usize) -> StoreFuture<'a, Vec<String>> {
        self.ask(|reply| Job::Names(prefix.to_owned(), most, reply))
    }

    fn loads_the_present(&self) -> bool {
        true
    }
}

impl Job {
    fn fail(self, error: &StoreError) {
        // A caller that has left waits for no reply.
        match self {
            Job::Load(_, reply) => drop(reply.send(Err(error.clone()))),
            Job::Names(_, _, reply) => drop(reply.send(Err(error.clone()))),
            Job::Swap(_, reply) => drop(reply.send(Err(error.clone()))),
        }
    }
}

fn run(file: &File, queue: &Receiver<Job>) {
    let (mut jobs, mut began) = (Vec::new(), None);
    while wait(queue, &mut jobs) {
        if let Err(error) = serve(file, &mut began, queue, &mut jobs) {
            jobs.drain(..).for_each(|job| job.fail(&error));
        }
    }
}

/// Waits for jobs. Returns `false` if none can come any more.
fn wait(queue: &Receiver<Job>, jobs: &mut Vec<Job>) -> bool {
    if jobs.is_empty() {
        jobs.extend(queue.recv());
    }
    jobs.extend(queue.try_iter().take(MANY - jobs.len()));
    !jobs.is_empty()
}

/// Does jobs until the file must be opened anew. An error is that of the jobs that are left.
fn serve(
    file: &File,
    began: &mut Option<u64>,
    queue: &Receiver<Job>,
    jobs: &mut Vec<Job>,
) -> Result<(), StoreError> {
    let database = Database::open(file, began)?;
    let mut statements = Statements::of(&database).map_err(|error| file.refused(&error))?;
    while statements.are_usable && wait(queue, jobs) && !database.is_replaced() {
        work(&mut statements, jobs);
    }
    Ok(())
}

fn work(statements: &mut Statements<'_>, jobs: &mut Vec<Job>) {
    let mut swaps = Vec::new();
    for job in jobs.drain(..) {
        match job {
            Job::Load(name, reply) => drop(reply.send(statements.load(&name))),
            Job::Names(prefix, most, reply) => drop(reply.send(statements.names(&prefix, most))),
            // A swap whose caller has left comes to nothing.
            Job::Swap(_, reply) if reply.is_closed() => {}
            Job::Swap(swap, reply) => swaps.push((swap, reply)),
        }
    }
    if swaps.is_empty() {
        return;
    }
    match statements.swap(swaps.iter().map(|(swap, _)| swap)) {
        Ok(swapped) => {
            for ((_, reply), swapped) in swaps.into_iter().zip(swapped) {
                let _ = reply.send(Ok(swapped));
            }
        }
        Err(error) => {
            for (_, reply) in swaps {
                let _ = reply.send(Err(error.clone()));
            }
        }
    }
}
