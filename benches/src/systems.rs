//! The matrices of a run, and what is solved with them.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use luge::ordering::{Matching, OrderingError, OrderingOptions, order};
use luge_matrix_io::MatrixData;
use luge_peers::cudss::CudssScalar;
use luge_peers::{Matrix, PeerScalar};
use luge_sparse::{CompressedPattern, Scalar};
use luge_testkit::convert::{pattern_of, permuted_and_scaled};
use luge_testkit::corpus::{Corpus, Expectation, Group, Kind};
use luge_testkit::generators::applications::{
    circuit_sequence, convection_diffusion_2d, convection_diffusion_3d, power_flow_jacobian,
    power_grid, rc_mesh,
};
use luge_testkit::generators::families::Family;
use luge_testkit::residual::residual;
use num_complex::Complex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sprs::{CsMat, TriMat};

/// A matrix that can be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// The application it comes from.
    pub kind: Kind,
    /// Where it is.
    pub origin: Origin,
    /// Whether it is so close to singular that a solver may refuse it.
    pub near_singular: bool,
}

/// Where a matrix is.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// In a file.
    File(PathBuf),
    /// The small signals of a circuit, from two files with real matrices: G at its operating point, and G + C/h of a step in time,
    /// together G + iC/h. As far as conductances have changed on the way, they count as capacitances.
    SmallSignals(PathBuf, PathBuf),
    /// Made by the generator of that name (that of the source).
    Generator,
    /// The family of that name makes it, of about that order.
    Family(&'static str, usize),
}

/// Which matrices of a corpus are taken.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Of these kinds; all if empty.
    pub kinds: Vec<Kind>,
    /// Of these names; all if empty.
    pub only: Vec<String>,
    /// Of at least this order.
    pub min_n: u64,
    /// Of at most this order.
    pub max_n: Option<u64>,
    /// Complex ones in the place of real ones: those of files, and the small signals of circuits of which there are real matrices.
    pub complex: bool,
}

impl Selection {
    fn takes(&self, name: &str, kind: Kind, n: u64) -> bool {
        let named = self.only.iter().any(|only| only == name);
        let chosen = if self.only.is_empty() {
            self.kinds.is_empty() || self.kinds.contains(&kind)
        } else {
            named
        };
        chosen && n >= self.min_n && self.max_n.is_none_or(|most| n <= most)
    }

    /// The square matrices of the corpus in `folder` that can be solved, by kind and size.
    ///
    /// # Errors
    ///
    /// If the folder cannot be listed, or a name of `only` is not there.
    pub fn of_corpus(&self, folder: &Path) -> anyhow::Result<Vec<Source>> {
        let corpus =
            Corpus::open_at(folder).with_context(|| format!("cannot list {}", folder.display()))?;
        let at_rest = |name: &str| {
            name.strip_suffix(SMALL_SIGNALS)
                .map(|stem| format!("{stem}{AT_REST}"))
        };
        for name in &self.only {
            let file = at_rest(name).filter(|_| self.complex);
            if corpus.find(file.as_deref().unwrap_or(name)).is_none() {
                bail!("there is no matrix {name} in the corpus");
            }
        }
        let mut entries: Vec<_> = corpus
            .entries()
            .iter()
            .filter(|entry| entry.group != Group::Degenerate)
            .filter(|entry| {
                if self.complex {
                    entry.is_square_complex() || entry.name.ends_with(AT_REST)
                } else {
                    entry.is_square_real()
                }
            })
            .filter(|entry| entry.expectations().contains(&Expectation::Solves))
            .collect();
        entries.sort_by_key(|entry| {
            let stored = entry.header.map_or(0, |header| header.stored);
            (entry.kind(), stored, &entry.name)
        });
        let sources = entries.into_iter().filter_map(|entry| {
            let source = Source {
                name: entry.name.clone(),
                kind: entry.kind(),
                origin: Origin::File(entry.path.clone()),
                near_singular: entry
                    .expectations()
                    .contains(&Expectation::NumericallySingular),
            };
            let source = if self.complex && entry.is_square_real() {
                source.small_signals()?
            } else {
                source
            };
            let n = entry.order().unwrap_or(0);
            self.takes(&source.name, source.kind, n).then_some(source)
        });
        Ok(sources.collect())
    }

