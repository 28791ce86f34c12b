//! Values of which only some changed: the outcome is that of a refactorization with all of them, to the last bit.

use luge::{
    BackendChoice, CpuEngine, DeviceEngine, Error, Factors, MatrixKind, Options, Refactorized,
    ResidualCheck, SavedError, Scalar, Solver,
};
use luge_testkit::convert::turned;
use luge_testkit::generators::applications::{
    circuit, convection_diffusion_2d, interior_point_kkt, laplacian_2d, random_unsymmetric,
    saddle_point,
};
use luge_testkit::generators::mixed::random_symmetric;
use proptest::prelude::*;
use sprs::{CsMat, TriMat};

use crate::fields::C;

fn on_cpu(threads: usize) -> Options {
    Options::default()
        .backend(BackendChoice::Cpu)
        .threads(threads)
}

/// Everything of factors that can be told apart: they are saved with all that was measured of them. Of factors on a device it is what
/// was measured, and the determinant.
fn bits<T: Scalar>(factors: &Factors<T>) -> Vec<u8> {
    let mut bits = Vec::new();
    if let Err(error) = factors.save(&mut bits) {
        assert!(
            matches!(error, Error::Saved(SavedError::OnDevice)),
            "{error}"
        );
        let inform = factors.inform();
        let measured = (inform.growth, inform.num_perturbed, inform.backward_error);
        let determinant = factors.determinant().unwrap();
        bits = format!("{measured:?} {determinant:?}").into_bytes();
    }
    bits
}

/// Factors of one matrix twice: renewed as a whole, and told what changed.
struct Pair<T: Scalar> {
    all: Vec<T>,
    whole: Factors<T>,
    told: Factors<T>,
}

impl<T: Scalar> Pair<T> {
    fn new(a: &CsMat<T>, options: &Options) -> Self {
        let analysis = Solver::new(options.clone()).unwrap().analyze(a).unwrap();
        let [whole, told] = [0, 1].map(|_| analysis.factorize(a).unwrap());
        Self {
            all: a.data().to_vec(),
            whole,
            told,
        }
    }

    /// Renews both, compares them, and returns the outcome with the part that was done.
    fn change(&mut self, places: &[usize], values: &[T]) -> Done {
        let mut all = self.all.clone();
        places.iter().zip(values).for_each(|(&p, &v)| all[p] = v);
        let expected = self.whole.refactorize_values(&all);
        let outcome = self.told.refactorize_changed(places, values);
        let [expected, outcome] = [expected, outcome].map(|o| o.map_err(|e| e.to_string()));
        assert_eq!(outcome, expected);
        let part = self.told.inform().refactorized_part;
        if outcome.is_ok() {
            self.all = all;
        }
        assert!(bits(&self.told) == bits(&self.whole), "the same factors");
        let b: Vec<T> = (0..self.whole.n())
            .map(|i| T::one().scaled(1.0 + (i % 5) as f64))
            .collect();
        for transpose in [false, true] {
            let solve = |factors: &Factors<T>| {
                let mut x = b.clone();
                let accuracy = if transpose {
                    factors.solve_transpose_in_place(&mut x)
                } else {
                    factors.solve_in_place(&mut x)
                };
                (accuracy.map_err(|e| e.to_string()), x)
            };
            assert!(
                solve(&self.told) == solve(&self.whole),
                "the same solutions"
            );
        }
        Done {
            outcome,
            part: part.unwrap_or(f64::NAN),
        }
    }
}

/// An outcome, and the part of the work that was done.
struct Done {
    outcome: Result<Refactorized, String>,
    part: f64,
}

/// A change: places as fractions of all, and what their values are multiplied by.
type Change = Vec<(f64, f64)>;

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let factor = prop_oneof![
        12 => 0.5f64..2.0,
        2 => -2.0f64..2.0,
        1 => Just(0.0),
        1 => Just(1e-13),
        1 => Just(1e9),
    ];
    let change = proptest::collection::vec((0.0f64..1.0, factor), 0..6);
    proptest::collection::vec(change, 5)
}

