//! Passwords that change while locks are held, and providers that fail.

mod providers;
mod rotation;

use std::collections::HashSet;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lock_runtime::Config;

/// The user whose password changes.
const USER: &str = "app";

/// The passwords that a server has ever had contain this.
const SECRET: &str = "correct-horse";

/// What holds the present password, such as a file that an agent rewrites.
#[derive(Clone)]
struct Vault {
    password: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
    /// All passwords that were given out.
    given: Arc<Mutex<HashSet<String>>>,
}

impl Vault {
    fn new() -> Self {
        Self {
            password: Arc::new(Mutex::new(format!("{SECRET}-0"))),
            asked: Arc::default(),
            given: Arc::default(),
        }
    }

    fn password(&self) -> String {
        self.password.lock().unwrap().clone()
    }

    fn store(&self, password: &str) {
        password.clone_into(&mut self.password.lock().unwrap());
    }

    /// Returns how often a connection has asked.
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn config(&self, config: Config) -> Config {
        let vault = self.clone();
        config.credentials_from(move || {
            vault.asked.fetch_add(1, Ordering::SeqCst);
            let password = vault.password();
            vault.given.lock().unwrap().insert(password.clone());
            async { Ok((USER.to_owned(), password)) }
        })
    }
}

/// Returns the messages of an error and its sources.
fn text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}