    /// The generated matrices, which stand in for a corpus.
    pub fn of_generators(&self) -> Vec<Source> {
        if self.complex {
            let all = COMPLEX_GENERATED
                .iter()
                .filter_map(|name| Source::of_generator(name));
            let taken = |source: &Source| match source.origin {
                Origin::Family(_, n) => self.takes(&source.name, source.kind, n as u64),
                _ => false,
            };
            return all.filter(taken).collect();
        }
        GENERATED
            .iter()
            .filter(|(name, kind, make)| self.takes(name, *kind, make().rows() as u64))
            .map(|(name, kind, _)| Source {
                name: (*name).to_owned(),
                kind: *kind,
                origin: Origin::Generator,
                near_singular: false,
            })
            .collect()
    }
}

type Generate = fn() -> CsMat<f64>;

const GENERATED: &[(&str, Kind, Generate)] = &[
    ("gen_circuit_500", Kind::Circuit, || {
        circuit_sequence(500, 1, 1).remove(0)
    }),
    ("gen_circuit_3000", Kind::Circuit, || {
        circuit_sequence(3000, 2, 1).remove(0)
    }),
    ("gen_rc_mesh_100", Kind::Circuit, || rc_mesh(100, 100, 3)),
    ("gen_power_grid_3x60", Kind::Circuit, || {
        power_grid(3, 60, 60, 4)
    }),
    ("gen_power_flow_300", Kind::Power, || {
        power_flow_jacobian(300, 5)
    }),
    ("gen_power_flow_9000", Kind::Power, || {
        power_flow_jacobian(9000, 6)
    }),
    ("gen_cdr2d_150", Kind::Cfd, || {
        convection_diffusion_2d(150, 150, 100.0)
    }),
    ("gen_cdr3d_20", Kind::Cfd, || {
        convection_diffusion_3d(20, 20, 20, 100.0)
    }),
];

/// Complex ones, by family and order.
const COMPLEX_GENERATED: &[&str] = &[
    "ac-multiplier:3000",
    "ac-supply-grid:10000",
    "helmholtz-2d:10000",
    "helmholtz-3d:8000",
    "lattice-definite:10000",
    "lattice-indefinite:10000",
];

/// How names of circuits at their operating point end, and those of what is made of them.
const AT_REST: &str = "_op";
const SMALL_SIGNALS: &str = "_ac";

/// Seed of the matrices of families.
const FAMILY_SEED: u64 = 1;

/// Solves what a family solves to find its operating point.
fn solve_on_host(a: &CsMat<f64>, b: &[f64]) -> Option<Vec<f64>> {
    let options = luge::Options::default().backend(luge::BackendChoice::Cpu);
    let analysis = luge::Solver::new(options).ok()?.analyze(a).ok()?;
    Some(analysis.factorize(a).ok()?.solve(b).ok()?.x)
}

impl Source {
    /// A file of its own; its kind is that of the corpus's matrix of the same name, if there is one.
    pub fn of_file(path: &Path) -> Self {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let name = file.strip_suffix(".gz").unwrap_or(&file);
        let name = name.strip_suffix(".mtx").unwrap_or(name).to_owned();
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let folder = Group::Dev(folder.to_string_lossy().into_owned());
        let kind = match Kind::of(&folder, &name) {
            Kind::Other => Kind::of(&Group::Collection, &name),
            known => known,
        };
        Self {
            name,
            kind,
            origin: Origin::File(path.to_path_buf()),
            near_singular: false,
        }
    }

    /// The generator of that name, or a family and an order: `elasticity:50000`.
    pub fn of_generator(name: &str) -> Option<Self> {
        if let Some((family, n)) = name.split_once(':') {
            let real = Family::find(family).map(|family| (family.name, family.kind));
            let complex = || Family::find_complex(family).map(|family| (family.name, family.kind));
            let (family, kind) = real.or_else(complex)?;
            return Some(Self {
                name: name.to_owned(),
                kind,
                origin: Origin::Family(family, n.parse().ok()?),
                near_singular: false,
            });
        }
        let found = GENERATED.iter().find(|(known, ..)| *known == name)?;
        Some(Self {
            name: name.to_owned(),
            kind: found.1,
            origin: Origin::Generator,
            near_singular: false,
        })
    }

    /// The small signals of a circuit whose matrix at its operating point this is; `None` if it is another matrix, or if none
    /// of a step in time lies beside it.
    pub fn small_signals(&self) -> Option<Self> {
        let Origin::File(at_rest) = &self.origin else {
            return None;
        };
        let stem = self.name.strip_suffix(AT_REST)?;
        let step = format!("{stem}_t1");
        let beside = at_rest.parent()?.read_dir().ok()?.flatten();
        let mut files = beside.map(|item| item.path());
        let step = files.find(|path| Self::of_file(path).name == step)?;
        Some(Self {
            name: format!("{stem}{SMALL_SIGNALS}"),
            origin: Origin::SmallSignals(at_rest.clone(), step),
            ..self.clone()
        })
    }

