//! Sparse direct solver: factorizes sparse matrices, A = L·U, and solves A·x = b, on NVIDIA GPUs and on CPUs; symmetric
//! matrices as A = L·D·Lᵀ or A = L·Lᵀ; real and complex ones.
//!
//! # Contents
//!
//! 1. [First solve](#first-solve)
//! 2. [Matrices](#matrices)
//! 3. [Symmetric matrices](#symmetric-matrices)
//! 4. [Complex matrices](#complex-matrices)
//! 5. [A sequence of matrices](#a-sequence-of-matrices)
//! 6. [Many matrices at once](#many-matrices-at-once)
//! 7. [Data on a device](#data-on-a-device)
//! 8. [Choosing options](#choosing-options)
//! 9. [Reading the report](#reading-the-report)
//! 10. [Errors and warnings](#errors-and-warnings)
//! 11. [Performance](#performance)
//! 12. [Features](#features)
//! 13. [Limitations](#limitations)
//!
//! # First solve
//!
//! [`Solver::analyze`] orders the matrix and finds the structure of its factors, [`Analysis::factorize`] computes them,
//! and [`Factors::solve`] solves with them. Each step has a type of its own, so that a wrong order does not compile.
//!
//! ```
//! use luge::sprs::{CsMat, TriMat};
//! use luge::{Options, Solver};
//!
//! // The matrix of -u'' on 5 points.
//! let mut triplets = TriMat::new((5, 5));
//! for i in 0..5 {
//!     triplets.add_triplet(i, i, 2.0);
//!     if i > 0 {
//!         triplets.add_triplet(i, i - 1, -1.0);
//!         triplets.add_triplet(i - 1, i, -1.0);
//!     }
//! }
//! let a: CsMat<f64> = triplets.to_csr();
//!
//! let solver = Solver::new(Options::default())?;
//! let analysis = solver.analyze(&a)?;
//! let factors = analysis.factorize(&a)?;
//! let solution = factors.solve(&[1.0; 5])?;
//! assert!((solution.x[2] - 4.5).abs() < 1e-14);
//! println!("backward error {:?}", solution.inform.backward_error);
//! # Ok::<(), luge::Error>(())
//! ```
//!
//! [`Factors::solve_many`] takes several right-hand sides, [`Factors::solve_transpose`] solves with Aᵀ, and
//! [`Factors::solve_in_place`] overwrites the right-hand side with the solution.
//!
//! # Matrices
//!
//! Every call that takes a matrix takes a [`MatrixRef`], or what converts into one: matrices and views of
//! [sprs], of nalgebra-sparse, of faer, and raw arrays with `u32`, `i32`, `u64`, `i64` or `usize` indices. Compressed
//! rows (CSR) and compressed columns (CSC) are both accepted, and the solution is that of the matrix as it stands, not of
//! its transpose.
//!
//! ```
//! use luge::{MatrixRef, Options, Solver};
//!
//! // 4 1      by columns, with the index type of most C libraries
//! // . 2
//! let (offsets, rows, values) = ([0i32, 1, 3], [0i32, 0, 1], [4.0, 1.0, 2.0]);
//! let a = MatrixRef::by_columns(2, 2, &offsets, &rows, &values);
//! let factors = Solver::new(Options::default())?.analyze(a)?.factorize(a)?;
//! assert_eq!(factors.solve(&[6.0, 4.0])?.x, [1.0, 2.0]);
//! # Ok::<(), luge::Error>(())
//! ```
//!
//! Indices must increase within each row (or column), and no entry may be stored twice. The arrays are checked when they
//! are first seen; what is wrong is returned as [`Error::InvalidMatrix`] with the row or column.
//!
//! A matrix that is passed to [`Analysis::factorize`] or [`Factors::refactorize`] has the pattern that was analyzed, or a
//! part of it: an entry that is not stored is zero. An entry outside of the analyzed pattern is an [`Error::ExtraEntry`].
//! [`Analysis::factorize_values`] and [`Factors::refactorize_values`] take the values alone, in the order in which the
//! analyzed matrix is stored. [`Solver::analyze_pattern`] analyzes a pattern whose values are not known yet.
//!
//! # Symmetric matrices
//!
//! With [`MatrixKind::Symmetric`] a matrix is factorized as A = L·D·Lᵀ, in half the operations and half the memory. It may be
//! indefinite and have zeros on the diagonal, as saddle points do: D has pivots of order 1 and 2, which each factorization
//! searches anew. With [`MatrixKind::PositiveDefinite`] it is A = L·Lᵀ (Cholesky), without a search, and a matrix that is not
//! positive definite is an [`Error::NotPositiveDefinite`]. [`MatrixKind::Auto`] looks at pattern and values of the analyzed
//! matrix. One triangle is enough: either one, by rows or by columns. Complex matrices may be symmetric, or
//! [`MatrixKind::Hermitian`]: A = L·D·Lᴴ, where D has real eigenvalues; positive definite ones are Hermitian.
//!
//! ```
//! use luge::{MatrixKind, MatrixRef, Options, Solver};
//!
//! // 2 . 1
//! // . 3 1    the lower triangle by rows; the last diagonal entry is zero
//! // 1 1 .
//! let (offsets, columns, values) = ([0u32, 1, 2, 4], [0u32, 1, 0, 1], [2.0, 3.0, 1.0, 1.0]);
//! let a = MatrixRef::by_rows(3, 3, &offsets, &columns, &values);
//! let options = Options::default().kind(MatrixKind::Symmetric);
//! let factors = Solver::new(options)?.analyze(a)?.factorize(a)?;
//! let solution = factors.solve(&[5.0, 9.0, 3.0])?;
//! assert!(solution.x.iter().zip([1.0, 2.0, 3.0_f64]).all(|(x, expected)| (x - expected).abs() < 1e-14));
//!
//! let inertia = factors.inertia().expect("the matrix is symmetric");
//! assert_eq!((inertia.positive, inertia.negative, inertia.zero), (2, 1, 0));
//! # Ok::<(), luge::Error>(())
//! ```
//!
//! [`Factors::inertia`] counts positive, negative and zero eigenvalues, as interior-point methods ask after each
//! factorization. A singular matrix is refused, unless [`SingularAction::Continue`] lets the factorization go on; consistent systems are
//! then solved. [`Regularization`] takes the pivots in the order of the analysis, each with the sign that is expected of it, as
//! solvers of quasidefinite systems do. [`Options::max_delays`](field@Options::max_delays) bounds what a search costs that finds no
//! pivots, at the price of some that are replaced. [`Factors::ldlt`] solves with L and D apart, and with another D.
//!
//! # Complex matrices
//!
//! Matrices of `Complex<f64>` and `Complex<f32>` go through the same calls. [`Factors::solve_adjoint`] solves with the
//! conjugate transpose, where [`Factors::solve_transpose`] takes the transpose.
//!
//! ```
//! use luge::num_complex::Complex;
//! use luge::sprs::TriMat;
//! use luge::{Options, Solver};
//!
//! // A resistor of 1 kΩ and a capacitor of 1 µF at 100 Hz: the voltages before and behind the resistor, and the current of
//! // the source that holds the first one at 1 V.
//! let (g, susceptance) = (1e-3, 2.0 * std::f64::consts::PI * 100.0 * 1e-6);
//! let mut triplets = TriMat::new((3, 3));
//! for (i, j, v) in [(0, 0, g), (0, 1, -g), (1, 0, -g), (0, 2, 1.0), (2, 0, 1.0)] {
//!     triplets.add_triplet(i, j, Complex::from(v));
//! }
//! triplets.add_triplet(1, 1, Complex::new(g, susceptance));
//! let a = triplets.to_csr::<usize>();
//! let factors = Solver::new(Options::default())?.analyze(&a)?.factorize(&a)?;
//! let b = [0.0, 0.0, 1.0].map(Complex::from);
//! let x = factors.solve(&b)?.x;
//! let expected = Complex::from(1.0) / Complex::new(1.0, susceptance / g);
//! assert!((x[1] - expected).norm() < 1e-15);
//! # Ok::<(), luge::Error>(())
//! ```
//!
//! The size of a complex number is |re| + |im| wherever numbers are compared or measured: in matching, scaling, pivoting,
//! norms and backward errors. Their kind may be each of [`MatrixKind`]. Devices have all that they have for real matrices; for
//! components of 64 bits [`DeviceEngine::Tree`] needs 144 KiB of shared memory for a block, and is an [`Error::RealOnly`] where there
//! is less: there [`DeviceEngine::Auto`] takes the columns. Of a [symmetric](MatrixKind::Symmetric) one, A = Aᵀ as waves with
//! absorbing walls have it, there is no inertia: [`Factors::inertia`] is `None`.
//!
//! ```
//! use luge::num_complex::Complex;
//! use luge::{MatrixKind, MatrixRef, Options, Solver};
//!
//! // 2    -i
//! // i    -1    the lower triangle by rows
//! let (offsets, columns) = ([0u32, 1, 3], [0u32, 0, 1]);
//! let values = [Complex::new(2.0, 0.0), Complex::new(0.0, 1.0), Complex::new(-1.0, 0.0)];
//! let a: MatrixRef<'_, Complex<f64>, u32> = MatrixRef::by_rows(2, 2, &offsets, &columns, &values);
//! let options = Options::default().kind(MatrixKind::Hermitian);
//! let factors = Solver::new(options)?.analyze(a)?.factorize(a)?;
//! let inertia = factors.inertia().expect("eigenvalues of a Hermitian matrix are real");
//! assert_eq!((inertia.positive, inertia.negative), (1, 1));
//! // The determinant is 2·(-1) - |i|².
//! assert!((factors.determinant()?.value() + 3.0).norm() < 1e-14);
//! # Ok::<(), luge::Error>(())
//! ```
//!
//! # A sequence of matrices
//!
//! A time loop or a Newton iteration analyzes once and factorizes once; after that [`Factors::refactorize`] computes the
//! factors of each new matrix in the memory of the old ones, with the old pivots.
//!
//! ```
//! use luge::sprs::CsMat;
//! use luge::{Options, Refactorized, Solver};
//!
//! // Heat conduction, u' = D·u, by the implicit Euler method: (I − h·D)·u(t + h) = u(t), with a step that grows.
//! let n = 50;
//! let system = |h: f64| -> CsMat<f64> {
//!     let mut a = luge::sprs::TriMat::new((n, n));
//!     for i in 0..n {
//!         a.add_triplet(i, i, 1.0 + 2.0 * h);
//!         if i > 0 {
//!             a.add_triplet(i, i - 1, -h);
//!             a.add_triplet(i - 1, i, -h);
//!         }
//!     }
//!     a.to_csr()
//! };
//! let mut h = 0.01;
//! let a = system(h);
//! let mut factors = Solver::new(Options::default())?.analyze(&a)?.factorize(&a)?;
//!
//! let mut u = vec![1.0; n];
//! for _ in 0..20 {
//!     let accuracy = factors.solve_in_place(&mut u)?;
//!     assert!(accuracy.backward_error.is_some_and(|error| error < 1e-10));
//!     h *= 1.2;
//!     match factors.refactorize(&system(h))? {
//!         Refactorized::Reused { .. } => {}
//!         Refactorized::Repivoted { reason, .. } => println!("new pivots: {reason}"),
//!     }
//! }
//! # Ok::<(), luge::Error>(())
//! ```
//!
//! Nothing has to be done about [`Refactorized::Repivoted`]: the old pivots were not accurate enough for the new values,
//! new ones were found, and the factors are valid. It is returned because it takes as long as a factorization. After an
//! error the factors are still those of the last matrix.
//!
//! # Many matrices at once
//!
//! [`Analysis::factorize_batch`] factorizes many matrices of one pattern side by side: Monte-Carlo samples, corners, the
//! frequencies of a sweep. Each system has the result that it would have alone, and an error of its own. On the CPU they are
//! dealt out to [threads](field@Options::threads), on a GPU they are factorized side by side.
//!
//! ```
//! use luge::num_complex::Complex;
//! use luge::sprs::{CsMat, TriMat};
//! use luge::{Options, Solver};
//!
//! // A cable as twenty pieces: a capacitor of 1 nF to ground, and 1 kΩ to the next piece. A current of 1 mA enters at the
//! // near end, 1 kΩ ends it at the far one. G + iωC at a frequency in hertz:
//! let (n, conductance, farad) = (20, 1e-3, 1e-9);
//! let susceptance = |hertz: f64| Complex::new(0.0, 2.0 * std::f64::consts::PI * hertz * farad);
//! let system = |hertz: f64| -> CsMat<Complex<f64>> {
//!     let mut a = TriMat::new((n, n));
//!     for i in 0..n {
//!         a.add_triplet(i, i, conductance + susceptance(hertz));
//!         if i > 0 {
//!             a.add_triplet(i - 1, i - 1, Complex::from(conductance));
//!             a.add_triplet(i - 1, i, Complex::from(-conductance));
//!             a.add_triplet(i, i - 1, Complex::from(-conductance));
//!         }
//!     }
//!     a.to_csr()
//! };
//! let frequencies: Vec<f64> = (0..32).map(|k| 10f64.powf(2.0 + k as f64 / 8.0)).collect();
//!
//! // All have the pattern of the first, and their values one after another.
//! let analysis = Solver::new(Options::default())?.analyze(&system(frequencies[0]))?;
//! let values: Vec<_> = frequencies.iter().flat_map(|&f| system(f).data().to_vec()).collect();
//! let factors = analysis.factorize_batch(&values, frequencies.len())?;
//! let mut voltages = vec![Complex::from(0.0); n * frequencies.len()];
//! voltages.iter_mut().step_by(n).for_each(|at_near_end| at_near_end.re = 1e-3);
//! for outcome in factors.solve_in_place(&mut voltages, 1, false) {
//!     outcome?;
//! }
//!
//! for (&hertz, voltages) in frequencies.iter().zip(voltages.chunks_exact(n)) {
//!     // From 1 V at the far end back to the near one: the current that it takes.
//!     let mut volt = Complex::from(1.0);
//!     let mut ampere = volt * (conductance + susceptance(hertz));
//!     for _ in 1..n {
//!         volt += ampere / conductance;
//!         ampere += volt * susceptance(hertz);
//!     }
//!     let expected = Complex::from(1e-3) / ampere;
//!     assert!((voltages[n - 1] - expected).norm() <= 1e-12 * expected.norm());
//! }
//! # Ok::<(), luge::Error>(())
//! ```
//!
//! [`BatchFactors::refactorize`] takes the values of the next sweep.
//!
//! On a GPU the systems are dealt out to up to eight streams. Where the host has more cores, it is as many as these, sixteen at
//! most, if there are four systems for each.
//!
//! # Data on a device
//!
//! With [`BackendChoice::Gpu`] everything after the ordering runs on the GPU. Callers whose values and vectors are on the
//! device keep them there: `Solver::stream` is the stream that the solver works on, `Factors::refactorize_on_device` takes
//! values, `Factors::solve_on_device` and `Factors::solve_refined_on_device` take vectors; only short reports come to the
//! host. These calls need the feature `gpu`.
//!
//! With [`BackendChoice::Gpus`] a group of GPUs of one host shares what can be dealt out: the systems of a
//! [batch](Analysis::factorize_batch), the sources of [`SymbolicMode::Fill2`](crate::SymbolicMode), and the subtrees of one matrix
//! where that is predicted to pay (`Analysis::predicted_speedup` says what would be gained by so many). Whatever else is done, the
//! first of them does, and callers' data is on it. Results have the bits of one GPU.
//!
//! Factors that a GPU has no room for are [kept elsewhere](field@Options::host_factors): on the other GPUs of its group, or in
//! the host's memory. That makes a solve wait for PCI Express, which is better than none.
//!
//! # Choosing options
//!
//! [`Options::default`] is meant to be good for all matrices. What is changed most often:
//!
//! | to | set |
//! |---|---|
//! | say that the matrix is symmetric | [`kind`](field@Options::kind) |
//! | choose the CPU or a GPU | [`backend`](field@Options::backend) |
//! | say how many factorizations follow, so that the ordering may take longer | [`factorizations`](field@Options::factorizations) |
//! | use several cores | [`threads`](field@Options::threads): results are the same, bit for bit |
//! | keep factors in `f32` and refine to the accuracy of `f64` | [`precision`](field@Options::precision) |
//! | search pivots, or not | [`pivoting`](field@Options::pivoting) |
//! | say how accurate is accurate enough | [`target_backward_error`](field@Options::target_backward_error) |
//! | spare the check of refactorizations, as other solvers do | [`residual_check`](field@Options::residual_check) |
//! | limit the memory | [`max_host_bytes`](field@Options::max_host_bytes), [`max_device_bytes`](field@Options::max_device_bytes) |
//! | stop a call from another thread | [`cancel`](field@Options::cancel) |
//! | keep an analysis for the next process | [`keep_order`](field@Options::keep_order), [`Analysis::save`]; factors by [`Factors::save`] alone |
//!
//! # Reading the report
//!
//! Analyses, factors and solutions carry an [`Inform`]: sizes, times of the phases, the code path, pivots that were
//! replaced or moved, growth, and the measured backward error ‖b − A·x‖∞ / (‖A‖∞·‖x‖∞ + ‖b‖∞). [`Inform::to_json`] prints
//! it. [`Factors::solve`] measures every solution, and refines it until refinement no longer helps.
//! [`Factors::solve_in_place`] measures only where the factors do not bound the backward error for every right-hand side,
//! and returns the bound, or the measured error, as an [`Accuracy`].
//!
//! # Errors and warnings
//!
//! Every failure is an [`Error`] that names the row, the column or the option. A matrix that is singular, structurally or
//! to rounding, is refused (a symmetric one unless [`singular`](field@Options::singular) says otherwise). What is worth knowing but no failure is a [`Warning`] in the report: a backward error above
//! the target, a matrix so ill-conditioned that its solutions may have no correct digit. Slices of the wrong length are
//! mistakes of the calling program, and panic.
//!
//! # Performance
//!
//! - Analyze once for each pattern, and refactorize.
//! - On the CPU, build for a release profile; kernels for AVX2 and AVX-512 are chosen at run time.
//! - The first use of a GPU in a process takes 0.2 to 0.3 seconds. A single system of a few thousand unknowns is solved on
//!   the CPU in less.
//! - On a GPU, pass many right-hand sides at once.
//! - Factors take [`Inform::predicted_host_bytes`] or [`Inform::predicted_device_bytes`]; both are known after the
//!   analysis.
//!
//! # Features
//!
//! | feature | default | gives |
//! |---|---|---|
//! | `gpu` | on | [`BackendChoice::Gpu`], the calls for data on a device, and the kernels. The driver is loaded at run time |
//! | `simulator` | on | [`BackendChoice::Simulator`], for tests without a GPU; implies `gpu` |
//! | `cli` | on | the command `luge`; the library does not need it |
//! | `plot` | on | pictures by the command; implies `cli` |
//! | `nalgebra-sparse` | on | matrices of that crate convert into a [`MatrixRef`] |
//! | `faer` | off | matrices of that crate convert into a [`MatrixRef`] |
//! | `mpi` | off | [`distributed`] ranks that are processes of MPI, and `luge solve --mpi`; needs an installation of MPI, and libclang |
//! | `metis` | off | [`Method::Metis`](ordering::Method::Metis), an ordering for comparison; needs a C compiler |
//!
//! Without `gpu`, [`BackendChoice::Auto`] takes the CPU, and asking for a device is an [`Error::FeatureOff`].
//!
//! # Limitations
//!
//! - Square matrices, in `f32`, `f64` or complex numbers of these.
//! - At most 2³² − 2 rows.
//! - Several processes or nodes share one matrix on the CPU alone; see [`distributed`].
//! - A device compares a column of a large front with the candidates of one tile. Where too many columns of a symmetric matrix
//!   have no acceptable pivot there, the search ends with [`Error::NoPivots`], though the CPU may find pivots.

