//! Fronts without pivots, which add up elements of many children for a front: in factorizations and solves of both kinds.

use std::sync::Arc;

use luge_frontal::{Gathering, Lower, Storage, Symbolic};
use luge_testkit::generators::applications::random_unsymmetric;
use sprs::{CsMat, TriMat};

use crate::chain::{seeded_streams, streams};
use crate::frontal;
use crate::frontal_ldlt::{self, check_factorization, joined, problem, uniform, unmerged};

/// Blocks of columns that do not depend on each other.
const BLOCKS: usize = 16;

/// Few of everything, so that groups are added up by groups.
const GATHERING: Gathering = Gathering {
    most_trips: 1.0,
    group: 9.0,
};

fn gathered<S: Storage>(symbolic: &Symbolic<S>) -> Arc<Symbolic<S>> {
    let gathered = symbolic.clone().gathered(&GATHERING, 1).unwrap();
    let fronts = gathered.tree().fronts();
    let added = fronts.iter().filter(|front| front.pivots == 0).count();
    assert!(added > 2, "{added} fronts without pivots");
    Arc::new(gathered)
}

/// Blocks of `k` columns below one of `c`; the value in column j of row i of block b is `value(b, i, j)`.
fn many_children(
    (k, c): (usize, usize),
    value: impl Fn(usize, usize, usize) -> f64,
) -> frontal_ldlt::Problem {
    let mut problem = problem(joined(&[k; BLOCKS], c, value), &unmerged());
    problem.symbolic = gathered(&problem.symbolic);
    problem
}

/// Sizes of children and parent for which elements are added entry by entry, by pieces, and to tiles.
const SIZES: [(usize, usize); 3] = [(1, 9), (3, 20), (2, 70)];

#[test]
fn symmetric_factors_and_solves() {
    for (at, stream) in streams().iter().enumerate() {
        for (k, c) in SIZES {
            let problem = many_children((k, c), |_, i, j| uniform(2, i * 200 + j));
            let b: Vec<f64> = (0..problem.n).map(|i| uniform(5, i)).collect();
            let dense = problem.dense();
            // Sizes and limits take turns.
            let all = frontal_ldlt::all_limits().into_iter().enumerate();
            for (_, limits) in all.filter(|(l, _)| (at + l + k) % 3 == 0) {
                let what = format!("{k} and {c}, {limits:?}");
                let (mut factors, _) = check_factorization::<f64>(stream, &problem, limits, &what);
                for nrhs in [1, 5] {
                    let mut x = stream.upload(&b.repeat(nrhs)).unwrap();
                    factors.solve(stream, &mut x, nrhs).unwrap();
                    let x = stream.download(&x).unwrap();
                    for (x, (row, b)) in x.chunks(b.len()).flat_map(|x| {
                        let rows = dense.iter().zip(&b);
                        rows.map(move |row| (x, row))
                    }) {
                        let terms = row.iter().zip(x).map(|(a, x)| a * x);
                        let size: f64 = terms.clone().map(f64::abs).sum();
                        let error = (terms.sum::<f64>() - b).abs();
                        assert!(error <= 1e-10 * (size + b.abs()), "{what}: {error:e}");
                    }
                }
            }
        }
    }
}

/// Columns without a pivot go to fronts that had none.
#[test]
fn columns_are_delayed_beyond_fronts_without_pivots() {
    for (stream, limits) in seeded_streams().iter().zip(frontal_ldlt::all_limits()) {
        let value = |block, i: usize, j: usize| match block {
            0..BLOCKS => 0.0,
            _ => uniform(2, i * 200 + j),
        };
        let problem = many_children((2, 70), value);
        let (_, quality) = check_factorization::<f64>(stream, &problem, limits, "delays");
        assert!(quality.num_delayed >= BLOCKS, "{quality:?}");
    }
}

/// Blocks of `k` columns below one of `c`, on which all of them depend.
fn unsymmetric(k: usize, c: usize) -> CsMat<f64> {
    let n = BLOCKS * k + c;
    let noise = random_unsymmetric(n, 4, 3);
    let mut a = TriMat::new((n, n));
    for block in 0..BLOCKS {
        for i in block * k..(block + 1) * k {
            for j in block * k..(block + 1) * k {
                let diagonal = if i == j { 4.0 } else { 0.0 };
                a.add_triplet(i, j, diagonal + uniform(7, i * n + j));
            }
            // Without an entry in one of the columns each: the blocks need not be merged.
            for j in (BLOCKS * k..n).filter(|j| j % BLOCKS != block) {
                a.add_triplet(i, j, uniform(8, i * n + j));
                a.add_triplet(j, i, uniform(9, i * n + j));
            }
        }
    }
    for i in BLOCKS * k..n {
        a.add_triplet(i, i, 4.0 * n as f64);
        for (j, &v) in noise.outer_view(i).unwrap().iter() {
            if j >= BLOCKS * k && j != i {
                a.add_triplet(i, j, v);
            }
        }
    }
    a.to_csr()
}

#[test]
fn factors_and_solves_of_unsymmetric_matrices() {
    for (at, stream) in streams().iter().enumerate() {
        for (k, c) in SIZES {
            let problem = frontal::Problem::new(&unsymmetric(k, c), &unmerged());
            let problem = frontal::Problem {
                symbolic: gathered(&problem.symbolic),
                ..problem
            };
            let known: Vec<f64> = (0..problem.symbolic.n()).map(|i| uniform(5, i)).collect();
            let b = problem.times(&known);
            let all = frontal::all_limits().into_iter().enumerate();
            for (_, limits) in all.filter(|(l, _)| (at + l + k) % 4 == 0) {
                let what = format!("{k} and {c}, {limits:?}");
                let (mut factors, _) = frontal::factorized::<f64>(stream, &problem, limits);
                let error = frontal::backward_error(stream, &problem, &factors);
                assert!(error <= 1e-13, "{what}: {error:e}");
                for (nrhs, transpose) in [(1, false), (1, true), (5, false), (5, true)] {
                    let mut x = stream.upload(&b.repeat(nrhs)).unwrap();
                    factors.solve(stream, &mut x, nrhs, transpose).unwrap();
                    let x = stream.download(&x).unwrap();
                    for x in x.chunks(b.len()) {
                        let image = if transpose {
                            problem.times_transposed(x)
                        } else {
                            problem.times(x)
                        };
                        let errors = image.iter().zip(&b).map(|(image, b)| (image - b).abs());
                        let error = errors.fold(0.0, f64::max);
                        assert!(error <= 1e-11, "{what}, {transpose}: {error:e}");
                    }
                }
            }
        }
    }
}

/// A tree with fronts without pivots has the entries of L of one without, and default limits add none to small trees.
#[test]
fn factors_are_no_larger() {
    let problem = problem(
        joined(&[2; BLOCKS], 30, |_, i, j| uniform(2, i * 200 + j)),
        &unmerged(),
    );
    let entries = |symbolic: &Symbolic<Lower>| symbolic.factor_entries();
    assert_eq!(
        entries(&gathered(&problem.symbolic)),
        entries(&problem.symbolic)
    );
    let symbolic = Symbolic::clone(&problem.symbolic);
    let default = symbolic.gathered(&Gathering::default(), 1).unwrap();
    assert_eq!(
        default.tree().num_supernodes(),
        problem.symbolic.tree().num_supernodes()
    );
}
