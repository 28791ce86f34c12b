//! What callers call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::arrays::{Entries, NUM_RINFO, array, array_mut, guarded, number, size};
use crate::controls::{CNTL, ICNTL, NUM_CNTL, NUM_ICNTL, Numeric, Order, Signs};
use crate::failure::{Failure, saturated};
use crate::image::{Matrix, Pattern, integers, reals};
use crate::registry::{self, Array};
use crate::system::{Factorized, Job, System};

/// INFO(1) of a matrix without full rank.
const RANK_DEFICIENT: i32 = 4;

/// INFO(1) where pivots have both signs, and ICNTL(7) is 3.
const BOTH_SIGNS: i32 = 5;

/// How many threads work on a system.
static THREADS: AtomicUsize = AtomicUsize::new(1);

/// Says how many threads may work on each system that is analyzed from now on; at first it is one. Numbers below 1 count as
/// 1, those above 1024 as that. Factors are the same, bit for bit, for any number.
#[unsafe(no_mangle)]
pub extern "C" fn luge_hsl_set_threads(count: i32) {
    let count = usize::try_from(count).unwrap_or(1);
    THREADS.store(
        count.clamp(1, luge::Options::MAX_THREADS),
        Ordering::Relaxed,
    );
}

/// Sets CNTL and ICNTL to their defaults.
///
/// `cntl`: output, 5 reals: the threshold u = 0.01, what is zero = 10⁻²⁰, and three that choose nothing. `icntl`: output, 20
/// integers.
///
/// # Safety
///
/// Addresses are null or those of as many numbers, for the caller alone. Null is passed over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ma57id_(cntl: *mut f64, icntl: *mut i32) {
    // SAFETY: the caller passes null or so many numbers.
    let (cntl, icntl) = unsafe { (array_mut(cntl, NUM_CNTL), array_mut(icntl, NUM_ICNTL)) };
    if let Ok(cntl) = cntl {
        cntl.copy_from_slice(&CNTL);
    }
    if let Ok(icntl) = icntl {
        icntl.copy_from_slice(&ICNTL);
    }
}

/// Takes the pattern of a symmetric matrix.
///
/// `n`: its order, at least 1. `ne`: number of triplets. `irn`, `jcn`: `ne` rows and columns, from 1; entries of either triangle,
/// each pair once; entries at one place are added up, and those with an index out of range are ignored. `keep`: output of
/// `lkeep` integers, at least 5 n + ne + max(n, ne) + 42; with ICNTL(6) = 1 also input: KEEP(i) is the position of row i in the
/// order of elimination. `iwork` is not used. `icntl`: 20 integers, of which ICNTL(6) says how the matrix is ordered: 0, 2 and
/// 3 by minimum degree, 1 as KEEP says, 4 by nested dissection, otherwise by what is predicted to be faster. `info`: output, 40
/// integers: INFO(3) and INFO(4) count triplets out of range and at the place of another one, INFO(9) and INFO(10) are what
/// LFACT and LIFACT have to be. `rinfo`: output, 20 reals, 0.
///
/// INFO(1): 1 if there are indices out of range, 2 if there are several triplets at a place, 3 if both; -1 for n, -2 for ne, -9 for
/// the permutation, INFO(2) being its first wrong entry, -14 for an address that is null, -15 for lkeep.
///
/// # Safety
///
/// Addresses are null or those of arrays of these lengths, which no other thread changes meanwhile; outputs overlap nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ma57ad_(
    n: *const i32,
    ne: *const i32,
    irn: *const i32,
    jcn: *const i32,
    lkeep: *const i32,
    keep: *mut i32,
    _iwork: *mut i32,
    icntl: *const i32,
    info: *mut i32,
    rinfo: *mut f64,
) {
    let analyze = || {
        // SAFETY: the caller passes null or arrays of the lengths that are checked here.
        let (n, ne, lkeep, icntl) = unsafe {
            let n = size(number(n)?, 1, Failure::ORDER)?;
            let ne = size(number(ne)?, 0, Failure::ENTRIES)?;
            (
                n,
                ne,
                keep_of(number(lkeep)?, n, ne)?,
                array(icntl, NUM_ICNTL)?,
            )
        };
        // SAFETY: as above.
        let (irn, jcn, keep) =
            unsafe { (array(irn, ne)?, array(jcn, ne)?, array_mut(keep, lkeep)?) };
        let order = Order::of(icntl);
        let length = integers(n, ne, order);
        let lengths = [reals(ne), length].map(i32::try_from);
        let [Ok(lfact), Ok(lifact)] = lengths else {
            return Err(Failure::new(Failure::ENTRIES, saturated(ne)));
        };
        let position = match order {
            Order::Given => keep[..n].to_vec(),
            _ => Vec::new(),
        };
        let pattern = Pattern {
            n,
            irn,
            jcn,
            order,
            position: &position,
        };
        let (triangle, given, survey) = pattern.sort()?;
        let id = registry::next();
        registry::keep(id, System::new(triangle, order, given, threads()));
        registry::place(id, Array::Keep, bytes_of(keep));
        pattern.write(id, keep);
        let flag = i32::from(survey.out_of_range > 0) + 2 * i32::from(survey.duplicates > 0);
        let mut entries: Entries = (3..=40).map(|at| (at, 0)).collect();
        entries.extend([
            (1, flag),
            (3, saturated(survey.out_of_range)),
            (4, saturated(survey.duplicates)),
            (9, lfact),
            (10, lifact),
        ]);
        Ok(entries)
    };
    // SAFETY: the caller passes null or as many numbers.
    unsafe {
        clear(rinfo);
        guarded(info, analyze);
    }
}