// What only a device's path calls is compiled without it too, and left out by the linker: one line here in place of many
// conditions.
#![cfg_attr(not(feature = "gpu"), allow(dead_code))]

mod accuracy;
mod analysis;
mod attempts;
mod backend;
mod batch;
mod codec;
mod determinant;
#[cfg(feature = "gpu")]
mod device_analysis;
#[cfg(feature = "gpu")]
mod device_choice;
#[cfg(feature = "gpu")]
mod device_columns;
#[cfg(feature = "gpu")]
mod device_factors;
#[cfg(feature = "gpu")]
mod device_forest;
#[cfg(feature = "gpu")]
mod device_path;
#[cfg(feature = "gpu")]
mod device_place;
#[cfg(feature = "gpu")]
mod device_plan;
#[cfg(feature = "gpu")]
mod device_scratch;
#[cfg(feature = "gpu")]
mod device_symmetric;
#[cfg(feature = "gpu")]
mod device_tree;
#[cfg(feature = "gpu")]
mod device_upload;
pub mod distributed;
mod engine;
mod engine_parts;
mod error;
mod factors;
mod forests;
mod host;
mod host_path;
mod host_plan;
mod inform;
mod ldlt;
mod lower_upper;
mod options;
mod ordered;
mod ordinals;
mod path;
mod permuted;
mod planner;
mod probe;
mod reductions;
mod saved;
mod saved_factors;
mod shared;
mod solver;
mod stored;
mod symmetric;
mod symmetry;
mod task;
mod threads;
#[cfg(feature = "gpu")]
mod tree_factors;

