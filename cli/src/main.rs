//! The intendant program.
fn main() {}
