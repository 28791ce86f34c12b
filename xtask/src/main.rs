//! Development commands of Luge, run as `cargo xtask <command>`.
fn main() {}
