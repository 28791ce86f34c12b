//! What calls mean, on matrices whose answers are known.

use std::ptr;

use luge_klu::layout::{Common, INVALID, OK, SINGULAR, Symbolic};

use crate::api::{Api, Solver, ours};

fn real() -> Api<i32> {
    Api::load(&ours(), false).unwrap()
}

/// 3 1 .
/// . 2 5    columns with rows in no order
/// 4 . 1
const PTR: [i32; 4] = [0, 2, 4, 6];
const IDX: [i32; 6] = [2, 0, 1, 0, 2, 1];
const VALUES: [f64; 6] = [4.0, 3.0, 2.0, 1.0, 1.0, 5.0];

/// A·(1, 2, 3), and Aᵀ·(1, 2, 3).
const B: [f64; 3] = [5.0, 19.0, 7.0];
const B_TRANSPOSED: [f64; 3] = [15.0, 5.0, 13.0];

fn assert_near(x: &[f64], expected: &[f64]) {
    assert_eq!(x.len(), expected.len());
    let is_near =
        |(x, expected): (&f64, &f64)| (x - expected).abs() <= 1e-13 * (1.0 + expected.abs());
    assert!(
        x.iter().zip(expected).all(is_near),
        "{x:?} for {expected:?}"
    );
}

fn factorized(api: &Api<i32>) -> Solver<'_, i32> {
    let mut solver = Solver::new(api);
    assert!(solver.analyze(&PTR, &IDX));
    assert!(solver.factor(&PTR, &IDX, &VALUES));
    solver
}

#[test]
fn rows_may_come_in_any_order_and_a_part_of_the_pattern_is_enough() {
    let api = real();
    let mut solver = factorized(&api);
    let mut x = B;
    assert!(solver.solve(&mut x, false));
    assert_near(&x, &[1.0, 2.0, 3.0]);
    let mut x = B_TRANSPOSED;
    assert!(solver.solve(&mut x, true));
    assert_near(&x, &[1.0, 2.0, 3.0]);
    // The same matrix sorted.
    let sorted = [0, 2, 0, 1, 1, 2];
    let values = [3.0, 4.0, 1.0, 2.0, 5.0, 1.0];
    assert!(solver.refactor(&PTR, &sorted, &values));
    let mut x = B;
    assert!(solver.solve(&mut x, false));
    assert_near(&x, &[1.0, 2.0, 3.0]);
    // Without the entry in row 0, column 1: b is A·(1, 2, 3) less that.
    let part = ([0, 2, 3, 5], [0, 2, 1, 1, 2], [3.0, 4.0, 2.0, 5.0, 1.0]);
    assert!(solver.refactor(&part.0, &part.1, &part.2));
    let mut x = [3.0, 19.0, 7.0];
    assert!(solver.solve(&mut x, false));
    assert_near(&x, &[1.0, 2.0, 3.0]);
    // One that comes twice.
    let twice = ([0, 2, 4, 6], [0, 0, 0, 1, 1, 2]);
    assert!(!solver.refactor(&twice.0, &twice.1, &VALUES));
    assert_eq!(solver.status(), INVALID);
    // The factors are still those of the last matrix.
    let mut x = [3.0, 19.0, 7.0];
    assert!(solver.solve(&mut x, false));
    assert_near(&x, &[1.0, 2.0, 3.0]);
}

