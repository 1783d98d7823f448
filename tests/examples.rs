//! Runs the examples as a person would.
