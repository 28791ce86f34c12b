//! What several ranks do, beside what one does alone. The transport is the caller's: threads or MPI.

use luge::distributed::{RankErrorKind, Ranks, RowBlock};
use luge::num_complex::Complex;
use luge::sprs::CsMat;
use luge::{BackendChoice, CpuEngine, MatrixKind, Options, Scalar, Solver};
use luge_testkit::generators::adversaries::structurally_singular;
use luge_testkit::generators::applications::{
    circuit, convection_diffusion_3d, laplacian_2d, saddle_point,
};
use luge_testkit::generators::frequency::helmholtz;

/// All that a solver tells of a matrix and of another one with its pattern: every digit of its numbers.
macro_rules! told {
    ($analysis:expr, $a:expr, $other:expr, $b:expr, $inform:expr) => {{
        let (a, b) = ($a, $b);
        let mut factors = $analysis.factorize(a).unwrap();
        let mut told = Vec::new();
        for round in 0..2 {
            let solution = factors.solve(&b[..a.rows()]).unwrap();
            let transposed = factors.solve_transpose(&b[..a.rows()]).unwrap();
            let many = factors.solve_many(b, 3).unwrap();
            let inform = $inform(&factors);
            told.push(format!(
                "{:?} {:?} {:?} {:?} {:?} {:?}",
                solution.x,
                solution.inform.backward_error,
                transposed.x,
                many.x,
                factors.determinant().unwrap(),
                factors.inertia()
            ));
            told.push(format!(
                "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
                inform.growth,
                inform.rcond,
                inform.num_delay,
                inform.num_two,
                inform.num_perturbed,
                inform.lnz,
                inform.warnings,
                inform.pivoting,
            ));
            if round == 0 {
                told.push(format!("{:?}", factors.refactorize($other).unwrap()));
            }
        }
        told
    }};
}

fn options() -> Options {
    Options::default().backend(BackendChoice::Cpu).threads(1)
}

/// The same pattern with other values, symmetric where it was.
fn changed<T: Scalar>(a: &CsMat<T>) -> CsMat<T> {
    a.map(|&value| value * T::from_components(|c| T::Real::narrow(if c == 0 { 1.25 } else { 0.0 })))
}

fn compare<T: Scalar<Wide = T, Real = f64>>(
    ranks: &Ranks,
    name: &str,
    a: &CsMat<T>,
    options: Options,
) {
    let b: Vec<T> = (0..3 * a.rows())
        .map(|i| T::from_components(|c| ((i * 29 + c * 7) % 83) as f64 - 40.0))
        .collect();
    let other = changed(a);
    let solver = Solver::new(options.clone()).unwrap();
    let analysis = solver.analyze(a).unwrap();
    let inform = |factors: &luge::Factors<T>| factors.inform().clone();
    let alone = told!(analysis, a, &other, &b, inform);
    let analysis = ranks.solver(options).unwrap().analyze(a).unwrap();
    let inform = |factors: &luge::distributed::RankFactors<T>| factors.inform().unwrap().clone();
    let together = told!(analysis, a, &other, &b, inform);
    for (together, alone) in together.iter().zip(&alone) {
        assert!(
            together == alone,
            "{name} on rank {} of {}:\n{together}\nand not\n{alone}",
            ranks.rank(),
            ranks.size()
        );
    }
}

/// Matrices of all kinds have the results that they have on one rank.
pub fn results_are_those_of_one_rank(ranks: &Ranks) {
    let ranks = &ranks.clone().least_seconds(0.0);
    let fronts = || options().engine(CpuEngine::Fronts);
    compare(
        ranks,
        "LU",
        &convection_diffusion_3d(7, 6, 5, 2.0),
        fronts(),
    );
    compare(
        ranks,
        "LU in f32",
        &convection_diffusion_3d(6, 5, 5, 2.0),
        fronts().precision(luge::FactorPrecision::Single),
    );
    compare(ranks, "LU of blocks", &circuit(300, 5), fronts());
    compare(ranks, "columns", &circuit(300, 5), options());
    let symmetric = || options().kind(MatrixKind::Symmetric);
    compare(ranks, "LDLT", &saddle_point(150, 60, 4), symmetric());
    compare(
        ranks,
        "Cholesky",
        &laplacian_2d(17, 15),
        options().kind(MatrixKind::PositiveDefinite),
    );
    let waves: CsMat<Complex<f64>> = helmholtz([7, 6, 5], 8.0);
    compare(ranks, "complex LU", &waves, fronts());
    compare(ranks, "complex LDLT", &waves, symmetric());
}