/// As a matrix whose zeros were not stored when it was analyzed.
#[test]
fn entries_that_were_not_analyzed_are_taken() {
    let api = real();
    // The identity, three blocks; then a ring, which is one; then two blocks with an entry above.
    let ring = (
        [0, 2, 4, 6],
        [0, 1, 1, 2, 0, 2],
        [4.0, 1.0, 4.0, 1.0, 1.0, 4.0],
    );
    let two = (
        [0, 2, 4, 6],
        [0, 1, 0, 1, 0, 2],
        [4.0, 1.0, 1.0, 4.0, 1.0, 4.0],
    );
    for factors_first in [true, false] {
        let mut solver = Solver::new(&api);
        let identity = ([0, 1, 2, 3], [0, 1, 2]);
        assert!(solver.analyze(&identity.0, &identity.1));
        if factors_first {
            assert!(solver.factor(&identity.0, &identity.1, &[1.0; 3]));
            assert!(solver.refactor(&ring.0, &ring.1, &ring.2));
        } else {
            assert!(solver.factor(&ring.0, &ring.1, &ring.2));
        }
        let mut x = [7.0, 9.0, 14.0];
        assert!(solver.solve(&mut x, false));
        assert_near(&x, &[1.0, 2.0, 3.0]);
        solver.ask(&ring.0, &ring.1, &ring.2);
        // Circulant: ‖A‖₁ = 5 and ‖A⁻¹‖₁ = (16 + 4 + 1)/65.
        assert!((solver.common.condest - 5.0 * 21.0 / 65.0).abs() < 1e-14);
        // SAFETY: the object is there.
        let sizes = |solver: &Solver<'_, i32>| unsafe {
            let numeric = &*solver.numeric;
            (numeric.nblocks, numeric.nzoff, numeric.lnz, numeric.unz)
        };
        assert_eq!((sizes(&solver).0, sizes(&solver).1), (1, 0));
        assert!(solver.refactor(&two.0, &two.1, &two.2));
        let mut x = [9.0, 9.0, 12.0];
        assert!(solver.solve(&mut x, false));
        assert_near(&x, &[1.0, 2.0, 3.0]);
        // And what was analyzed, as a part of that.
        assert!(solver.refactor(&identity.0, &identity.1, &[2.0; 3]));
        let mut x = [2.0, 4.0, 6.0];
        assert!(solver.solve(&mut x, true));
        assert_near(&x, &[1.0, 2.0, 3.0]);
        assert!(solver.common.memusage > 0);
    }
    // From scratch the second of them has two blocks, and so it has here.
    let mut solver = Solver::new(&api);
    assert!(solver.analyze(&[0, 1, 2, 3], &[0, 1, 2]) && solver.factor(&two.0, &two.1, &two.2));
    let place = |of: *mut i32, which: i32| -> i32 {
        // SAFETY: there are three numbers.
        let list = unsafe { std::slice::from_raw_parts(of, 3) };
        list.iter().position(|&k| k == which).unwrap() as i32
    };
    // SAFETY: the objects are there.
    let (symbolic, numeric) = unsafe { (&*solver.symbolic, &*solver.numeric) };
    if place(symbolic.q, 2) > 0 {
        assert_eq!((numeric.nblocks, numeric.nzoff), (2, 1));
        // SAFETY: there is one entry.
        let (row, value) = unsafe { (*numeric.offi, *numeric.offx.cast::<f64>()) };
        assert_eq!((row, value), (place(numeric.pnum, 0), 0.25));
    } else {
        // The order was made for the identity, and the column comes first: nothing is above a block.
        assert_eq!((numeric.nblocks, numeric.nzoff), (1, 0));
    }
}

#[test]
fn a_pivot_that_vanishes_is_searched_anew() {
    let api = real();
    let mut solver = Solver::new(&api);
    // 2 1; 1 1 has its pivots on the diagonal; 0 1; 1 1 cannot.
    let (ptr, idx) = ([0, 2, 4], [0, 1, 0, 1]);
    assert!(solver.analyze(&ptr, &idx) && solver.factor(&ptr, &idx, &[2.0, 1.0, 1.0, 1.0]));
    assert_eq!(solver.common.noffdiag, 0);
    assert!(solver.refactor(&ptr, &idx, &[0.0, 1.0, 1.0, 1.0]));
    assert_eq!((solver.status(), solver.common.numerical_rank), (OK, 2));
    assert_ne!(solver.common.noffdiag, 0);
    let mut x = [2.0, 3.0];
    assert!(solver.solve(&mut x, false));
    assert_near(&x, &[1.0, 2.0]);
    // The first row of the factors is the second of A now, and U has what L·U needs.
    // SAFETY: the object is there, and has two numbers in each array.
    let (pnum, udiag) = unsafe {
        let numeric = &*solver.numeric;
        let udiag = numeric.udiag.cast::<f64>();
        (
            [*numeric.pnum, *numeric.pnum.add(1)],
            [*udiag, *udiag.add(1)],
        )
    };
    assert_eq!((pnum, udiag), ([1, 0], [1.0, 1.0]));
    // Growth: the old pivots would lose all digits.
    let mut solver = Solver::new(&api);
    assert!(solver.analyze(&ptr, &idx) && solver.factor(&ptr, &idx, &[2.0, 1.0, 1.0, 1.0]));
    assert!(solver.refactor(&ptr, &idx, &[1e-20, 1.0, 1.0, 1.0]));
    let mut x = [2.0, 3.0];
    assert!(solver.solve(&mut x, false));
    assert_near(&x, &[1.0, 2.0]);
}