/// Factorizes a matrix of the pattern in KEEP.
///
/// `n`, `ne`, `lkeep`: as given to [`ma57ad_`]. `a`: `ne` values, in the order of the triplets. `fact`: output of `lfact` reals,
/// at least INFO(9) of [`ma57ad_`]. `ifact`: output of `lifact` integers, at least INFO(10). `keep`: as [`ma57ad_`] left it.
/// `iwork` is not used. `icntl`: ICNTL(7) is 1, 2 if pivots of both signs are an error, or 3 if they are to be told of;
/// ICNTL(15) = 1 scales the matrix. `cntl`: CNTL(1) is the threshold u, from 0 to 0.5: entries of L are at most 1/u; CNTL(2) is
/// the magnitude up to which all that is left of a column is zero, or if that is below ε times the largest entry, nothing but
/// zeros is. `info`: output; INFO(24) is the number of negative eigenvalues, INFO(25) the rank, INFO(26) with ICNTL(7) = 3 the
/// number of eigenvalues of the rarer sign. `rinfo`: output, 20 reals, 0.
///
/// INFO(1): 4 if the rank is below n: consistent systems can be solved; or there are no pivots at all, and then no factors. 5
/// with ICNTL(7) = 3 for pivots of both signs. -1 and -2 if n and ne are not those of KEEP or out of range; -3 and -4 if `fact` or
/// `ifact` are too short, INFO(17) or INFO(18) being what suffices; -5 for a value that is not finite in column INFO(2); -6 for
/// pivots of both signs; -10 for ICNTL(7); -14; -15 for lkeep.
///
/// # Safety
///
/// As for [`ma57ad_`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ma57bd_(
    n: *const i32,
    ne: *const i32,
    a: *const f64,
    fact: *mut f64,
    lfact: *const i32,
    ifact: *mut i32,
    lifact: *const i32,
    lkeep: *const i32,
    keep: *const i32,
    _iwork: *mut i32,
    icntl: *const i32,
    cntl: *const f64,
    info: *mut i32,
    rinfo: *mut f64,
) {
    let factorize = || {
        // SAFETY: the caller passes null or arrays of the lengths that are checked here.
        let (n, ne, keep, icntl, cntl) = unsafe {
            let n = size(number(n)?, 1, Failure::ORDER)?;
            let ne = size(number(ne)?, 0, Failure::ENTRIES)?;
            let keep = array(keep, keep_of(number(lkeep)?, n, ne)?)?;
            (
                n,
                ne,
                keep,
                array(icntl, NUM_ICNTL)?,
                array(cntl, NUM_CNTL)?,
            )
        };
        let controls = Numeric::of(icntl, cntl)?;
        let id = Pattern::id(keep, n, ne).ok_or(Failure::state())?;
        let length = integers(n, ne, Order::of_code(keep[8]));
        // SAFETY: as above.
        let (a, fact, ifact) = unsafe {
            let lfact = long_enough(number(lfact)?, reals(ne), Failure::REALS)?;
            let lifact = long_enough(number(lifact)?, length, Failure::INTEGERS)?;
            (
                array(a, ne)?,
                array_mut(fact, lfact)?,
                array_mut(ifact, lifact)?,
            )
        };
        let system = found(id, || Pattern::read(keep, n, ne))?;
        registry::place(id, Array::Keep, bytes_of(keep));
        registry::place(id, Array::Fact, bytes_of(fact));
        registry::place(id, Array::Ifact, bytes_of(ifact));
        let matrix = Matrix {
            id,
            generation: registry::next(),
            controls,
        };
        matrix.write(a, fact);
        ifact[..length].copy_from_slice(&keep[..length]);
        with(id, &system, |system| {
            let factorized = system.factorize(a, &controls)?;
            system.generation = matrix.generation;
            told(n, &factorized, controls.signs)
        })
    };
    // SAFETY: the caller passes null or as many numbers.
    unsafe {
        clear(rinfo);
        guarded(info, factorize);
    }
}

