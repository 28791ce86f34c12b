//! What is asked of factors: `klu_rcond`, `klu_condest`, `klu_rgrowth`, `klu_flops`, `klu_sort`, `klu_extract`.

use std::sync::{Arc, MutexGuard};

use luge_solve::condition::inverse_norm1;

use crate::call::{Control, Failure, Field, Outcome, guarded};
use crate::factors::Factors;
use crate::handle::{Held, NumericObject, Width, numeric, symbolic};
use crate::input::{Given, array, array_mut, compared};
use crate::layout::{Common, Integer, Numeric, SINGULAR, Symbolic};
use crate::solve::System;

/// An analysis and factors of a caller.
pub(crate) type Pair<I> = (*const Symbolic<I>, *const Numeric<I>);

/// The factors of a pair that belong together.
fn object<I: Width, F: Held>((of, factors): Pair<I>) -> Outcome<Arc<NumericObject<I, F>>> {
    let symbolic = symbolic(of)?;
    let numeric = numeric::<I, F>(factors)?;
    let belong = numeric.lock().analysis.is_same_order(&symbolic.analysis);
    if belong {
        Ok(numeric)
    } else {
        Err(Failure::Invalid)
    }
}

/// Answers with what `of` finds for the factors, or with `of_singular` where they have no pivots, or are null as `klu_factor` leaves
/// them then.
///
/// # Safety
///
/// `common` as [`Control::new`].
unsafe fn answer<I: Width, F: Held>(
    pair: Pair<I>,
    common: *mut Common<I>,
    of_singular: f64,
    put: impl Fn(&mut Common<I>, f64),
    of: impl FnOnce(MutexGuard<'_, Factors<I, F>>) -> Outcome<Option<f64>>,
) -> I {
    // SAFETY: as the caller says.
    unsafe {
        guarded(common, I::of_code(0), |control: Control<I>| {
            let found = if pair.1.is_null() {
                symbolic(pair.0)?;
                None
            } else {
                of(object(pair)?.lock())?
            };
            if found.is_none() {
                control.set_status(SINGULAR);
            }
            control.set(|common| put(common, found.unwrap_or(of_singular)));
            Ok(I::of_code(1))
        })
    }
}

impl<I: Integer, F: Field> Factors<I, F> {
    /// The smallest and the largest absolute value of a pivot, unless one is zero or no number.
    fn pivot_range(&self) -> Option<[f64; 2]> {
        let pivots = self.lu()?.columns().pivots().iter();
        let mut range = [f64::INFINITY, 0.0f64];
        for size in pivots.map(|pivot| pivot.modulus()) {
            if size == 0.0 || size.is_nan() {
                return None;
            }
            range = [range[0].min(size), range[1].max(size)];
        }
        Some(range)
    }

    /// The reciprocal pivot growth: the smallest quotient of the largest entry of a column of the scaled matrix, within its block,
    /// and that of the column of U.
    fn reciprocal_growth(&self, values: &[F]) -> Option<f64> {
        let lu = self.lu()?;
        let (columns, scale) = (self.analysis.columns(), self.scale.as_deref());
        let mut place = vec![0u32; self.analysis.n()];
        for (k, &row) in self.rows.iter().enumerate() {
            place[row as usize] = k as u32;
        }
        let mut least = 1.0f64;
        for block in self.analysis.blocks().filter(|block| block.len() > 1) {
            for j in block.clone() {
                let entries = columns.range(self.analysis.cols[j] as usize);
                let of_column = entries.filter_map(|p| {
                    let row = columns.idx[p].to_i64() as usize;
                    let size = values[p].modulus() / scale.map_or(1.0, |scale| scale[row]);
                    (place[row] as usize >= block.start).then_some(size)
                });
                let above = lu.columns().upper(j).1.iter();
                let of_upper = above.map(|value| value.modulus());
                let pivot = lu.columns().pivots()[j].modulus();
                let upper = of_upper.fold(pivot, f64::max);
                if upper > 0.0 {
                    least = least.min(of_column.fold(0.0, f64::max) / upper);
                }
            }
        }
        Some(least)
    }

    /// Hager's and Higham's estimate of ‖A‖₁·‖A⁻¹‖₁.
    fn condition(&mut self, ptr: &[I], values: &[F]) -> Outcome<Option<f64>> {
        if self.pivot_range().is_none() {
            return Ok(None);
        }
        let n = self.analysis.n();
        let place = |p: I| p.to_i64() as usize;
        let columns = ptr
            .windows(2)
            .map(|ends| &values[place(ends[0])..place(ends[1])]);
        let sums = columns.map(|column| column.iter().map(|value| value.modulus()).sum());
        let norm = sums.fold(0.0, f64::max);
        let this = std::cell::RefCell::new(self);
        let solve = |x: &mut [F], system| this.borrow_mut().solve(&mut [x], system);
        let inverse = inverse_norm1(
            n,
            |x: &mut [F]| solve(x, System::Plain),
            |x: &mut [F]| solve(x, System::Transpose),
        )?;
        Ok(Some(norm * inverse.norm1))
    }
}

/// `klu_rcond`: the smallest pivot over the largest.
///
/// # Safety
///
/// `common` as [`Control::new`].
pub(crate) unsafe fn rcond<I: Width, F: Held>(pair: Pair<I>, common: *mut Common<I>) -> I {
    let put = |common: &mut Common<I>, rcond| common.rcond = rcond;
    // SAFETY: as the caller says.
    unsafe {
        answer::<I, F>(pair, common, 0.0, put, |factors| {
            Ok(factors.pivot_range().map(|[least, most]| least / most))
        })
    }
}

/// `klu_condest`: an estimate of the condition number of A in the 1-norm.
///
/// # Safety
///
/// `common` as [`Control::new`]; the arrays lead to n + 1 numbers and to the values.
pub(crate) unsafe fn condest<I: Width, F: Held>(
    (ap, ax): (*const I, *const F),
    pair: Pair<I>,
    common: *mut Common<I>,
) -> I {
    let put = |common: &mut Common<I>, condest| common.condest = condest;
    // SAFETY: as the caller says.
    unsafe {
        answer::<I, F>(pair, common, f64::INFINITY, put, |mut factors| {
            let ptr = array(ap, factors.analysis.n() + 1)?;
            let nnz = ptr[ptr.len() - 1].to_usize().ok_or(Failure::Invalid)?;
            if ptr[0].to_i64() != 0 || !ptr.is_sorted() {
                return Err(Failure::Invalid);
            }
            factors.condition(ptr, array(ax, nnz)?)
        })
    }
}

/// `klu_rgrowth`: the reciprocal pivot growth.
///
/// # Safety
///
/// `common` as [`Control::new`]; the arrays as [`compared`].
pub(crate) unsafe fn rgrowth<I: Width, F: Held>(
    matrix: (*const I, *const I, *const F),
    pair: Pair<I>,
    common: *mut Common<I>,
) -> I {
    let put = |common: &mut Common<I>, rgrowth| common.rgrowth = rgrowth;
    // SAFETY: as the caller says.
    unsafe {
        answer::<I, F>(pair, common, 0.0, put, |factors| {
            match compared(factors.analysis.columns(), matrix)? {
                Given::Values(values) => Ok(factors.reciprocal_growth(&values)),
                Given::Other(..) => Err(Failure::Invalid),
            }
        })
    }
}

/// `klu_flops`: operations of the factorization.
///
/// # Safety
///
/// `common` as [`Control::new`].
pub(crate) unsafe fn flops<I: Width, F: Held>(pair: Pair<I>, common: *mut Common<I>) -> I {
    // SAFETY: as the caller says.
    unsafe {
        guarded(common, I::of_code(0), |control| {
            let unknown = I::EMPTY.to_i64() as f64;
            control.set(|common| common.flops = unknown);
            let object = object::<I, F>(pair)?;
            let factors = object.lock();
            let flops = factors.lu().map_or(unknown, |lu| lu.flops());
            control.set(|common| common.flops = flops);
            Ok(I::of_code(1))
        })
    }
}

/// `klu_sort`: nothing has to be done, as `klu_extract` gives sorted columns.
///
/// # Safety
///
/// `common` as [`Control::new`].
pub(crate) unsafe fn sort<I: Width, F: Held>(pair: Pair<I>, common: *mut Common<I>) -> I {
    // SAFETY: as the caller says.
    unsafe {
        guarded(common, I::of_code(0), |_| {
            object::<I, F>(pair)?;
            Ok(I::of_code(1))
        })
    }
}

/// Where a matrix goes that `klu_extract` gives, each array only if it is not null: starts of columns, rows, values. Complex values
/// have their real and their imaginary parts apart.
pub(crate) struct Triangle<I> {
    pub ptr: *mut I,
    pub idx: *mut I,
    pub values: [*mut f64; 2],
}

impl<I: Integer> Triangle<I> {
    /// Writes the columns, whose rows are sorted here.
    ///
    /// # Safety
    ///
    /// The arrays that are not null have room for n + 1 numbers, and for one for each entry.
    unsafe fn write<F: Field>(
        &self,
        n: usize,
        nnz: usize,
        column: impl Fn(usize, &mut Vec<(u32, F)>),
    ) -> Outcome {
        // SAFETY: as the caller says.
        let (mut ptr, mut idx, mut values) = unsafe {
            let values = self.values.map(|part| wanted(part, nnz));
            (wanted(self.ptr, n + 1)?, wanted(self.idx, nnz)?, values)
        };
        let mut entries = Vec::new();
        let mut end = 0;
        for j in 0..=n {
            if let Some(ptr) = &mut ptr {
                ptr[j] = I::of(end);
            }
            if j == n {
                break;
            }
            entries.clear();
            column(j, &mut entries);
            entries.sort_unstable_by_key(|&(row, _)| row);
            for &(row, value) in &entries {
                if let Some(idx) = &mut idx {
                    idx[end] = I::of(row as usize);
                }
                let mut part = 0;
                // The components of a number, one after another.
                value.map_components(|component| {
                    if let Some(Ok(Some(values))) = values.get_mut(part) {
                        values[end] = component;
                    }
                    part += 1;
                    component
                });
                end += 1;
            }
        }
        values.into_iter().try_for_each(|part| part.map(|_| ()))
    }
}

/// Room of the caller, unless the pointer is null.
///
/// # Safety
///
/// `at` is null, not aligned, or room for `len` values.
unsafe fn wanted<'a, V>(at: *mut V, len: usize) -> Outcome<Option<&'a mut [V]>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    unsafe { array_mut(at, len) }.map(Some)
}

