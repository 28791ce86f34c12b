//! What the tests of the phases on a device have in common.

// Each test binary uses its own part of this module.
#![allow(dead_code)]

use std::collections::HashSet;

use luge_device::{Backend, Device, SimulatorOptions, Stream};
use luge_frontal::gpu::DeviceScalar;
use luge_matrix_io::MatrixData;
use luge_ordering::{Matching, OrderingError, OrderingOptions, order};
use luge_sparse::{CompressedPattern, RealScalar};
use luge_testkit::convert::{pattern_of, permuted_and_scaled};
use luge_testkit::corpus::Corpus;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A real type that the device factorizes in.
pub trait RealDeviceScalar: RealScalar + DeviceScalar<Magnitude = Self, Value = f64> {}

impl<T: RealScalar + DeviceScalar<Magnitude = T, Value = f64>> RealDeviceScalar for T {}

/// Lengths around a lane, a warp, a block and a tile.
pub const SIZES: [usize; 9] = [0, 1, 31, 32, 33, 511, 512, 513, 1025];

/// A stream on every device under test.
pub fn seeded_streams() -> Vec<Stream> {
    luge_tests::devices()
        .iter()
        .map(|device| device.create_stream().unwrap())
        .collect()
}

/// As [`seeded_streams`], and one on a simulator whose shuffles and votes order no memory, which is all
/// that PTX promises of them.
pub fn streams() -> Vec<Stream> {
    let mut streams = seeded_streams();
    if luge_tests::backend() == Backend::Simulator {
        let mut options = SimulatorOptions::with_seed(luge_tests::SEEDS[0]);
        options.simulator.collectives_order_memory = false;
        streams.push(Device::simulator(options).create_stream().unwrap());
    }
    streams
}

/// Pseudo-random numbers without a pattern (splitmix64).
pub fn noise(seed: u64, i: usize) -> u64 {
    let mut z = seed.wrapping_add((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Runs `check` on the same `cases` values of a strategy on every device; a failure is shrunk.
pub fn on_each<T: std::fmt::Debug>(
    cases: u32,
    strategy: &impl Strategy<Value = T>,
    check: impl Fn(&Stream, T),
) {
    for stream in streams() {
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(Config::with_cases(cases), rng);
        runner
            .run(strategy, |value| {
                check(&stream, value);
                Ok(())
            })
            .unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Values for a pattern, and the diagonal if it lacks some of it, that make the matrix stable without
/// pivoting: each diagonal entry is one more than the sum of the rest of its row.
pub fn dominated(pattern: &CompressedPattern) -> (CompressedPattern, Vec<f64>) {
    let (mut ptr, mut idx, mut values) = (vec![0u64], Vec::new(), Vec::new());
    for (i, row) in pattern.lines().enumerate() {
        let start = values.len();
        let mut columns: Vec<u32> = row.iter().copied().chain([i as u32]).collect();
        columns.sort_unstable();
        columns.dedup();
        let number = |j: u32| (noise(j.into(), i) >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        values.extend(columns.iter().map(|&j| number(j)));
        let diagonal = start + columns.partition_point(|&j| (j as usize) < i);
        values[diagonal] = 0.0;
        values[diagonal] = 1.0 + values[start..].iter().map(|v| v.abs()).sum::<f64>();
        idx.extend(columns);
        ptr.push(idx.len() as u64);
    }
    let pattern = CompressedPattern::new(pattern.minor_dim(), ptr, idx).unwrap();
    (pattern, values)
}

/// A matrix by rows.
pub struct Rows {
    pub pattern: CompressedPattern,
    pub values: Vec<f64>,
}

/// Orders up to which the simulator takes a fraction of a second for a phase, and seconds.
pub const QUICK: u64 = 300;
pub const SLOW: u64 = 600;

/// The rows of B = P·Dr·A·Dc·Q for the square real matrices A of the corpus that a device gets
/// through, with their names: up to order `on_simulator` there, 20,000 on a GPU. Singular ones, which
/// the ordering refuses, are left out.
pub fn ordered_corpus(
    corpus: &Corpus,
    stream: &Stream,
    on_simulator: u64,
) -> impl Iterator<Item = (String, Rows)> {
    let max_n = match stream.device().properties().backend {
        Backend::Cuda => 20_000,
        Backend::Simulator => on_simulator,
    };
    let entries = corpus.square_real(max_n);
    entries.into_iter().filter_map(|entry| {
        let matrix = entry
            .read()
            .unwrap_or_else(|e| panic!("{}: {e}", entry.name));
        let MatrixData::Real(a) = matrix.data else {
            panic!("{} is not real", entry.name);
        };
        let a = a.to_csr();
        // The pivots are static.
        let options = OrderingOptions::default().matching(Matching::Always);
        let ordering = match order(&pattern_of(&a), Some(a.data()), &options) {
            Ok(ordering) => ordering,
            Err(
                OrderingError::StructurallySingular { .. }
                | OrderingError::NumericallySingular { .. },
            ) => return None,
            Err(e) => panic!("{}: {e}", entry.name),
        };
        let b = permuted_and_scaled(
            &a,
            &ordering.row_perm,
            &ordering.scaling,
            &ordering.col_perm,
        );
        let rows = Rows {
            pattern: pattern_of(&b),
            values: b.data().to_vec(),
        };
        Some((entry.name.clone(), rows))
    })
}

/// The patterns of [`ordered_corpus`], each once: the matrices of a sequence share theirs, and results that come of the
/// pattern alone.
pub fn ordered_patterns(
    corpus: &Corpus,
    stream: &Stream,
    on_simulator: u64,
) -> impl Iterator<Item = (String, CompressedPattern)> {
    let mut seen = HashSet::new();
    ordered_corpus(corpus, stream, on_simulator).filter_map(move |(name, Rows { pattern, .. })| {
        let is_new = seen.insert((pattern.ptr().to_vec(), pattern.idx().to_vec()));
        is_new.then_some((name, pattern))
    })
}
