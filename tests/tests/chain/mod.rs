//! What the tests of the phases on a device have in common.

// Each test binary uses its own part of this module.
#![allow(dead_code)]

use luge_device::{Backend, Stream};
use luge_matrix_io::MatrixData;
use luge_sparse::CompressedPattern;
use luge_testkit::convert::pattern_of;
use luge_testkit::corpus::{Corpus, Entry};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Lengths around a lane, a warp, a block and a tile.
pub const SIZES: [usize; 9] = [0, 1, 31, 32, 33, 511, 512, 513, 1025];

/// A stream on every device under test.
pub fn streams() -> Vec<Stream> {
    luge_tests::devices()
        .iter()
        .map(|device| device.create_stream().unwrap())
        .collect()
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

/// The pattern and values by rows of the square real matrices of the corpus that a device gets
/// through: up to order 600 on a simulator, 20,000 on a GPU.
pub fn corpus_for<'a>(corpus: &'a Corpus, stream: &Stream) -> Vec<&'a Entry> {
    corpus.square_real(match stream.device().properties().backend {
        Backend::Cuda => 20_000,
        Backend::Simulator => 600,
    })
}

/// A matrix by rows.
pub struct Rows {
    pub pattern: CompressedPattern,
    pub values: Vec<f64>,
}

/// The rows of a real matrix.
pub fn rows_of(entry: &Entry) -> Rows {
    let matrix = entry
        .read()
        .unwrap_or_else(|e| panic!("{}: {e}", entry.name));
    let MatrixData::Real(a) = matrix.data else {
        panic!("{} is not real", entry.name);
    };
    let a = a.to_csr();
    Rows {
        pattern: pattern_of(&a),
        values: a.data().to_vec(),
    }
}
