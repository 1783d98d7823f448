//! The resource that a lock protects: a number in a file, shared by processes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub struct Database(File);

impl Database {
    pub fn create(path: &Path) -> Self {
        File::create_new(path).unwrap();
        let database = Self::open(path);
        database.write(0, 0);
        database
    }

    pub fn open(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path);
        Self(file.unwrap())
    }

    pub fn value(&self) -> i64 {
        self.0.lock_shared().unwrap();
        let (value, _) = self.read();
        self.0.unlock().unwrap();
        value
    }

    pub fn set(&self, value: i64) {
        assert!(self.set_fenced(value, 0));
    }

    /// Writes the value. Returns `false` if a write with a greater token came before.
    pub fn set_fenced(&self, value: i64, fence: u64) -> bool {
        self.0.lock().unwrap();
        let (_, last) = self.read();
        let is_accepted = last <= fence;
        if is_accepted {
            self.write(value, fence);
        }
        self.0.unlock().unwrap();
        is_accepted
    }

    fn read(&self) -> (i64, u64) {
        let (mut value, mut fence) = ([0; 8], [0; 8]);
        self.0.read_exact_at(&mut value, 0).unwrap();
        self.0.read_exact_at(&mut fence, 8).unwrap();
        (i64::from_le_bytes(value), u64::from_le_bytes(fence))
    }

    fn write(&self, value: i64, fence: u64) {
        self.0.write_all_at(&value.to_le_bytes(), 0).unwrap();
        self.0.write_all_at(&fence.to_le_bytes(), 8).unwrap();
    }
}
