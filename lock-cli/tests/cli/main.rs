//! The program `locks`, as operators and scripts call it.

mod deaths;
mod exclusion;
mod exit_codes;
mod losses;
mod manual;
mod operators;
mod program;
mod serve;
mod servers;
mod show;
mod signals;
mod silence;
mod terminal;