/// Solves with the factors of the matrix in FACT and IFACT: A = F·D·Fᵀ, where F is the unit lower triangle with its rows, scaled,
/// where they are in A.
///
/// `job`: 1 or less for A·X = B, 2 for F·X = B, 3 for D·X = B, 4 or more for Fᵀ·X = B; with 2 to 4 the entry of a pivot is in the
/// place of its column. `n`: the order. `fact`, `ifact`: of `lfact` reals and `lifact` integers, as [`ma57bd_`] left them.
/// `nrhs`: number of right-hand sides, at least 1. `rhs`: input and output, `nrhs` columns of n reals, each `lrhs` reals behind
/// the one before. `work` has `lwork` >= n · nrhs reals. `iwork` and `icntl` are not used. `info`: output, INFO(1) and INFO(2)
/// alone.
///
/// One pass of triangular solves is all: callers who need more refine by themselves, as Ipopt does.
///
/// INFO(1): -1 if n is not that of FACT or out of range, -5 if [`ma57bd_`] gave that, -11 for lrhs, -14, -16 for nrhs, -17 for
/// lwork, INFO(2) being what suffices.
/// If numbers are not finite, or there are no factors, `rhs` is filled with NaN.
///
/// # Safety
///
/// As for [`ma57ad_`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ma57cd_(
    job: *const i32,
    n: *const i32,
    fact: *const f64,
    lfact: *const i32,
    ifact: *const i32,
    lifact: *const i32,
    nrhs: *const i32,
    rhs: *mut f64,
    lrhs: *const i32,
    work: *mut f64,
    lwork: *const i32,
    _iwork: *mut i32,
    _icntl: *const i32,
    info: *mut i32,
) {
    let solve = || {
        // SAFETY: the caller passes null or numbers.
        let (job, n, nrhs, lrhs, lwork) = unsafe {
            let n = size(number(n)?, 1, Failure::ORDER)?;
            let nrhs = size(number(nrhs)?, 1, Failure::SIDES)?;
            let lrhs = size(number(lrhs)?, n, Failure::LEADING)?;
            (Job::of(number(job)?), n, nrhs, lrhs, number(lwork)?)
        };
        let needed = n.saturating_mul(nrhs);
        if usize::try_from(lwork).is_ok_and(|lwork| lwork < needed) || lwork < 0 {
            return Err(Failure::new(Failure::WORK, saturated(needed)));
        }
        // SAFETY: the caller passes null or arrays of these lengths.
        let (fact, ifact, rhs, work) = unsafe {
            let lfact = size(number(lfact)?, 0, Failure::STATE)?;
            let lifact = size(number(lifact)?, 0, Failure::STATE)?;
            let rhs = array_mut(rhs, lrhs * (nrhs - 1) + n)?;
            (
                array(fact, lfact)?,
                array(ifact, lifact)?,
                rhs,
                array_mut(work, needed)?,
            )
        };
        let solved = solve_with(fact, ifact, n, |system| {
            if lrhs == n || nrhs == 1 {
                return system.solve(job, rhs);
            }
            let columns = rhs.chunks(lrhs).map(|column| &column[..n]);
            work.chunks_exact_mut(n)
                .zip(columns)
                .for_each(|(to, from)| to.copy_from_slice(from));
            system.solve(job, work)?;
            let columns = rhs.chunks_mut(lrhs).map(|column| &mut column[..n]);
            columns
                .zip(work.chunks_exact(n))
                .for_each(|(to, from)| to.copy_from_slice(from));
            Ok(())
        });
        if solved.is_err() {
            rhs.chunks_mut(lrhs)
                .for_each(|column| column[..n].fill(f64::NAN));
        }
        solved
    };
    // SAFETY: the caller passes null or so many integers.
    unsafe { guarded(info, || solve().map(|()| Entries::new())) };
}

