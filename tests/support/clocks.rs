//! Clocks of another process that go wrong while it runs. On Linux.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

/// What a process can be told of the time; each clock goes wrong for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    /// What people call the time.
    Wall,
    /// That timers go by. A wait of the kernel's that has begun doesn't follow it.
    Monotonic,
    /// That goes on while the machine sleeps.
    Boot,
}

pub const ALL: [Hand; 3] = [Hand::Wall, Hand::Monotonic, Hand::Boot];

/// The clocks of all processes that were started with them.
pub struct Clocks {
    directory: TempDir,
    library: Arc<Library>,
    steering: Mutex<Steering>,
}

struct Steering {
    file: File,
    /// Of how many pages this is the last.
    number: u64,
    hands: [Wrong; ALL.len()],
}

/// As `clock.c` has it.
#[derive(Clone, Copy, Default)]
struct Wrong {
    by: i64,
    /// Nanoseconds a second.
    drift: i64,
    since: i64,
}

impl Clocks {
    /// They go right so far.
    pub fn new() -> Self {
        let directory = TempDir::with_prefix("lock-clocks-").unwrap();
        let mut steering = Steering {
            file: File::create(directory.path().join("steering")).unwrap(),
            number: 0,
            hands: Default::default(),
        };
        // Both pages, so that the file has its size before it is looked at.
        steering.write();
        steering.write();
        Self {
            library: Library::compiled(),
            directory,
            steering: Mutex::new(steering),
        }
    }

    /// What has a process go by them.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        let steering = self.directory.path().join("steering");
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        [
            ("LD_PRELOAD", path(&self.library.path())),
            ("CLOCK_STEERING", path(&steering)),
        ]
    }

    /// The process goes by them, as do those that it starts.
    pub fn preload(&self, command: &mut Command) {
        command.envs(self.environment());
    }

    pub fn forward(&self, hands: &[Hand], by: Duration) {
        self.step(hands, nanos(by));
    }

    pub fn back(&self, hands: &[Hand], by: Duration) {
        self.step(hands, -nanos(by));
    }

    /// From now on they gain so many microseconds a second, or lose them.
    pub fn gain(&self, hands: &[Hand], ppm: i64) {
        self.change(hands, |wrong| wrong.drift = ppm * 1000);
    }

    /// They go right again, at once.
    pub fn set_right(&self) {
        self.change(&ALL, |wrong| *wrong = Wrong::default());
    }

    fn step(&self, hands: &[Hand], by: i64) {
        self.change(hands, |wrong| wrong.by += by);
    }

    fn change(&self, hands: &[Hand], change: impl Fn(&mut Wrong)) {
        let mut steering = self.steering.lock().unwrap();
        let now = raw();
        for hand in hands {
            let wrong = &mut steering.hands[*hand as usize];
            wrong.by += (now - wrong.since) / 1000 * wrong.drift / 1_000_000;
            wrong.since = now;
            change(wrong);
        }
        steering.write();
    }
}

impl Steering {
    /// On the page that nobody reads; then it is the one that counts.
    fn write(&mut self) {
        self.number += 1;
        let page: Vec<u8> = self.hands.iter().flat_map(Wrong::bytes).collect();
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

/// What is preloaded: one for all clocks, gone with the last.
struct Library(TempDir);

impl Library {
    fn compiled() -> Arc<Self> {
        static LIBRARY: Mutex<Weak<Library>> = Mutex::new(Weak::new());
        let mut last = LIBRARY.lock().unwrap();
        last.upgrade().unwrap_or_else(|| {
            let library = Arc::new(Self(TempDir::with_prefix("lock-clocks-").unwrap()));
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/clock.c");
            let compiled = Command::new("cc")
                .args(["-O2", "-shared", "-fPIC", "-o"])
                .args([&library.path(), Path::new(source)])
                .status();
            assert!(compiled.expect("a C compiler is installed").success());
            *last = Arc::downgrade(&library);
            library
        })
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("clock.so")
    }
}

fn raw() -> i64 {
    let time = clock_gettime(ClockId::MonotonicRaw);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn nanos(time: Duration) -> i64 {
    time.as_nanos().try_into().unwrap()
}