#[test]
fn a_singular_matrix_halts_or_goes_on() {
    let api = real();
    let (ptr, idx, singular) = ([0, 2, 4], [0, 1, 0, 1], [1.0, 2.0, 2.0, 4.0]);
    let mut solver = Solver::new(&api);
    assert!(solver.analyze(&ptr, &idx));
    assert!(!solver.factor(&ptr, &idx, &singular));
    assert_eq!(
        (solver.status(), solver.common.numerical_rank),
        (SINGULAR, 1)
    );
    let column = solver.common.singular_col;
    assert!((0..2).contains(&column));
    // What klu_rcond and its kin say of no factors.
    solver.ask(&ptr, &idx, &singular);
    assert_eq!((solver.common.rcond, solver.common.rgrowth), (0.0, 0.0));
    assert_eq!(
        (solver.common.condest, solver.common.flops),
        (f64::INFINITY, -1.0)
    );
    solver.common.halt_if_singular = 0;
    assert!(solver.factor(&ptr, &idx, &singular));
    assert_eq!(
        (solver.status(), solver.common.singular_col),
        (SINGULAR, column)
    );
    let mut x = [1.0, 1.0];
    assert!(solver.solve(&mut x, false));
    assert!(x.iter().all(|x| x.is_nan()), "{x:?}");
    // The next values have pivots.
    assert!(solver.refactor(&ptr, &idx, &[1.0, 2.0, 2.0, 5.0]));
    assert_eq!(solver.status(), OK);
    let mut x = [5.0, 12.0];
    assert!(solver.solve(&mut x, false));
    assert_near(&x, &[1.0, 2.0]);
    solver.common.halt_if_singular = 1;
    assert!(!solver.refactor(&ptr, &idx, &singular));
    assert_eq!(solver.status(), SINGULAR);
    assert!(solver.refactor(&ptr, &idx, &[1.0, 2.0, 2.0, 5.0]));
}

#[test]
fn structural_rank_is_told_and_the_column_without_a_pivot() {
    let api = real();
    // The last row and column are empty, and the first two columns are one entry wide.
    let (ptr, idx) = ([0, 2, 4, 4], [0, 1, 0, 1]);
    let mut solver = Solver::new(&api);
    assert!(solver.analyze(&ptr, &idx));
    assert_eq!((solver.status(), solver.common.structural_rank), (OK, 2));
    // SAFETY: the object is there.
    let symbolic = unsafe { &*solver.symbolic };
    assert_eq!((symbolic.structural_rank, symbolic.nblocks), (2, 2));
    assert!(!solver.factor(&ptr, &idx, &[2.0, 1.0, 1.0, 3.0]));
    assert_eq!((solver.status(), solver.common.singular_col), (SINGULAR, 2));
    solver.common.btf = 0;
    // SAFETY: the object is of this library.
    unsafe { (api.free_symbolic)(&mut solver.symbolic, &mut *solver.common) };
    assert!(solver.analyze(&ptr, &idx));
    assert_eq!(solver.common.structural_rank, -1);
    assert!(!solver.factor(&ptr, &idx, &[2.0, 1.0, 1.0, 3.0]));
    assert_eq!((solver.status(), solver.common.singular_col), (SINGULAR, 2));
}

