//! What is special to MySQL and MariaDB.

mod bells;
mod hosts;
mod logins;
mod replicas;
mod rights;
mod sessions;
mod settings;
mod transaction_proof;
