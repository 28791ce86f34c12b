//! The benchmark of the symbolic phase on a GPU: every mode, every budget, beside the CPU path of the same
//! machine, with the patterns compared.
//!
//! | module | what it does |
//! |---|---|
//! | [`patterns`] | the patterns B: ordered from the matrices of a corpus, or saved ones |
//! | [`measure`] | runs and times the modes, and what the device's memory gives |
//! | [`results`] | what is recorded, geometric means, the tables that people read |
//!
//! How times are taken: seconds of the host around a call and the synchronisation behind it, after calls that
//! are not counted; the median of the samples. The pattern of B is uploaded within a call; the time of
//! that is also given alone. The columns of L+U and the maps between rows and columns, which the CPU path does
//! not make, are given apart and not counted.

pub mod measure;
pub mod patterns;
pub mod results;
