//! Fingerprints of everything exact that the CPU path answers, so that two versions of the solver are compared by `diff`.
//!
//! For each matrix a line says what the ordering is; then one line for each mode (default options, columns only, fronts
//! only, factors in `f32`, matrix in `f32`) and each number of threads. A column is the start of a SHA-256:
//!
//! | column | of |
//! |---|---|
//! | `structure` | the filled pattern of the factors and its levels, which follow from the permutations |
//! | `report` | counts and measures of analysis, factors, solves and refactorizations |
//! | `x`, `transposed` | solutions of A·x = b and Aᵀ·x = b: refined, in one pass, several right-hand sides; the determinant |
//! | `refactorized` | the same after a refactorization with other values, and after one with the first values again |
//!
//! Times, bytes and names are left out. A call that fails counts with the name of its error.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use luge::ordering::{OrderingOptions, order};
use luge::{
    Analysis, BackendChoice, CpuEngine, Error, FactorPrecision, Factors, Inform, Options,
    RealScalar, Solution, Solver,
};
use luge_testkit::convert::pattern_of;
use sha2::{Digest, Sha256};
use sprs::CsMat;

/// Options of the command `bits`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Matrix Market files.
    #[arg(required = true, value_name = "FILE")]
    matrices: Vec<PathBuf>,
    /// Leave out matrices of larger order.
    #[arg(long, default_value_t = 20_000)]
    max_n: usize,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
}

