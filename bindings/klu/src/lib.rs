//! KLU's interface on Luge's column engine: a shared library with the functions and structures of SuiteSparse's klu.h, which
//! programs that call KLU load in its place, unchanged.
//!
//! `cargo xtask klu --prefix DIR` builds and installs it as `libluge_klu.so`; with `--soname libklu.so.1` it takes the place of
//! Debian's libklu for programs that find DIR/lib first. `LD_PRELOAD=libluge_klu.so program` does without either.
//!
//! klu.h is the reference of every call: `klu_*` and `klu_z_*` with `int`, `klu_l_*` and `klu_zl_*` with `SuiteSparse_long`, real and
//! complex. All functions of klu.h are there. The functions that libklu exports beside them, and that klu.h does not declare
//! (`klu_kernel`, `klu_lsolve`, `klu_alloc_symbolic` and their kin), work on KLU's own data and are not. AMD, COLAMD and BTF stay in
//! their libraries.
//!
//! # Parameters
//!
//! | field of `klu_common` | what it does here |
//! |---|---|
//! | `tol` | as in KLU: the diagonal entry is the pivot if it is at least this times the largest of its column; from 0 to 1 |
//! | `btf` | as in KLU: a matching of largest cardinality where the diagonal has holes, then the strong components |
//! | `ordering` | 0 approximate minimum degree, 1 column approximate minimum degree, both Luge's own; 2 as given; 3 `user_order`, once for each block of more than three columns. Blocks of two or three columns stay as they come |
//! | `scale` | as in KLU: rows are divided by their sum (1) or their largest entry (2 and above) in every factorization and refactorization |
//! | `halt_if_singular` | not 0: `klu_factor` returns NULL and `klu_refactor` 0 without a pivot. 0: both go on, with status `KLU_SINGULAR`; solutions are NaN in all places, where those of KLU are infinite or NaN in some, and the next `klu_refactor` searches pivots |
//! | `memgrow`, `initmem`, `initmem_amd`, `maxwork` | nothing: memory grows by what is needed, and the matching takes the time that it takes |
//!
//! # What differs from KLU
//!
//! - A column whose candidates are all rounding errors (8 ε times the terms that they are sums of) has no pivot: `KLU_SINGULAR`. KLU
//!   asks for an exact zero. So does it for an overflow, and for NaN in a diagonal block.
//! - `klu_refactor` keeps the pivots, as KLU does, and measures their growth on the way. Where a pivot vanishes, or the growth is
//!   above 10⁸ and ten times that of the last search, pivots are searched anew on the same ordering: `Pnum`, `lnz`, `unz` and
//!   `noffdiag` are then new. The measurement is part of the engine's refactorization and costs no pass of its own.
//! - Matrices of `klu_factor` and `klu_refactor` are compared with the one that was analyzed. A part of its pattern is taken, in any
//!   order, and what is not stored is zero. Entries that were not analyzed are taken, too, on the same permutations: the numeric object
//!   then has a pattern of its own, with pivots that are searched anew, and fewer blocks if an entry lies below the old ones. (KLU takes
//!   them where they happen to be in the pattern of its factors.)
//! - Pointers to objects are looked up before they are used: what is not, or no longer, an object of this library, or one for the other
//!   integers or the other field, is `KLU_INVALID`. So is a symbolic object that orders the matrix otherwise than the one that the
//!   numeric object was made with, a permutation that is none, and a structure or an array that is not aligned.
//! - Calls with one numeric object from several threads wait for each other.
//!
//! # Statistics
//!
//! | field | what it has |
//! |---|---|
//! | `status`, `structural_rank`, `numerical_rank`, `singular_col`, `noffdiag`, `flops`, `rcond`, `condest`, `rgrowth` | as klu.h says; `numerical_rank` and `singular_col` are n after a refactorization, too |
//! | `nrealloc`, `work` | 0 |
//! | `memusage`, `mempeak` | bytes of the objects; not what a call works in meanwhile |
//! | `klu_symbolic` | all fields; `lnz`, `unz`, `Lnz` and `est_flops` are bounds for any pivots on the diagonal, for COLAMD too |
//! | `klu_numeric` | `n`, `nblocks`, `lnz`, `unz`, `max_lnz_block`, `max_unz_block`, `Pnum`, `Pinv`, `Llen`, `Ulen`, `Udiag`, `Rs`, `Offp`, `Offi`, `Offx`, `nzoff`. NULL or 0: `Lip`, `Uip`, `LUbx`, `LUsize` and the work space, which have meaning for KLU's code alone; `klu_extract` gives L and U, sorted |
//!
//! # Modules
//!
//! | module | what it does |
//! |---|---|
//! | `layout` | the structures, field by field |
//! | `call` | how every call begins and ends: `klu_common`, status codes, panics |
//! | `shown` | memory whose address callers know |
//! | `input` | the caller's arrays, checked before they are read |
//! | `ordering`, `analysis` | permutations and blocks; the plan of the entries |
//! | `scale`, `factors` | `klu_scale`; factors, found and renewed |
//! | `handle` | which pointers are objects of this library |
//! | `calls` | `klu_analyze`, `klu_analyze_given`, `klu_factor`, `klu_refactor` |
//! | `solve`, `report` | `klu_solve`, `klu_tsolve`; what is asked of factors |
//! | `memory` | `klu_malloc` and its kin |
//! | `exports` | the functions by their names |
//!
//! It stands on the phases, not on the facade: that one scales columns too, probes factors, and refuses matrices that are singular to
//! rounding, all of which a caller of KLU does in its own way.
//!
//! Source of the interface: T. A. Davis and E. Palamadai Natarajan, "Algorithm 907: KLU, a direct sparse solver for circuit simulation
//! problems", ACM TOMS 37, 2010, and klu.h of SuiteSparse 5.12.

// klu.h states what every call requires of its pointers.
#![allow(clippy::missing_safety_doc)]

mod analysis;
mod call;
mod calls;
mod exports;
mod factors;
mod handle;
mod input;
pub mod layout;
mod memory;
mod ordering;
mod report;
mod scale;
mod shown;
mod solve;

pub use exports::*;