#[test]
fn tol_prefers_the_diagonal_and_scale_divides_rows() {
    let api = real();
    let (ptr, idx, values) = ([0, 2, 4], [0, 1, 0, 1], [1.0, 100.0, 1.0, 1.0]);
    for (tol, scale, off_diagonal) in [(0.001, 0, false), (0.5, 0, true), (0.5, 2, false)] {
        let mut solver = Solver::new(&api);
        (solver.common.tol, solver.common.scale) = (tol, scale);
        assert!(solver.analyze(&ptr, &idx) && solver.factor(&ptr, &idx, &values));
        assert_eq!(solver.common.noffdiag > 0, off_diagonal, "{tol} {scale}");
        solver.ask(&ptr, &idx, &values);
        // ‖A‖₁ = 101, and A⁻¹ = (1 −1; −100 1)/−99.
        assert!((solver.common.condest - 101.0 * 101.0 / 99.0).abs() < 1e-10);
        // U is 1 1; 0 −99, or 100 1; 0 0.99, or with rows divided by 1 and 100: 1 1; 0 −0.99.
        let rcond = [1.0 / 99.0, 0.0099, 0.99];
        let expected = rcond[usize::from(off_diagonal) + usize::from(scale == 2) * 2];
        assert!(
            (solver.common.rcond - expected).abs() < 1e-12,
            "{}",
            solver.common.rcond
        );
        // Column 1 of A over that of U.
        let growth = [1.0 / 99.0, 1.0, 1.0];
        let expected = growth[usize::from(off_diagonal) + usize::from(scale == 2) * 2];
        assert!(
            (solver.common.rgrowth - expected).abs() < 1e-12,
            "{}",
            solver.common.rgrowth
        );
        // A division, and a multiplication with a subtraction.
        assert_eq!(solver.common.flops, 3.0);
    }
}

unsafe extern "C" fn backwards(
    n: i32,
    _: *mut i32,
    _: *mut i32,
    perm: *mut i32,
    common: *mut Common<i32>,
) -> i32 {
    // SAFETY: the library passes room for n numbers, and its caller's structure.
    unsafe {
        *(*common).user_data.cast::<i32>() += 1;
        (0..n).for_each(|k| *perm.add(k as usize) = n - 1 - k);
    }
    n * n
}

unsafe extern "C" fn fails(
    _: i32,
    _: *mut i32,
    _: *mut i32,
    _: *mut i32,
    _: *mut Common<i32>,
) -> i32 {
    1
}

#[test]
fn functions_and_permutations_of_the_caller_are_followed() {
    let api = real();
    // Two blocks: 0 to 3 in a ring, and 4, which row 0 leads to.
    let (ptr, idx) = ([0, 2, 4, 6, 8, 10], [0, 1, 1, 2, 2, 3, 0, 3, 0, 4]);
    let values = [4.0, 1.0, 4.0, 1.0, 4.0, 1.0, 1.0, 4.0, 1.0, 4.0];
    let mut solver = Solver::new(&api);
    let mut calls = 0i32;
    solver.common.ordering = 3;
    assert!(!solver.analyze(&ptr, &idx));
    assert_eq!(solver.status(), INVALID);
    solver.common.user_order = Some(fails);
    assert!(
        !solver.analyze(&ptr, &idx),
        "numbers that are no permutation"
    );
    solver.common.user_order = Some(backwards);
    solver.common.user_data = (&raw mut calls).cast();
    assert!(solver.analyze(&ptr, &idx));
    assert_eq!(calls, 1);
    // SAFETY: the object is there, with five numbers in each array.
    let (q, symbolic) = unsafe {
        let symbolic = &*solver.symbolic;
        (std::slice::from_raw_parts(symbolic.q, 5).to_vec(), symbolic)
    };
    assert_eq!(
        (q, symbolic.nblocks, symbolic.lnz),
        (vec![3, 2, 1, 0, 4], 2, 17.0)
    );
    assert!(solver.factor(&ptr, &idx, &values));
    let mut x = [5.0, 5.0, 5.0, 5.0, 4.0];
    x[0] = 6.0;
    assert!(solver.solve(&mut x, false));
    assert_near(&x, &[1.0; 5]);
    let given = |p: &[i32], btf: i32| -> Option<Vec<i32>> {
        let mut common = api.common();
        common.btf = btf;
        // SAFETY: the arrays are a matrix and numbers of its order.
        unsafe {
            let (ptr, idx, p) = (ptr.as_ptr(), idx.as_ptr(), p.as_ptr());
            let mut found = (api.analyze_given)(5, ptr, idx, p, p, &mut common);
            let rows = found.as_ref().map(|symbolic| {
                assert_eq!((symbolic.ordering, symbolic.structural_rank), (2, -1));
                let rows = std::slice::from_raw_parts(symbolic.p, 5).to_vec();
                [vec![symbolic.nblocks], rows].concat()
            });
            (api.free_symbolic)(&mut found, &mut common);
            assert_eq!(
                (found, common.memusage),
                (ptr::null_mut::<Symbolic<i32>>(), 0)
            );
            rows
        }
    };
    assert_eq!(given(&[2, 0, 4, 1, 3], 0), Some(vec![1, 2, 0, 4, 1, 3]));
    // The block of 4 comes last, the order within the other one stays.
    assert_eq!(given(&[2, 0, 4, 1, 3], 1), Some(vec![2, 2, 0, 1, 3, 4]));
    assert_eq!(given(&[2, 0, 2, 1, 3], 1), None);
}

