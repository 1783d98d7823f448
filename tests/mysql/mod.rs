//! What is special to MySQL and MariaDB.

mod bells;
mod hosts;
mod logins;
mod rights;
mod sessions;
mod transaction_proof;