/// Makes the changes one after another.
fn check<T: Scalar>(a: &CsMat<T>, options: &Options, changes: &[Change]) {
    let mut pair = Pair::new(a, options);
    for change in changes {
        let (mut places, mut values) = (Vec::new(), Vec::new());
        for &(at, factor) in change {
            let place = (at * a.nnz() as f64) as usize;
            // The first of several for one place: all have one value.
            if !places.contains(&place) {
                places.push(place);
                values.push(pair.all[place].scaled(factor));
            }
        }
        pair.change(&places, &values);
        // The same places again.
        let others: Vec<T> = places.iter().map(|&p| pair.all[p].scaled(0.75)).collect();
        pair.change(&places, &others);
    }
}

/// A number times a real factor.
trait Scaled {
    fn scaled(self, factor: f64) -> Self;
}

impl<T: Scalar> Scaled for T {
    fn scaled(self, factor: f64) -> Self {
        T::narrow(self.widen().scaled_by(factor))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn general_matrices_are_as_after_a_whole_refactorization(
        seed in 0u64..1000,
        which in 0usize..3,
        engine in prop_oneof![Just(CpuEngine::Auto), Just(CpuEngine::Columns), Just(CpuEngine::Fronts)],
        threads in prop_oneof![Just(1usize), Just(3)],
        changes in changes(),
    ) {
        let a = match which {
            0 => circuit(60, seed),
            1 => random_unsymmetric(50, 4, seed),
            _ => convection_diffusion_2d(7, 8, 3.0 + seed as f64),
        };
        let options = on_cpu(threads).engine(engine);
        check(&a, &options, &changes);
        check(&turned::<C>(&a), &options, &changes);
        check(&a.map(|&v| v as f32), &options, &changes);
        check(&a.to_csc(), &options, &changes);
    }
}

/// Entries on or below the diagonal.
fn lower(a: &CsMat<f64>) -> CsMat<f64> {
    let mut triangle = TriMat::new(a.shape());
    for (&value, (i, j)) in a.iter().filter(|(_, (i, j))| j <= i) {
        triangle.add_triplet(i, j, value);
    }
    triangle.to_csr()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn symmetric_matrices_are_as_after_a_whole_refactorization(
        seed in 0u64..1000,
        which in 0usize..3,
        kind in prop_oneof![
            Just(MatrixKind::Symmetric), Just(MatrixKind::PositiveDefinite), Just(MatrixKind::Hermitian),
        ],
        threads in prop_oneof![Just(1usize), Just(3)],
        changes in changes(),
    ) {
        let a = match which {
            _ if kind == MatrixKind::PositiveDefinite => laplacian_2d(7, 9),
            0 => random_symmetric(60, 3, seed),
            1 => interior_point_kkt(40, 15, 1e-3, seed),
            _ => saddle_point(40, 15, seed),
        };
        let options = on_cpu(threads).kind(kind);
        let triangle = lower(&a);
        check(&triangle, &options, &changes);
        check(&triangle.to_csc(), &options, &changes);
        check(&triangle.map(|&v| v as f32), &options, &changes);
        check(&triangle.map(|&v| C::new(v, 0.0)), &options, &changes);
        if kind == MatrixKind::Symmetric {
            check(&turned::<C>(&triangle), &options, &changes);
        }
    }
}

#[test]
fn both_entries_of_a_pair_change_where_a_symmetric_matrix_is_stored_whole() {
    let a = interior_point_kkt(60, 20, 1e-2, 7);
    let mut pair = Pair::new(&a, &on_cpu(1).kind(MatrixKind::Symmetric));
    let place = |i: usize, j: usize| a.nnz_index(i, j).map(|at| at.0);
    let (_, (i, j)) = a.iter().find(|(_, (i, j))| i > j).unwrap();
    let places = [place(i, j), place(j, i), place(i, i)].map(Option::unwrap);
    let mut parts = Vec::new();
    for factor in [1.5, 2.0, 0.5] {
        let values = places.map(|p| factor * pair.all[p]);
        let done = pair.change(&places, &values);
        done.outcome.unwrap();
        parts.push(done.part);
    }
    assert!(
        parts[0] == 1.0 && parts[1] < 1.0 && parts[1] == parts[2],
        "{parts:?}"
    );
    let half = pair.change(&places[..1], &[7.0]);
    assert!(half.outcome.unwrap_err().contains("not symmetric"));
}

#[test]
fn few_entries_take_a_part_of_the_work() {
    for threads in [1, 3] {
        let a = circuit(6000, 3);
        let mut pair = Pair::new(&a, &on_cpu(threads).engine(CpuEngine::Columns));
        let places: Vec<usize> = (0..8).map(|k| a.nnz() / 2 + 31 * k).collect();
        let mut parts = Vec::new();
        for step in 0..4 {
            let values: Vec<f64> = places
                .iter()
                .map(|&p| pair.all[p] * (1.0 + 0.01 * step as f64))
                .collect();
            let Done { outcome, part } = pair.change(&places, &values);
            assert!(matches!(outcome, Ok(Refactorized::Reused { .. })));
            parts.push(part);
        }
        assert_eq!(
            parts[0], 1.0,
            "nothing is known of the columns before the first"
        );
        assert!(
            parts[1..].iter().all(|&part| 0.0 < part && part < 0.5),
            "{parts:?}"
        );
        // Nothing changes, and all does.
        assert_eq!(pair.change(&[], &[]).part, 0.0);
        let all: Vec<usize> = (0..a.nnz()).collect();
        let values: Vec<f64> = pair.all.iter().map(|v| 1.5 * v).collect();
        assert_eq!(pair.change(&all, &values).part, 1.0);
        // After a whole one the others are known as well.
        pair.told.refactorize_values(&values).unwrap();
        pair.whole.refactorize_values(&values).unwrap();
        let values: Vec<f64> = places.iter().map(|&p| pair.all[p]).collect();
        let part = pair.change(&places, &values).part;
        assert!(part < 0.5, "{part}");
    }
}

fn on_device() -> Options {
    let options = Options::default().backend(BackendChoice::Simulator { seed: 1 });
    options.device_engine(DeviceEngine::Tree)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3))]

    #[test]
    fn on_a_device_general_matrices_are_as_after_a_whole_refactorization(
        seed in 0u64..1000,
        which in 0usize..3,
        changes in changes(),
    ) {
        let a = match which {
            0 => circuit(60, seed),
            1 => random_unsymmetric(50, 4, seed),
            _ => convection_diffusion_2d(7, 8, 3.0 + seed as f64),
        };
        let changes = &changes[..2];
        check(&a, &on_device(), changes);
        check(&turned::<C>(&a), &on_device(), changes);
        check(&a.map(|&v| v as f32), &on_device(), changes);
        check(&a.to_csc(), &on_device().residual_check(ResidualCheck::Never), changes);
    }
}

