//! The benchmark of the whole LU on a GPU, through the public facade, beside KLU on one core of the same machine
//! and cuDSS on the same GPU.
//!
//! | module | what it does |
//! |---|---|
//! | [`problem`] | a matrix, the same with other values, right-hand sides with known solutions |
//! | [`contenders`] | Luge, KLU and cuDSS behind one trait |
//! | [`measure`] | runs and times all of them on a problem, in turn |
//! | [`means`] | which matrices count in the means, and ratios |
//! | [`table`] | the tables that people read, and the geometric means |
//!
//! How times are taken: seconds of the host around a call that returns when all is done; the median of the
//! samples, after a call that is not counted. Matrices, right-hand sides and solutions are on the host, and
//! their way to the device and back counts; where a solver also takes what is on the device, that is a phase
//! of its own ([`Phase::RefactorizeResident`](crate::results::Phase::RefactorizeResident) and so on). A first solve is
//! analyze, factorize and solve in a warm process. Each refactorization gets other values than the one
//! before.
//!
//! Who takes turns: all that work on the same type of matrix, in one process and never two at a time. For matrices in
//! `f64` these are Luge in double and in mixed precision, cuDSS and KLU; then, for `f32`, Luge and cuDSS. In each phase
//! they go through rounds in an order that changes ([`turns`](crate::turns)): the first round is the calls that are not
//! counted, each further one gives a sample of each, so the samples of a phase with the same number were taken within one
//! round, and a disturbance of the machine meets all alike. A turn of calls shorter than
//! [`Effort::short`](measure::Effort::short) begins with another one that is not counted. A call longer than
//! [`Effort::long`](measure::Effort::long) is the only one of its solver in that phase; whoever fails drops out, of the
//! race in the first phase and later of what depends on what failed; the others go on. All keep their factors from
//! the first phase to the end, so host and device hold those of all at once, and each finds only the memory that the
//! others leave, by which Luge also chooses its engine: for a matrix whose factors fill a device, leave out precisions
//! and peers.
//!
//! What takes no turns: KLU's trial in a process of its own, for the time limit, before the others begin; backward errors
//! and the seconds of the device's own clock, which are measured of one after the other, once.

pub mod contenders;
pub mod means;
pub mod measure;
pub mod problem;
pub mod table;