/// The pattern of L+U is that of one rank.
pub fn patterns_are_those_of_one_rank(ranks: &Ranks) {
    // More sources than one chunk for each rank has.
    for a in [convection_diffusion_3d(11, 10, 9, 2.0), circuit(400, 5)] {
        let analysis = Solver::new(options()).unwrap().analyze(&a).unwrap();
        let (alone, _) = analysis.structure().unwrap();
        let analysis = ranks.solver(options()).unwrap().analyze(&a).unwrap();
        let together = analysis.filled_pattern().unwrap();
        assert_eq!(together.rows(), alone.rows());
    }
}

/// What goes wrong on one rank is the same error on all, and they go on.
pub fn failures_are_those_of_all(ranks: &Ranks) {
    let ranks = &ranks.clone().least_seconds(0.0);
    let (own, last) = (ranks.rank(), ranks.size() - 1);
    let a = convection_diffusion_3d(6, 6, 5, 2.0);
    let fronts = || options().engine(CpuEngine::Fronts);

    let singular = structurally_singular(60, 1, 3);
    let alone = Solver::new(options())
        .unwrap()
        .analyze(&singular)
        .unwrap_err();
    let error = ranks
        .solver(options())
        .unwrap()
        .analyze(&singular)
        .unwrap_err();
    assert_eq!((error.rank, error.kind), (0, RankErrorKind::Singular));
    assert_eq!(error.message, alone.to_string());
    assert!(error.own().is_some());

    // Without an entry in a column no front has a pivot for it.
    let mut indefinite = laplacian_2d(17, 15);
    let at = indefinite
        .data()
        .iter()
        .position(|&value| value > 0.0)
        .unwrap();
    indefinite.data_mut()[at] = -4.0;
    let definite = || options().kind(MatrixKind::PositiveDefinite);
    let analysis = Solver::new(definite())
        .unwrap()
        .analyze(&indefinite)
        .unwrap();
    let alone = analysis.factorize(&indefinite).unwrap_err();
    let analysis = ranks
        .solver(definite())
        .unwrap()
        .analyze(&indefinite)
        .unwrap();
    let error = analysis.factorize(&indefinite).unwrap_err();
    assert_eq!(
        (error.kind, error.message),
        (RankErrorKind::Singular, alone.to_string())
    );

    // Another matrix, or right-hand side, on the last rank.
    let mut other = a.clone();
    if own == last {
        other.data_mut()[3] += 1.0;
    }
    let is_alone = last == 0;
    let solver = ranks.solver(fronts()).unwrap();
    let outcome = solver.analyze(&other);
    assert_eq!(outcome.is_ok(), is_alone);
    if let Err(error) = outcome {
        assert_eq!((error.rank, error.kind), (last, RankErrorKind::BadInput));
        assert_eq!(error.message, "it was given another matrix than rank 0");
    }
    let factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
    let mut b = vec![1.0; a.rows()];
    b[0] += if own == last { 1.0 } else { 0.0 };
    assert_eq!(factors.solve(&b).is_ok(), is_alone);
    assert!(factors.solve(&vec![1.0; a.rows()]).is_ok());

    // Memory that is short on the last rank, in each phase.
    let mut failed = 0;
    for bytes in [50_000, 150_000, 200_000, 250_000] {
        let limited = if own == last {
            fronts().max_host_bytes(bytes)
        } else {
            fronts()
        };
        let factors = ranks
            .solver(limited)
            .and_then(|solver| solver.analyze(&a))
            .and_then(|analysis| analysis.factorize(&a))
            .and_then(|factors| factors.solve(&vec![1.0; a.rows()]));
        if let Err(error) = factors {
            assert_eq!(
                (error.rank, error.kind),
                (last, RankErrorKind::OutOfMemory),
                "{error}"
            );
            failed += 1;
        }
    }
    assert!(failed > 1, "{failed} of 4 limits are too low");

    // A flag that is raised on the last rank.
    let raised = fronts();
    let cancel = raised.cancel.clone();
    let analysis = ranks.solver(raised).unwrap().analyze(&a).unwrap();
    let mut factors = analysis.factorize(&a).unwrap();
    if own == last {
        cancel.cancel();
    }
    for error in [
        analysis.factorize(&a).map(drop).unwrap_err(),
        factors.solve(&vec![1.0; a.rows()]).map(drop).unwrap_err(),
        factors.refactorize(&a).map(drop).unwrap_err(),
    ] {
        assert_eq!((error.rank, error.kind), (last, RankErrorKind::Cancelled));
    }
    // A refactorization that some ranks alone gave up leaves no factors.
    cancel.lower();
    assert_eq!(factors.refactorize(&a).is_err(), last > 0);
    assert_eq!(factors.solve(&vec![1.0; a.rows()]).is_err(), last > 0);
    assert!(
        analysis
            .factorize(&a)
            .unwrap()
            .solve(&vec![1.0; a.rows()])
            .is_ok()
    );

    // A file that the last rank cannot read.
    let outcome = ranks.together(|| match own == last {
        true => Err("no such file".to_owned()),
        false => Ok(()),
    });
    let error = outcome.unwrap_err();
    assert_eq!(error.to_string(), format!("rank {last}: no such file"));
}