#[test]
fn on_a_device_few_entries_take_a_part_of_the_work() {
    let a = circuit(200, 3);
    let mut pair = Pair::new(&a, &on_device());
    let places: Vec<usize> = (0..3).map(|k| a.nnz() / 2 + 7 * k).collect();
    let mut parts = Vec::new();
    for step in 0..3 {
        let values: Vec<f64> = places
            .iter()
            .map(|&p| pair.all[p] * (1.0 + 0.01 * f64::from(step)))
            .collect();
        let Done { outcome, part } = pair.change(&places, &values);
        assert!(matches!(outcome, Ok(Refactorized::Reused { .. })));
        parts.push(part);
    }
    assert!(
        parts[0] == 1.0 && parts[1] < 0.5 && parts[1] == parts[2],
        "{parts:?}"
    );
    // What does not serve leaves the old factors, from which the next change starts, and values that the host has not seen.
    let row: Vec<usize> = (a.indptr().index(6)..a.indptr().index(7)).collect();
    assert!(pair.change(&row, &vec![0.0; row.len()]).outcome.is_err());
    let part = pair.change(&places[..1], &[pair.all[places[0]] * 1.5]).part;
    assert!(part < 0.5, "{part}");
    let b = vec![1.0; a.rows()];
    let [x, y] = [&pair.told, &pair.whole].map(|factors| factors.solve(&b).unwrap().x);
    assert_eq!(x, y);
    // A whole refactorization leaves what the next change needs.
    let values = pair.all.clone();
    pair.told.refactorize_values(&values).unwrap();
    pair.whole.refactorize_values(&values).unwrap();
    let part = pair
        .change(&places[1..], &[values[places[1]], 0.5 * values[places[2]]])
        .part;
    assert!(part < 0.5, "{part}");
}

