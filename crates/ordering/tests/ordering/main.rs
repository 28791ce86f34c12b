//! Orderings, matchings and scalings. One program, which is built sooner than one a file.

mod block_triangular;
#[path = "../common/mod.rs"]
mod common;
mod corpus;
mod dissection;
mod equilibrate;
mod known_orders;
mod matching;
mod order;
mod symmetric;