#[test]
fn objects_of_another_kind_are_refused() {
    let real = real();
    let complex: Api<i32> = Api::load(&ours(), true).unwrap();
    let long: Api<i64> = Api::load(&ours(), false).unwrap();
    let mut solver = factorized(&real);
    let values: Vec<f64> = VALUES.iter().flat_map(|&value| [value, 1.0]).collect();
    let mut of_complex = Solver::new(&complex);
    assert!(of_complex.analyze(&PTR, &IDX) && of_complex.factor(&PTR, &IDX, &values));
    let mut x = [1.0; 6];
    // SAFETY: pointers are to objects of this library, whatever their kind.
    unsafe {
        let (symbolic, numeric) = (solver.symbolic, of_complex.numeric);
        let solved = (real.solve)(symbolic, numeric, 3, 1, x.as_mut_ptr(), &mut *solver.common);
        assert_eq!((solved, solver.status(), x), (0, INVALID, [1.0; 6]));
        let mut common = long.common();
        let symbolic = solver.symbolic.cast::<Symbolic<i64>>();
        let refused = (long.flops)(symbolic, solver.numeric.cast(), &mut common);
        assert_eq!((refused, common.status), (0, INVALID));
        // Either function frees either kind, once.
        let freed = (real.free_numeric)(&mut of_complex.numeric, &mut *of_complex.common);
        assert_eq!((freed, of_complex.numeric), (1, ptr::null_mut()));
        let mut again = numeric;
        assert_eq!((real.free_numeric)(&mut again, &mut *of_complex.common), 0);
        assert_eq!(of_complex.status(), INVALID);
        // An analysis that orders otherwise.
        let mut other = Solver::new(&real);
        let (p, common) = ([2, 1, 0], &mut *other.common);
        let (ptr, idx, p) = (PTR.as_ptr(), IDX.as_ptr(), p.as_ptr());
        other.symbolic = (real.analyze_given)(3, ptr, idx, p, p, common);
        assert!(!other.symbolic.is_null());
        let refused = (real.rcond)(other.symbolic, solver.numeric, common);
        assert_eq!((refused, i64::from(common.status)), (0, INVALID));
    }
}

#[test]
fn complex_systems_are_solved_with_the_transpose_and_its_conjugate() {
    let api: Api<i64> = Api::load(&ours(), true).unwrap();
    // (1+i 2; 0 i): column by column, with x = (1, i).
    let (ptr, idx) = ([0i64, 1, 3], [0i64, 0, 1]);
    let values = [1.0, 1.0, 2.0, 0.0, 0.0, 1.0];
    let mut solver = Solver::new(&api);
    assert!(solver.analyze(&ptr, &idx) && solver.factor(&ptr, &idx, &values));
    let mut x = [1.0, 3.0, -1.0, 0.0];
    assert!(solver.solve(&mut x, false));
    assert_near(&x, &[1.0, 0.0, 0.0, 1.0]);
    let mut x = [1.0, 1.0, 1.0, 0.0];
    assert!(solver.solve(&mut x, true));
    assert_near(&x, &[1.0, 0.0, 0.0, 1.0]);
    let mut x = [1.0, -1.0, 3.0, 0.0];
    // SAFETY: the objects are of this library.
    let solved = unsafe {
        let (symbolic, numeric) = (solver.symbolic, solver.numeric);
        (api.tsolve_conjugate)(
            symbolic,
            numeric,
            2,
            1,
            x.as_mut_ptr(),
            1,
            &mut *solver.common,
        )
    };
    assert_eq!(solved, 1);
    assert_near(&x, &[1.0, 0.0, 0.0, 1.0]);
}
