//! Runs the examples as a person would, and reads what they print.

mod command_line;
mod fencing;
mod orders;
mod program;
mod quickstart;
mod worker;
