//! Files of factors with bytes changed at will and right checksums: they are refused, or what is loaded solves and is
//! refactorized within its memory.
//!
//! The input begins with a byte that chooses the matrix; then come changes of three bytes each: where, in 16 bits, and what is
//! to be there.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use luge::{BackendChoice, CpuEngine, MatrixKind, Options, Pivoting, Solver};
use sprs::{CsMat, TriMat};

struct Case {
    a: CsMat<f64>,
    options: Options,
    file: Vec<u8>,
}

/// A matrix of order `n` with pseudo-random entries, symmetric if it is to be.
fn matrix(n: usize, symmetric: bool) -> CsMat<f64> {
    let mut entries = TriMat::new((n, n));
    let mut state = 1u64;
    for i in 0..n {
        entries.add_triplet(i, i, if i % 3 == 0 { 1e-9 } else { 1.0 });
        for _ in 0..3 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let (j, value) = ((state >> 33) as usize % n, (state >> 50) as f64 / 1e4 + 0.1);
            entries.add_triplet(i, j, value);
            if symmetric {
                entries.add_triplet(j, i, value);
            }
        }
    }
    entries.to_csr()
}

fn cases() -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(|| {
        let options = Options::default()
            .backend(BackendChoice::Cpu)
            .threads(Some(1));
        let partial = Pivoting::Threshold { threshold: 1.0 };
        let kinds = [
            (false, options.clone().engine(CpuEngine::Columns)),
            (
                false,
                options.clone().engine(CpuEngine::Fronts).pivoting(partial),
            ),
            (true, options.clone().kind(MatrixKind::Symmetric)),
            (
                true,
                options.kind(MatrixKind::Symmetric).max_delays(Some(1)),
            ),
        ];
        let case = |(symmetric, options): (bool, Options)| {
            let a = matrix(40, symmetric);
            let solver = Solver::new(options.clone()).expect("options in their ranges");
            let factors = solver
                .analyze(&a)
                .and_then(|analysis| analysis.factorize(&a));
            let mut file = Vec::new();
            factors
                .and_then(|factors| factors.save(&mut file))
                .expect("a matrix that is not singular, and memory that takes everything");
            Case { a, options, file }
        };
        kinds.into_iter().map(case).collect()
    })
}

/// Makes both checksums those of the contents.
fn seal(file: &mut [u8], head: usize) {
    let end = file.len() - 4;
    for at in [24 + head, end] {
        let checksum = crc32fast::hash(&file[..at]);
        file[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, changes)) = bytes.split_first() else {
        return;
    };
    let Case { a, options, file } = &cases()[usize::from(which) % cases().len()];
    let mut length = [0; 8];
    length.copy_from_slice(&file[16..24]);
    let head = u64::from_le_bytes(length) as usize;
    let mut file = file.clone();
    let len = file.len() - 24;
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        file[24 + at % len] = change[2];
    }
    seal(&mut file, head);
    let solver = Solver::new(options.clone()).expect("options in their ranges");
    if let Ok(mut factors) = solver.load_factors_of_pattern::<f64, _>(a, &file[..]) {
        let b = vec![1.0; a.rows()];
        let _ = factors.solve(&b);
        let _ = factors.solve_transpose(&b);
        let _ = factors.determinant();
        let _ = factors.refactorize(a);
        let _ = factors.solve(&b);
    }
});