/// Where `klu_extract` writes to: P, Q, Rs and R.
pub(crate) struct Places<I> {
    pub p: *mut I,
    pub q: *mut I,
    pub rs: *mut f64,
    pub r: *mut I,
}

/// `klu_extract`: L, U and the entries above the blocks as matrices, and the permutations: L·U + F = R⁻¹·A(P, Q).
///
/// # Safety
///
/// `common` as [`Control::new`]; arrays that are not null have the room that klu.h asks for.
pub(crate) unsafe fn extract<I: Width, F: Held>(
    (factors, of): (*const Numeric<I>, *const Symbolic<I>),
    [l, u, f]: [Triangle<I>; 3],
    places: Places<I>,
    common: *mut Common<I>,
) -> I {
    // SAFETY: as the caller says.
    unsafe {
        guarded(common, I::of_code(0), |_| {
            let object = object::<I, F>((of, factors))?;
            let factors = object.lock();
            let lu = factors.lu().ok_or(Failure::Singular)?;
            let (n, columns) = (factors.analysis.n(), lu.columns());
            let put = |(idx, values): (&[u32], &[F]), entries: &mut Vec<(u32, F)>| {
                entries.extend(idx.iter().copied().zip(values.iter().copied()));
            };
            l.write(n, columns.lnz() + n, |j, entries| {
                entries.push((j as u32, F::one()));
                put(columns.lower(j), entries);
            })?;
            u.write(n, columns.unz() + n, |j, entries| {
                put(columns.upper(j), entries);
                entries.push((j as u32, columns.pivots()[j]));
            })?;
            f.write(n, factors.analysis.num_above, |j, entries| {
                entries.extend(lu.above(j).map(|(i, value)| (i as u32, value)));
            })?;
            let number = |&i: &u32| I::of(i as usize);
            let lists = [
                (places.p, &factors.rows),
                (places.q, &factors.analysis.cols),
            ];
            for (to, from) in lists {
                if let Some(to) = wanted(to, n)? {
                    to.iter_mut()
                        .zip(from)
                        .for_each(|(to, from)| *to = number(from));
                }
            }
            if let Some(rs) = wanted(places.rs, n)? {
                match &factors.scale {
                    Some(scale) => {
                        let in_order = factors.rows.iter().map(|&row| scale[row as usize]);
                        rs.iter_mut()
                            .zip(in_order)
                            .for_each(|(to, from)| *to = from);
                    }
                    None => rs.fill(1.0),
                }
            }
            let starts = &factors.analysis.block_ptr;
            if let Some(r) = wanted(places.r, starts.len())? {
                r.iter_mut()
                    .zip(starts)
                    .for_each(|(to, &from)| *to = I::of(from));
            }
            Ok(I::of_code(1))
        })
    }
}