/// Prints the fingerprints of all matrices. A file that is no real square matrix gets a line that says so.
///
/// # Errors
///
/// If not a single matrix was analyzed.
pub fn bits(arguments: &Arguments) -> anyhow::Result<()> {
    let mut analyzed = 0;
    for path in &arguments.matrices {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let name = file.trim_end_matches(".gz").trim_end_matches(".mtx");
        match read(path) {
            Err(error) => println!("{name} not read: {error:#}"),
            Ok(a) if a.rows() > arguments.max_n => {}
            Ok(a) => {
                of_matrix(name, &a, &arguments.threads);
                analyzed += 1;
            }
        }
    }
    if analyzed == 0 {
        bail!("no matrix was analyzed");
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<CsMat<f64>> {
    let a = luge_matrix_io::read(path).context("cannot be read")?;
    let a = a.into_real()?;
    if a.rows() != a.cols() {
        bail!("{} rows and {} columns", a.rows(), a.cols());
    }
    Ok(a)
}

fn of_matrix(name: &str, a: &CsMat<f64>, threads: &[usize]) {
    let mut hash = Hash::default();
    match order(&pattern_of(a), Some(a.data()), &OrderingOptions::default()) {
        Ok(ordering) => {
            hash.indices(ordering.row_perm.as_slice());
            hash.indices(ordering.col_perm.as_slice());
            hash.numbers(&ordering.scaling.rows);
            hash.numbers(&ordering.scaling.cols);
        }
        Err(error) => hash.variant(&error),
    }
    println!("{name} order={}", hash.finish());

    let next = a.map(|value| *value * (1.0 + 1e-3 * scrambled(value.to_bits())));
    let single = |a: &CsMat<f64>| a.map(|value| *value as f32);
    let (single_a, single_next) = (single(a), single(&next));
    for &threads in threads {
        let modes = [
            ("default", CpuEngine::Auto, FactorPrecision::Matrix),
            ("columns", CpuEngine::Columns, FactorPrecision::Matrix),
            ("fronts", CpuEngine::Fronts, FactorPrecision::Matrix),
            ("mixed", CpuEngine::Auto, FactorPrecision::Single),
        ];
        for (mode, engine, precision) in modes {
            let options = options(engine, precision, threads);
            let line = of_mode(a, &next, |number| number, options);
            println!("{name} {mode} {threads} {line}");
        }
        let options = options(CpuEngine::Auto, FactorPrecision::Matrix, threads);
        let line = of_mode(&single_a, &single_next, |number| number as f32, options);
        println!("{name} f32 {threads} {line}");
    }
}

// By fields, not setters: older versions, with which this one is compared, have none.
fn options(engine: CpuEngine, precision: FactorPrecision, threads: usize) -> Options {
    let mut options = Options::default();
    options.backend = BackendChoice::Cpu;
    options.engine = engine;
    options.precision = precision;
    options.threads = Some(threads);
    options
}

/// The fingerprints of one mode.
#[derive(Default)]
struct Hashes {
    structure: Hash,
    report: Hash,
    x: Hash,
    transposed: Hash,
    refactorized: Hash,
}

fn of_mode<T: RealScalar + Into<f64>>(
    a: &CsMat<T>,
    next: &CsMat<T>,
    to_type: impl Fn(f64) -> T,
    options: Options,
) -> String {
    let mut hashes = Hashes::default();
    if let Err(error) = pipeline(a, next, to_type, options, &mut hashes) {
        hashes.report.variant(&error);
    }
    let Hashes {
        structure,
        report,
        x,
        transposed,
        refactorized,
    } = hashes;
    format!(
        "structure={} report={} x={} transposed={} refactorized={}",
        structure.finish(),
        report.finish(),
        x.finish(),
        transposed.finish(),
        refactorized.finish()
    )
}

fn pipeline<T: RealScalar + Into<f64>>(
    a: &CsMat<T>,
    next: &CsMat<T>,
    to_type: impl Fn(f64) -> T,
    options: Options,
    hashes: &mut Hashes,
) -> Result<(), Error> {
    let n = a.rows();
    let b: Vec<T> = (0..3 * n as u64)
        .map(|number| to_type(scrambled(number)))
        .collect();
    let analysis: Analysis<T> = Solver::new(options)?.analyze(a)?;
    hashes.report.inform(analysis.inform());
    let mut factors = analysis.factorize(a)?;
    hashes.report.inform(factors.inform());
    match factors.structure() {
        Ok((filled, levels)) => {
            hashes.structure.indices(filled.rows().idx());
            hashes.structure.indices(levels.level_of());
        }
        Err(error) => hashes.structure.variant(&error),
    }
    solves(&factors, n, &b, &mut hashes.x, &mut hashes.transposed);
    for matrix in [next, a] {
        match factors.refactorize(matrix) {
            Ok(outcome) => hashes.report.variant(&outcome),
            Err(error) => hashes.report.variant(&error),
        }
        hashes.report.inform(factors.inform());
        let mut transposed = Hash::default();
        solves(&factors, n, &b, &mut hashes.refactorized, &mut transposed);
        hashes.refactorized.0.update(transposed.0.finalize());
    }
    Ok(())
}

/// Every kind of solve.
fn solves<T: RealScalar + Into<f64>>(
    factors: &Factors<T>,
    n: usize,
    b: &[T],
    x: &mut Hash,
    transposed: &mut Hash,
) {
    match factors.determinant() {
        Ok(determinant) => {
            x.numbers(&[determinant.mantissa, determinant.exponent as f64]);
        }
        Err(error) => x.variant(&error),
    }
    x.solution(factors.solve(&b[..n]));
    x.solution(factors.solve_many(b, 3));
    transposed.solution(factors.solve_transpose(&b[..n]));
    let mut in_place = b.to_vec();
    match factors.solve_in_place(&mut in_place) {
        Ok(_) => x.numbers(&in_place),
        Err(error) => x.variant(&error),
    }
    let mut in_place = b[..n].to_vec();
    match factors.solve_transpose_in_place(&mut in_place) {
        Ok(_) => transposed.numbers(&in_place),
        Err(error) => transposed.variant(&error),
    }
}

/// A number in [-1, 1) that follows from `seed` alone (the finalizer of SplitMix64, Steele et al. 2014).
fn scrambled(seed: u64) -> f64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// What of a report is exact and has no unit of time or memory.
const REPORTED: [&str; 18] = [
    "n",
    "nnz",
    "lnz",
    "unz",
    "flops",
    "num_blocks",
    "num_supernodes",
    "max_front",
    "num_perturbed",
    "num_off_diagonal",
    "num_delay",
    "rank",
    "growth",
    "rcond",
    "backward_error",
    "componentwise_error",
    "refinement_steps",
    "matched",
];

#[derive(Default)]
struct Hash(Sha256);

impl Hash {
    fn indices(&mut self, indices: &[u32]) {
        self.0.update((indices.len() as u64).to_le_bytes());
        for index in indices {
            self.0.update(index.to_le_bytes());
        }
    }

    /// The bits of the numbers; those of an `f32` are the ones of the same number in `f64`.
    fn numbers<T: Copy + Into<f64>>(&mut self, numbers: &[T]) {
        self.0.update((numbers.len() as u64).to_le_bytes());
        for &number in numbers {
            let number: f64 = number.into();
            self.0.update(number.to_bits().to_le_bytes());
        }
    }

    /// The name of a variant, without its fields.
    fn variant(&mut self, of: &impl Debug) {
        let words = format!("{of:?}");
        let name = words.split(|c: char| !c.is_alphanumeric()).next();
        self.0.update(name.unwrap_or_default());
    }

    fn solution<T: Copy + Into<f64>>(&mut self, solved: Result<Solution<T>, Error>) {
        match solved {
            Ok(solution) => {
                self.numbers(&solution.x);
                self.inform(&solution.inform);
            }
            Err(error) => self.variant(&error),
        }
    }

    fn inform(&mut self, inform: &Inform) {
        let fields: serde_json::Value = serde_json::from_str(&inform.to_json()).unwrap_or_default();
        for name in REPORTED {
            let value = fields.get(name).unwrap_or(&serde_json::Value::Null);
            self.0.update(format!("{name}={value};"));
        }
        self.0.update((inform.warnings.len() as u64).to_le_bytes());
    }

    /// The first 16 hexadecimal digits.
    fn finish(self) -> String {
        let digest = self.0.finalize();
        digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use luge_testkit::generators::applications::circuit_sequence;

    use super::*;

    fn line(a: &CsMat<f64>, threads: usize) -> String {
        let next = a.map(|value| 1.5 * value);
        let options = options(CpuEngine::Auto, FactorPrecision::Matrix, threads);
        of_mode(a, &next, |number| number, options)
    }

    #[test]
    fn a_fingerprint_is_repeated_and_tells_a_changed_entry() {
        let a = circuit_sequence(200, 1, 1).remove(0);
        let first = line(&a, 1);
        assert_eq!(first, line(&a, 1));
        assert_eq!(first, line(&a, 2), "threads change nothing");
        let mut changed = a.clone();
        let first_of = |a: &CsMat<f64>| a.data().iter().position(|value| *value != 0.0);
        let at = first_of(&a).expect("an entry that is not zero");
        changed.data_mut()[at] *= 1.0 + 1e-9;
        let second = line(&changed, 1);
        let columns = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let (first, second) = (columns(&first), columns(&second));
        assert_eq!(first[0], second[0], "the structure stays");
        assert_ne!(first[2], second[2], "a solution changes");
        assert_ne!(first[4], second[4], "and that of the new values");
    }

    #[test]
    fn one_bit_is_told() {
        let of = |number: f64| {
            let mut hash = Hash::default();
            hash.numbers(&[0.5, number]);
            hash.finish()
        };
        assert_eq!(of(1.0), of(1.0));
        assert_ne!(of(1.0), of(1f64.next_up()));
        assert_ne!(of(0.0), of(-0.0));
    }

    #[test]
    fn a_matrix_that_is_refused_has_a_line_of_its_own() {
        let singular = CsMat::<f64>::new((2, 2), vec![0, 1, 2], vec![0, 0], vec![1.0, 1.0]);
        let empty = Hash::default().finish();
        let line = line(&singular, 1);
        assert!(line.contains(&format!("x={empty}")), "{line}");
        assert!(!line.contains(&format!("report={empty}")), "{line}");
    }
}
