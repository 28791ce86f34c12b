//! The entry points of MA57 that Ipopt calls, with Luge's L·D·Lᵀ behind them: `libluge_hsl.so`.
//!
//! Ipopt loads a library of HSL, the Harwell Subroutine Library, at run time. With this one in its place, programs that have
//! Ipopt need neither HSL nor to be built again:
//!
//! ```text
//! linear_solver          ma57
//! hsllib                 /path/to/libluge_hsl.so
//! linear_system_scaling  none
//! ```
//!
//! The last line is needed as MC19, with which Ipopt would scale, is not here. Names, arguments and the meaning of CNTL, ICNTL,
//! INFO and RINFO are those of MA57's public documentation; nothing of HSL's code is in here. Integers have 32 bits, reals are
//! doubles, indices count from 1, and every argument is an address.
//!
//! # What is different from MA57
//!
//! - The matrix is ordered when [`ma57bd_`] first sees its values, so [`ma57ad_`] predicts nothing but lengths: INFO(5) to
//!   INFO(8) and INFO(11) to INFO(13) are 0.
//! - FACT and IFACT have the matrix, not the factors: [`ma57ad_`] asks for as much as they take. Factors are in memory of the
//!   library, see below, and INFO(14) to INFO(16), (19) to (23) and RINFO, which would describe them, are 0.
//! - ICNTL(7) = 4, a modified matrix, is refused: INFO(1) = -10. With 2 and 3 pivots are searched as with 1, and their signs are
//!   looked at when all are there.
//! - ICNTL(1) to (5), (8) to (14) and (16), CNTL(3) to CNTL(5) choose nothing: nothing is printed, and no pivot is replaced.
//! - INFO(1) = -14 is what has no number in MA57: an argument that is null, arrays that an earlier call of these did not write,
//!   or a right-hand side or solution that is not finite. -5 tells of a matrix with a value that is not finite, in column
//!   INFO(2).
//!
//! # Where the factors are
//!
//! KEEP and IFACT have the pattern, FACT the values, each with the number of its system and a checksum. Factors and their
//! analysis are kept under that number. They are dropped when another system has an array where one of theirs was, which was
//! freed then; when the thread that used them last ends, or has used eight other systems since. If their owner calls again all
//! the same, they are made anew from the arrays: that takes time, and changes nothing but the last bits of solutions. So
//! arrays may be moved and copied, by [`ma57ed_`] or otherwise, factors of an older copy of FACT are those of that copy, and
//! who frees the arrays need not tell.
//!
//! Calls for different systems run side by side on any number of threads. Each works on the thread that calls, unless
//! [`luge_hsl_set_threads`] says otherwise.

mod arrays;
mod calls;
mod controls;
mod failure;
mod image;
mod registry;
mod system;
mod triplets;

pub use calls::{luge_hsl_set_threads, ma57ad_, ma57bd_, ma57cd_, ma57ed_, ma57id_};