/// Rows that are on different ranks become a matrix, or an error that names rank and row.
pub fn rows_come_together(ranks: &Ranks) {
    let a = convection_diffusion_3d(5, 4, 4, 2.0);
    let n = a.rows();
    let (own, size) = (ranks.rank(), ranks.size());
    // Each rank has every so many, from the last to the first.
    let rows: Vec<u64> = (0..n as u64)
        .rev()
        .filter(|row| *row as usize % size == own)
        .collect();
    let block = |rows: &[u64]| {
        let (mut row_ptr, mut col_idx, mut values) = (vec![0], Vec::new(), Vec::new());
        for &row in rows {
            if let Some(entries) = a.outer_view(row as usize) {
                col_idx.extend(entries.indices().iter().map(|&column| column as u64));
                values.extend(entries.data());
            }
            row_ptr.push(values.len() as u64);
        }
        (row_ptr, col_idx, values)
    };
    let gather = |rows: &[u64]| {
        let (row_ptr, col_idx, values) = block(rows);
        let own = RowBlock {
            rows,
            row_ptr: &row_ptr,
            col_idx: &col_idx,
            values: &values,
        };
        ranks.gather_rows(n, &own)
    };
    let all = gather(&rows).unwrap();
    let view = all.view();
    assert_eq!(view.values(), a.data());
    assert!(
        all.col_idx
            .iter()
            .zip(a.indices())
            .all(|(&i, &j)| i == j as u64)
    );
    assert!(
        all.row_ptr
            .iter()
            .zip(a.indptr().raw_storage())
            .all(|(&i, &j)| i == j as u64)
    );
    let values: Vec<f64> = rows.iter().map(|&row| row as f64).collect();
    let b = ranks.gather_values(n, &rows, &values).unwrap();
    assert!(
        b.iter()
            .enumerate()
            .all(|(row, &value)| value == row as f64)
    );
    let factors = ranks
        .solver(options())
        .unwrap()
        .analyze(view)
        .unwrap()
        .factorize(view)
        .unwrap();
    assert!(factors.solve(&b).is_ok());

    // Of the last rank one row is wanting, doubled, or none of the matrix.
    let last = size - 1;
    let changed = |change: &dyn Fn(&mut Vec<u64>)| {
        let mut rows = rows.clone();
        if own == last {
            change(&mut rows);
        }
        gather(&rows).unwrap_err()
    };
    let missing = last;
    let error = changed(&|rows| rows.truncate(rows.len() - 1));
    assert_eq!((error.rank, error.kind), (0, RankErrorKind::BadInput));
    assert!(
        error.message.contains(&format!("none is row {missing}")),
        "{error}"
    );
    let error = changed(&|rows| rows.push(0));
    assert_eq!(
        error.to_string(),
        format!("rank {last}: it was given row 0, which rank 0 has already")
    );
    let error = changed(&|rows| rows[0] = n as u64);
    assert_eq!(
        error.to_string(),
        format!("rank {last}: it was given row {n} of a matrix of order {n}")
    );
    let error = ranks.gather_values(n, &rows, &values[1..]).unwrap_err();
    assert_eq!((error.rank, error.kind), (0, RankErrorKind::BadInput));
}
