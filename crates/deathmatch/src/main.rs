//! The `deathmatch` command.

fn main() {}