    /// Reads or makes the matrix.
    ///
    /// # Errors
    ///
    /// If it cannot be read, has no values, is not square, or is too large for 32-bit indices.
    pub fn read(&self) -> anyhow::Result<AnyMatrix> {
        let data = match &self.origin {
            Origin::File(path) => data_of(path)?,
            Origin::SmallSignals(at_rest, step) => {
                let (MatrixData::Real(at_rest), MatrixData::Real(step)) =
                    (data_of(at_rest)?, data_of(step)?)
                else {
                    bail!("{} is not made of real matrices", self.name);
                };
                MatrixData::Complex(at_frequency(&at_rest, &step))
            }
            Origin::Generator => {
                let found = GENERATED.iter().find(|(name, ..)| *name == self.name);
                MatrixData::Real(found.context("there is no such generator")?.2())
            }
            Origin::Family(name, n) => match (Family::find(name), Family::find_complex(name)) {
                (Some(family), _) => {
                    MatrixData::Real(family.make(*n, FAMILY_SEED, &mut solve_on_host)?)
                }
                (None, Some(family)) => {
                    MatrixData::Complex(family.make(*n, FAMILY_SEED, &mut solve_on_host)?)
                }
                (None, None) => bail!("there is no such family"),
            },
        };
        Ok(match data {
            MatrixData::Real(a) => AnyMatrix::Real(Matrix::new(a)?),
            MatrixData::Complex(a) => AnyMatrix::Complex(Matrix::new(a)?),
            MatrixData::Pattern(_) => bail!("{} has no values", self.name),
        })
    }

    /// The same of a matrix that is real.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and if it is complex.
    pub fn read_real(&self) -> anyhow::Result<Matrix> {
        let real = f64::of(self.read()?);
        real.with_context(|| format!("{} is complex, and real ones are measured", self.name))
    }

    /// The file of the next matrix of the same sequence, or of the one before: `x_t2` for `x_t1`.
    fn neighbour(&self) -> Option<PathBuf> {
        let Origin::File(path) = &self.origin else {
            return None;
        };
        let (stem, step) = step_of(&self.name)?;
        let mut nearest: Option<(u64, PathBuf)> = None;
        for item in path.parent()?.read_dir().ok()?.flatten() {
            let other = Self::of_file(&item.path());
            let Some((_, other_step)) = step_of(&other.name).filter(|(s, _)| *s == stem) else {
                continue;
            };
            let distance = match other_step {
                later if later > step => later - step,
                earlier if earlier < step => 1000 + step - earlier,
                _ => continue,
            };
            if nearest.as_ref().is_none_or(|(least, _)| distance < *least) {
                nearest = Some((distance, item.path()));
            }
        }
        nearest.map(|(_, path)| path)
    }
}

fn data_of(path: &Path) -> anyhow::Result<MatrixData> {
    let read = luge_matrix_io::read(path);
    Ok(read
        .with_context(|| format!("cannot read {}", path.display()))?
        .data)
}

/// G + iC/h of G and G + C/h. An entry that one of them has not is zero there.
fn at_frequency(at_rest: &CsMat<f64>, step: &CsMat<f64>) -> CsMat<Complex<f64>> {
    let mut a = TriMat::new(at_rest.shape());
    for (&conductance, (i, j)) in at_rest {
        a.add_triplet(i, j, Complex::new(conductance, -conductance));
    }
    for (&both, (i, j)) in step {
        a.add_triplet(i, j, Complex::new(0.0, both));
    }
    a.to_csr()
}

/// `("pf_case118_it", 2)` for `pf_case118_it2`: the steps of a transient, of Newton's method, of a
/// barrier method.
fn step_of(name: &str) -> Option<(&str, u64)> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (stem, number) = name.split_at(name.len() - digits);
    let is_step = ["_t", "_it", "_mu"].iter().any(|end| stem.ends_with(end));
    is_step.then_some(stem).zip(number.parse().ok())
}

/// A matrix over either field.
#[derive(Debug, Clone)]
pub enum AnyMatrix {
    /// A real one.
    Real(Matrix),
    /// A complex one.
    Complex(Matrix<Complex<f64>>),
}

