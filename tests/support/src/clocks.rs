//! Clocks of another process that can be changed while it runs. Linux only.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use crate::preload::{Library, readable_directory};

/// The clocks that a process can read; each can be changed independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The wall clock.
    Wall,
    /// The clock of timers. A wait in the kernel that has begun does not follow it.
    Monotonic,
    /// The clock that also advances while the machine sleeps.
    Boot,
}

pub const ALL: [Clock; 3] = [Clock::Wall, Clock::Monotonic, Clock::Boot];

/// The clocks of all processes that were started with these.
pub struct Clocks {
    directory: TempDir,
    library: Arc<Library>,
    steering: Mutex<Steering>,
}

struct Steering {
    file: File,
    /// The number of pages written so far.
    number: u64,
    clocks: [Wrong; ALL.len()],
}

/// The layout in `clock.c`.
#[derive(Clone, Copy, Default)]
struct Wrong {
    by: i64,
    /// In nanoseconds per second.
    drift: i64,
    since: i64,
}

impl Clocks {
    /// Creates clocks that run correctly at first.
    pub fn correct() -> Self {
        let directory = readable_directory();
        let mut steering = Steering {
            file: File::create(directory.path().join("steering")).unwrap(),
            number: 0,
            clocks: Default::default(),
        };
        // Write both pages, so that the file has its full size before a process maps it.
        steering.write();
        steering.write();
        Self {
            library: library(),
            directory,
            steering: Mutex::new(steering),
        }
    }

    /// Returns the environment variables that make a process use these clocks.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        let steering = self.directory.path().join("steering");
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        [
            ("LD_PRELOAD", path(&self.library.path())),
            ("CLOCK_STEERING", path(&steering)),
        ]
    }

    /// Makes a command use these clocks, and all processes that it starts.
    pub fn preload(&self, command: &mut Command) {
        command.envs(self.environment());
    }

    pub fn forward(&self, clocks: &[Clock], by: Duration) {
        self.step(clocks, nanos(by));
    }

    pub fn back(&self, clocks: &[Clock], by: Duration) {
        self.step(clocks, -nanos(by));
    }

    /// Makes the clocks gain `ppm` microseconds a second from now on, or lose them if negative.
    pub fn gain(&self, clocks: &[Clock], ppm: i64) {
        self.change(clocks, |wrong| wrong.drift = ppm * 1000);
    }

    /// Makes all clocks correct again, at once.
    pub fn reset(&self) {
        self.change(&ALL, |wrong| *wrong = Wrong::default());
    }

    fn step(&self, clocks: &[Clock], by: i64) {
        self.change(clocks, |wrong| wrong.by += by);
    }

    fn change(&self, clocks: &[Clock], change: impl Fn(&mut Wrong)) {
        let mut steering = self.steering.lock().unwrap();
        let now = raw();
        for clock in clocks {
            let wrong = &mut steering.clocks[*clock as usize];
            wrong.by += (now - wrong.since) / 1000 * wrong.drift / 1_000_000;
            wrong.since = now;
            change(wrong);
        }
        steering.write();
    }
}

impl Steering {
    /// Writes the page that is not in use, and then makes it the current one.
    fn write(&mut self) {
        self.number += 1;
        let page: Vec<u8> = self.clocks.iter().flat_map(Wrong::bytes).collect();
        let at = 8 + self.number % 2 * page.len() as u64;
        self.file.write_all_at(&page, at).unwrap();
        let number = self.number.to_ne_bytes();
        self.file.write_all_at(&number, 0).unwrap();
    }
}

impl Wrong {
    fn bytes(&self) -> impl Iterator<Item = u8> {
        let words = [self.by, self.drift, self.since];
        words.into_iter().flat_map(i64::to_ne_bytes)
    }
}

/// Returns the preloaded library, which all clocks share.
fn library() -> Arc<Library> {
    static LIBRARY: Mutex<Weak<Library>> = Mutex::new(Weak::new());
    let mut last = LIBRARY.lock().unwrap();
    last.upgrade().unwrap_or_else(|| {
        let library = Arc::new(Library::compiled("clock.c"));
        *last = Arc::downgrade(&library);
        library
    })
}

fn raw() -> i64 {
    let time = clock_gettime(ClockId::MonotonicRaw);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn nanos(time: Duration) -> i64 {
    time.as_nanos().try_into().unwrap()
}
