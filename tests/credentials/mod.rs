//! Passwords that change while locks are held, providers that fail, and certificates of clients.

mod certificates;
mod engines;
mod providers;
pub mod rotation;

use std::collections::HashSet;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lock_runtime::Config;

use lock_test_support::postgres::Postgres;
use lock_test_support::server::Server;

/// The user whose password changes.
pub const USER: &str = "app";

/// The passwords that a server has ever had contain this.
pub const SECRET: &str = "correct-horse";

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

/// Gives a server of Redis the user.
fn add_user(server: &Server) {
    server.query::<()>(&format!("ACL SETUSER {USER} on >{SECRET}-0 ~* &* +@all"));
}

fn redis() -> Server {
    let server = Server::start();
    add_user(&server);
    server
}

fn postgres() -> Postgres {
    let server = Postgres::start();
    server.execute(&format!("CREATE ROLE {USER} LOGIN PASSWORD '{SECRET}-0'"));
    server.execute(&format!("GRANT CREATE ON DATABASE postgres TO {USER}"));
    // Without optimization, SCRAM takes long on a busy machine.
    server.require("password");
    server
}