#[test]
fn on_a_device_all_of_other_factors_is_factorized_again() {
    let general = random_unsymmetric(30, 4, 3);
    let triangle = lower(&laplacian_2d(5, 5));
    let options = on_device();
    for (a, options) in [
        (
            &general,
            options.clone().device_engine(DeviceEngine::Columns),
        ),
        (&triangle, options.kind(MatrixKind::Symmetric)),
    ] {
        let mut pair = Pair::new(a, &options);
        for factor in [1.5, 0.75] {
            let places = [40, 3];
            let values = places.map(|p| factor * pair.all[p]);
            let Done { outcome, part } = pair.change(&places, &values);
            assert!(outcome.is_ok() && part == 1.0);
        }
        let error = pair.told.refactorize_changed(&[a.nnz()], &[1.0]);
        assert!(matches!(error, Err(Error::NoEntry { .. })));
    }
}

#[test]
fn changes_that_are_none_are_refused_and_change_nothing() {
    let a = circuit(40, 5);
    let mut pair = Pair::new(&a, &on_cpu(1));
    pair.change(&[3, 9], &[2.0, 1.0]);
    let (nnz, before) = (a.nnz(), bits(&pair.told));
    let told = &mut pair.told;
    let mut refused = |places: &[usize], values: &[f64]| {
        let error = told.refactorize_changed(places, values).unwrap_err();
        assert!(bits(told) == before);
        error
    };
    let error = refused(&[1, 2], &[1.0]);
    assert!(matches!(
        error,
        Error::OtherCount {
            places: 2,
            values: 1
        }
    ));
    let error = refused(&[1, nnz, nnz + 1], &[1.0, 1.0, 1.0]);
    assert!(matches!(error, Error::NoEntry { place, nnz: n } if (place, n) == (nnz, nnz)));
    let error = refused(&[7, 1, 7], &[1.0, 1.0, 2.0]);
    assert!(matches!(error, Error::TwoValues { place: 7 }));
    let place = a.indptr().index(4);
    let error = refused(&[0, place], &[1.0, f64::NAN]);
    assert!(matches!(error, Error::NotFinite { row: 4, column } if column == a.indices()[place]));
    // Twice with one value is once.
    pair.change(&[7, 1, 7], &[3.0, 1.0, 3.0]);
}

#[test]
fn old_values_are_back_after_an_error_and_the_next_change_starts_from_them() {
    let a = circuit(300, 11);
    let at = a.nnz() / 2;
    for engine in [CpuEngine::Columns, CpuEngine::Fronts] {
        let mut pair = Pair::new(&a, &on_cpu(1).engine(engine));
        pair.change(&[5], &[2.0]);
        let row: Vec<usize> = (a.indptr().index(6)..a.indptr().index(7)).collect();
        let failed = pair.change(&row, &vec![0.0; row.len()]);
        assert!(failed.outcome.is_err());
        for value in [2.5, 3.5] {
            let Done { outcome, part } = pair.change(&[at], &[value]);
            assert!(outcome.is_ok() && 0.0 < part && part < 0.5, "{part}");
        }
    }
}
