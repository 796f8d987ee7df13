//! The `hurtle` command.
fn main() {}