/// Copies FACT or IFACT to a longer array.
///
/// `ic`: 0 or less for FACT, otherwise IFACT. `fact` of `lfact` reals goes to the front of `newfac` of `lnew` reals, or `ifact` of
/// `lifact` integers to that of `newifc` of `linew` integers. `n` and `keep` are not used, nor are the arrays of the other type.
/// `info`: output, INFO(1) and INFO(2) alone.
///
/// INFO(1): -7 if the new array is shorter, INFO(2) being its length; -14.
///
/// # Safety
///
/// As for [`ma57ad_`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ma57ed_(
    _n: *const i32,
    ic: *const i32,
    _keep: *const i32,
    fact: *const f64,
    lfact: *const i32,
    newfac: *mut f64,
    lnew: *const i32,
    ifact: *const i32,
    lifact: *const i32,
    newifc: *mut i32,
    linew: *const i32,
    info: *mut i32,
) {
    let copy = || {
        // SAFETY: the caller passes null or arrays of these lengths. Ipopt passes INFO(2) as a length: all are read here.
        unsafe {
            if number(ic)? <= 0 {
                let (from, to) = copied(fact, number(lfact)?, newfac, number(lnew)?)?;
                if let Some(id) = Matrix::id(from) {
                    registry::place(id, Array::Fact, bytes_of(to));
                }
            } else {
                let (from, to) = copied(ifact, number(lifact)?, newifc, number(linew)?)?;
                if let Some(id) = Pattern::any_id(from) {
                    registry::place(id, Array::Ifact, bytes_of(to));
                }
            }
        }
        Ok(Entries::new())
    };
    // SAFETY: the caller passes null or so many integers.
    unsafe { guarded(info, copy) };
}

/// Copies `length` numbers; both arrays.
///
/// # Safety
///
/// Addresses are null or those of as many numbers, the second one's for the caller alone.
unsafe fn copied<'a, T: Copy>(
    from: *const T,
    length: i32,
    to: *mut T,
    room: i32,
) -> Result<(&'a [T], &'a [T]), Failure> {
    let length = size(length, 0, Failure::SHORTER)?;
    let room = size(room, length, Failure::SHORTER)?;
    // SAFETY: as this function requires.
    let (from, to) = unsafe { (array(from, length)?, array_mut(to, room)?) };
    to[..length].copy_from_slice(from);
    Ok((from, to))
}

