//! The benchmark of the whole LU on a GPU, through the public facade, beside KLU on one core of the same machine
//! and cuDSS on the same GPU.
//!
//! | module | what it does |
//! |---|---|
//! | [`problem`] | a matrix, the same with other values, right-hand sides with known solutions |
//! | [`contenders`] | Luge, KLU and cuDSS behind one trait |
//! | [`measure`] | runs and times one of them on a problem |
//! | [`means`] | which matrices count in the means, and ratios |
//! | [`table`] | the tables that people read, and the geometric means |
//!
//! How times are taken: seconds of the host around a call that returns when all is done; the median of the
//! samples, after a call that is not counted. Matrices, right-hand sides and solutions are on the host, and
//! their way to the device and back counts; where a solver also takes what is on the device, that is a phase
//! of its own ([`Phase::RefactorizeResident`](crate::results::Phase::RefactorizeResident) and so on). A first solve is
//! analyze, factorize and solve in a warm process. Each refactorization gets other values than the one
//! before.

pub mod contenders;
pub mod means;
pub mod measure;
pub mod problem;
pub mod table;
