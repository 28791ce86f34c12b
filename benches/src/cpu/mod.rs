//! The peer benchmark: Luge on the CPU beside other solvers, matrix by matrix.
//!
//! | module | what it does |
//! |---|---|
//! | [`luge_peer`] | Luge behind the trait that the peers have |
//! | [`contest`] | times all solvers on one matrix in turn, and measures their backward errors |
//! | [`bounds`] | the bounds that Luge is held to |
//! | [`table`] | the tables that people read |
//! | [`allocator`] | counts the bytes that Rust code allocates |
//!
//! How times are taken: all solvers live in one process and take turns, round after round, in an order that changes
//! ([`turns`](crate::turns)), so that a disturbance of the machine meets all of them alike. A turn
//! begins with one call that is not timed (unless calls are long), so that every solver finds its own
//! data in the caches, as it does in a Newton iteration. A sample of a tiny matrix is the mean of as
//! many calls as fill 50 µs. Freeing what an earlier call made is not timed. Reading the matrix and
//! bringing it into the form that a solver takes (rows for Luge, columns for the others) is not timed.

pub mod allocator;
pub mod bounds;
pub mod contest;
pub mod luge_peer;
pub mod table;
