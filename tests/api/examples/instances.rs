//! Running instances of the order services.

use std::fs::File;
use std::path::PathBuf;

use tempfile::TempDir;

use super::program::Program;

/// Instances of the service on one database.
pub struct Instances {
    running: Vec<(Program, String)>,
    database: PathBuf,
    _directory: TempDir,
}

impl Instances {
    pub fn start(programs: &[&'static str], lock: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let database = directory.path().join("orders.db");
        let start = |name: &&'static str| {
            let arguments = ["--port", "0", "--database", database.to_str().unwrap()];
            Program::start(name, &arguments, Some(lock))
        };
        let address = |program: Program| {
            let line = program.line("listening on ");
            let address = line.strip_prefix("listening on ").unwrap().to_owned();
            (program, address)
        };
        // All start at the same time, as in a cluster, if they share a lock.
        let running = match lock {
            "memory://" => programs.iter().map(start).map(address).collect(),
            _ => {
                let programs: Vec<Program> = programs.iter().map(start).collect();
                programs.into_iter().map(address).collect()
            }
        };
        Self {
            running,
            database,
            _directory: directory,
        }
    }

    /// Returns the URL of an instance.
    pub fn address(&self, instance: usize) -> &str {
        &self.running[instance % self.running.len()].1
    }

    /// Keeps all instances from writing orders, until the file is unlocked. They may read.
    pub fn stop_writes(&self) -> File {
        let lock = File::create(self.database.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        lock
    }

    pub fn terminate(&self, instance: usize) {
        self.running[instance].0.terminate();
    }

    #[track_caller]
    pub fn stop(self) {
        for (program, _) in &self.running {
            program.terminate();
        }
        for (program, _) in self.running {
            assert_eq!(program.succeeds().last().unwrap(), "stopped");
        }
    }
}
