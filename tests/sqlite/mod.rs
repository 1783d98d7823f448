//! Locks in a file: processes that are killed and stopped, files that are replaced, damaged or another
//! program's, a full disk, and clocks.

mod bad_files;
mod clocks;
mod full_disk;
mod new_files;
mod processes;
mod replaced;
mod stopped_writer;