/// The numbers of matrices that are read: `f64` and `Complex<f64>`.
pub trait BenchScalar: PeerScalar + CudssScalar {
    /// The same field in single precision.
    type Single: CudssScalar + Scalar<Wide = Self::Wide>;

    /// The matrix, if it is over this field.
    fn of(matrix: AnyMatrix) -> Option<Matrix<Self>>;
}

impl BenchScalar for f64 {
    type Single = f32;

    fn of(matrix: AnyMatrix) -> Option<Matrix> {
        match matrix {
            AnyMatrix::Real(a) => Some(a),
            AnyMatrix::Complex(_) => None,
        }
    }
}

impl BenchScalar for Complex<f64> {
    type Single = Complex<f32>;

    fn of(matrix: AnyMatrix) -> Option<Matrix<Self>> {
        match matrix {
            AnyMatrix::Real(_) => None,
            AnyMatrix::Complex(a) => Some(a),
        }
    }
}

/// Everything that is computed with one matrix, in the type that it is computed in.
#[derive(Debug, Clone)]
pub struct System<T = f64> {
    /// The matrix.
    pub a: Matrix<T>,
    /// Another matrix of its pattern, for refactorizations.
    pub next: Matrix<T>,
    /// Where the values of `next` are from.
    pub next_from: String,
    /// A·x for a known x.
    pub b: Vec<T>,
    /// Random.
    pub random_b: Vec<T>,
    /// Aᵀ by rows.
    pub transposed: CsMat<T>,
    /// Aᵀ·x for the known x.
    pub transposed_b: Vec<T>,
    /// `next`·x for the known x.
    pub next_b: Vec<T>,
    /// [`MANY`] random right-hand sides one after another, or [others](System::with_many).
    pub many_b: Vec<T>,
}

/// Right-hand sides of the solve with many, unless others are asked for.
pub const MANY: usize = 16;

/// Largest relative change of a value where there is no next matrix.
pub const RESCALING: f64 = 1e-3;

/// The factor within 1 ± [`RESCALING`] by which the value of that number by rows changes.
pub fn rescaling(number: usize) -> f64 {
    1.0 + RESCALING * (2.0 * fraction(number as u64) - 1.0)
}

/// The value of that number by rows times its [`rescaling`].
pub fn rescaled<T: Scalar>(value: T, number: usize) -> T {
    T::narrow(value.widen().scaled_by(rescaling(number)))
}

/// SplitMix64 of a number, as a fraction.
fn fraction(number: u64) -> f64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

impl<T: BenchScalar> System<T> {
    /// The matrix that was read of a source, and what goes with it. Refactorizations get the values of the next matrix of its
    /// sequence if there is one and `rescale` is not wanted, else changed ones. They are symmetric, or Hermitian, if the matrix is.
    pub fn of(source: &Source, a: Matrix<T>, rescale: bool) -> Self {
        let symmetry = |a: &Matrix<T>| [a.is_symmetric(), a.is_hermitian()];
        let of_a = symmetry(&a);
        let neighbour = source.neighbour().filter(|_| !rescale).and_then(|path| {
            let neighbour = Source::of_file(&path);
            let next = T::of(neighbour.read().ok()?)?;
            let is_like = next.has_pattern_of(&a) && symmetry(&next) == of_a;
            is_like.then_some((next, neighbour.name))
        });
        let (next, next_from) = neighbour.unwrap_or_else(|| {
            let from = format!("each value times a factor within 1 ± {RESCALING:e}");
            let next = if of_a.contains(&true) {
                a.map_symmetric_values(rescaled)
            } else {
                a.map_values(rescaled)
            };
            (next, from)
        });
        Self::new(a, next, next_from)
    }
}

fn number<T: Scalar>(component: &mut dyn FnMut(usize) -> f64) -> T {
    T::narrow(T::Wide::from_components(component))
}

/// Numbers with components between −1 and 1.
fn random<T: Scalar>(seed: u64, count: usize) -> Vec<T> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut component = |_| rng.random_range(-1.0..=1.0);
    (0..count).map(|_| number(&mut component)).collect()
}