pub use accuracy::Accuracy;
pub use analysis::Analysis;
pub use batch::BatchFactors;
pub use determinant::Determinant;
pub use error::{Error, SavedError};
#[cfg(feature = "gpu")]
pub use factors::SolutionCheck;
pub use factors::{Factors, Solution};
pub use inform::{Inform, PredictedSeconds, Seconds, Warning};
pub use ldlt::Ldlt;
pub use lower_upper::LowerUpper;
/// Streams and buffers of the device, for callers whose data is there: see [`Solver::stream`],
/// [`Factors::refactorize_on_device`] and [`Factors::solve_on_device`].
#[cfg(feature = "gpu")]
pub use luge_device as device;
/// What [`DeviceColumns`] chooses of the numeric phase, and what came of it.
#[cfg(feature = "gpu")]
pub use luge_numeric::gpu::{ColumnMode, ColumnOptions, ColumnReport, ElementAccess};
pub use luge_ordering as ordering;
pub use luge_sparse::{
    CancelFlag, ColPerm, Compression, FilledPattern, Index, Inertia, Levels, MatrixError,
    MatrixRef, PatternRef, RealScalar, RowPerm, Scalar, SymmetricPivoting,
};
/// What [`DeviceColumns`] chooses of the supernodes.
#[cfg(feature = "gpu")]
pub use luge_supernode::{Options as SupernodeOptions, Relaxation, Tier};
/// What [`DeviceColumns`] chooses of the symbolic phase, and what came of it.
#[cfg(feature = "gpu")]
pub use luge_symbolic::gpu::{
    Fill2Options, Fill2Report, Mode as SymbolicMode, Options as SymbolicOptions, PanelReport,
    Parallelism, Report as SymbolicReport, Stages,
};
/// The crate that complex numbers are of, in the version that this one takes.
pub use num_complex;
#[cfg(feature = "gpu")]
pub use options::DeviceColumns;
pub use options::{
    BackendChoice, CpuEngine, DealOut, DeviceEngine, FactorPrecision, MatrixKind, Options,
    Pivoting, Regularization, ResidualCheck, SingularAction,
};
pub use ordinals::Ordinals;
pub use solver::Solver;
/// The crate whose matrices most examples use, in the version that this one takes.
pub use sprs;
pub use task::Refactorized;