/// Sets RINFO to 0.
///
/// # Safety
///
/// `rinfo` is null or the address of 20 reals.
unsafe fn clear(rinfo: *mut f64) {
    // SAFETY: as this function requires.
    if let Ok(rinfo) = unsafe { array_mut(rinfo, NUM_RINFO) } {
        rinfo.fill(0.0);
    }
}

fn threads() -> usize {
    THREADS.load(Ordering::Relaxed)
}

fn bytes_of<T>(array: &[T]) -> registry::Place {
    let range = array.as_ptr_range();
    range.start as usize..range.end as usize
}

/// The length of KEEP.
fn keep_of(lkeep: i32, n: usize, ne: usize) -> Result<usize, Failure> {
    size(lkeep, 5 * n + ne + n.max(ne) + 42, Failure::KEEP)
}

/// A length that suffices.
fn long_enough(given: i32, suffices: usize, flag: i32) -> Result<usize, Failure> {
    match usize::try_from(given) {
        Ok(length) if length >= suffices => Ok(length),
        _ => Err(Failure::short(flag, given, saturated(suffices))),
    }
}

/// The system of this number, made anew of its pattern if it was dropped.
fn found<'a>(
    id: u64,
    pattern: impl FnOnce() -> Option<Pattern<'a>>,
) -> Result<Arc<Mutex<System>>, Failure> {
    if let Some(system) = registry::find(id) {
        return Ok(system);
    }
    let pattern = pattern().ok_or(Failure::state())?;
    let (triangle, given, _) = pattern.sort()?;
    let system = System::new(triangle, pattern.order, given, threads());
    Ok(registry::keep(id, system))
}

/// Works with a system, and forgets it if that panics.
fn with<R>(
    id: u64,
    system: &Mutex<System>,
    work: impl FnOnce(&mut System) -> Result<R, Failure>,
) -> Result<R, Failure> {
    struct Unfinished(u64);
    impl Drop for Unfinished {
        fn drop(&mut self) {
            registry::forget(self.0);
        }
    }
    let Ok(mut system) = system.lock() else {
        registry::forget(id);
        return Err(Failure::state());
    };
    let unfinished = Unfinished(id);
    let worked = work(&mut system);
    std::mem::forget(unfinished);
    worked
}

/// Solves with the factors of the matrix that the arrays have, which are computed again if they are not there.
fn solve_with(
    fact: &[f64],
    ifact: &[i32],
    n: usize,
    solve: impl FnOnce(&mut System) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let ne = Pattern::num_triplets(ifact);
    let pattern = Pattern::any_id(ifact).ok_or(Failure::state())?;
    let id = Pattern::id(ifact, n, ne).ok_or(Failure::new(Failure::ORDER, saturated(n)))?;
    let matrix = Matrix::read(fact, ne).filter(|matrix| matrix.id == pattern);
    let matrix = matrix.ok_or(Failure::state())?;
    let system = found(id, || Pattern::read(ifact, n, ne))?;
    with(id, &system, |system| {
        if system.generation != matrix.generation {
            let a = Matrix::values(fact, ne).ok_or(Failure::state())?;
            system.factorize(a, &matrix.controls)?;
            system.generation = matrix.generation;
        }
        solve(system)
    })
}

/// What INFO says of factors.
fn told(n: usize, factorized: &Factorized, signs: Signs) -> Result<Entries, Failure> {
    let Factorized {
        positive,
        negative,
        rank,
    } = *factorized;
    let rarer = positive.min(negative);
    if signs == Signs::Same && rarer > 0 {
        return Err(Failure::new(Failure::SIGN, 0));
    }
    let mut flag = 0;
    if rank < n {
        flag = RANK_DEFICIENT;
    } else if signs == Signs::SameOrTold && rarer > 0 {
        flag = BOTH_SIGNS;
    }
    let mut entries: Entries = (14..=40).map(|at| (at, 0)).collect();
    entries.extend([(1, flag), (24, saturated(negative)), (25, saturated(rank))]);
    if signs == Signs::SameOrTold {
        entries.push((26, saturated(rarer)));
    }
    Ok(entries)
}