impl<T: Scalar> System<T> {
    /// Of a matrix and another one of its pattern, with where that is from.
    pub fn new(a: Matrix<T>, next: Matrix<T>, next_from: String) -> Self {
        let n = a.n();
        let random_b = random(0x5eed, n);
        // Components of both signs between a half and one.
        let known = |j: usize| {
            number::<T>(&mut |part| {
                let fraction = fraction((j + part * n) as u64) - 0.5;
                fraction + 0.5f64.copysign(fraction)
            })
        };
        let x: Vec<T> = (0..n).map(known).collect();
        let transposed = a.rows().transpose_view().to_csr();
        Self {
            b: product(a.rows(), &x),
            transposed_b: product(&transposed, &x),
            next_b: product(next.rows(), &x),
            a,
            next,
            next_from,
            random_b,
            transposed,
            many_b: random(0x5eee, n * MANY),
        }
    }

    /// With `count` right-hand sides of the solve with many, two at least.
    pub fn with_many(self, count: usize) -> Self {
        let many_b = random(0x5eee, self.a.n() * count.max(2));
        Self { many_b, ..self }
    }

    /// Right-hand sides of the solve with many.
    pub fn nrhs(&self) -> usize {
        self.many_b.len() / self.a.n().max(1)
    }

    /// The matrix, or the one with the next values.
    pub fn values(&self, next: bool) -> &Matrix<T> {
        if next { &self.next } else { &self.a }
    }

    /// The same in another type, each value rounded.
    pub fn to_type<S: Scalar<Wide = T::Wide>>(&self) -> System<S> {
        let round = |value: T, _| S::narrow(value.widen());
        let (a, next) = (self.a.map_values(round), self.next.map_values(round));
        System::new(a, next, self.next_from.clone())
    }
}

/// The pattern of B, the rows of `a` matched by value and all of it in the order in which the CPU path eliminates for
/// factors on a device.
///
/// # Errors
///
/// As [`order`]; among others, if `a` is singular in structure.
pub fn ordered_pattern(a: &CsMat<f64>) -> Result<CompressedPattern, OrderingError> {
    let options = OrderingOptions::default().matching(Matching::Always);
    let ordering = order(&pattern_of(a), Some(a.data()), &options)?;
    let b = permuted_and_scaled(a, &ordering.row_perm, &ordering.scaling, &ordering.col_perm);
    Ok(pattern_of(&b))
}

/// A·x, summed up in 64 bits a component.
pub fn product<T: Scalar>(a: &CsMat<T>, x: &[T]) -> Vec<T> {
    let minus = residual(a, x, &vec![T::zero(); a.rows()]);
    minus.into_iter().map(|v| T::narrow(-v)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_sequences() {
        assert_eq!(step_of("mult8_nor_t2"), Some(("mult8_nor_t", 2)));
        assert_eq!(step_of("pf_case118_it12"), Some(("pf_case118_it", 12)));
        assert_eq!(step_of("mult8_nor_op"), None);
        assert_eq!(step_of("west0479"), None);
    }

    #[test]
    fn the_next_matrix_of_a_sequence_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = |value: f64| {
            format!(
                "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 {value}\n2 2 {value}\n"
            )
        };
        for (name, value) in [("x_t1", 1.0), ("x_t3", 3.0), ("x_t4", 4.0), ("y_t2", 9.0)] {
            std::fs::write(folder.path().join(format!("{name}.mtx")), text(value))
                .expect("written");
        }
        let system = |name: &str| {
            let source = Source::of_file(&folder.path().join(format!("{name}.mtx")));
            let a = source.read_real().expect("it can be read");
            System::of(&source, a, false)
        };
        let first = system("x_t1");
        assert_eq!(
            (first.next_from.as_str(), first.next.values()[0]),
            ("x_t3", 3.0)
        );
        let last = system("x_t4");
        assert_eq!(
            (last.next_from.as_str(), last.next.values()[0]),
            ("x_t3", 3.0)
        );
        let alone = system("y_t2");
        assert!(
            alone.next_from.starts_with("each value"),
            "{}",
            alone.next_from
        );
        let change = alone.next.values()[0] / 9.0 - 1.0;
        assert!(change != 0.0 && change.abs() <= RESCALING, "{change}");
    }

    #[test]
    fn a_selection_selects() {
        let circuits = Selection {
            kinds: vec![Kind::Circuit],
            max_n: Some(2000),
            ..Selection::default()
        };
        let names = |s: Selection| -> Vec<String> {
            s.of_generators().into_iter().map(|s| s.name).collect()
        };
        assert_eq!(names(circuits), ["gen_circuit_500"]);
        let by_name = Selection {
            only: vec!["gen_cdr3d_20".to_owned()],
            ..Selection::default()
        };
        assert_eq!(names(by_name), ["gen_cdr3d_20"]);
        assert_eq!(names(Selection::default()).len(), GENERATED.len());
    }
}
