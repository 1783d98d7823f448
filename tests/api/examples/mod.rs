//! Runs the examples as a user would, and checks their output.

mod command_line;
mod fencing;
mod instances;
mod leader;
mod metrics;
mod orders;
mod own_store;
mod postgres_orders;
mod program;
mod quickstart;
mod site;
mod tonic_orders;
mod worker;
mod writes;
