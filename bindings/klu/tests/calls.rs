//! Random calls: with objects that are there, that were freed, that are of another kind or no objects at all, with arrays that are
//! no matrix, with parameters of any value. None ends the process, and none leaves memory behind.
//!
//! A program of its own: a pointer that was freed may be that of a new object, which must then be one of the same test. For the same
//! reason the two tests have different integers, and so different objects.

// Other programs use more of it.
#[allow(dead_code)]
#[path = "support/mod.rs"]
mod api;

use std::collections::HashSet;
use std::ptr;

use luge_klu::layout::{Common, Integer, Numeric, Symbolic};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use api::{Api, ours};

/// Calls for each kind of integers and each field.
const CALLS: usize = 25_000;

/// Objects that are kept at once.
const KEPT: usize = 6;

struct Caller<'a, I: Integer> {
    api: &'a Api<I>,
    rng: SmallRng,
    common: Common<I>,
    symbolic: Vec<*mut Symbolic<I>>,
    numeric: Vec<*mut Numeric<I>>,
    freed: Vec<usize>,
    ptr: Vec<I>,
    idx: Vec<I>,
    values: Vec<f64>,
    vectors: Vec<f64>,
    /// Names of calls with what they returned.
    seen: HashSet<(&'static str, i64)>,
}

/// Largest order.
const MOST: usize = 12;

impl<I: Integer> Caller<'_, I> {
    fn number(&mut self, from: i64, to: i64) -> I {
        I::of_code(self.rng.random_range(from..to))
    }

    /// A matrix, mostly a good one of the last order. There is room for all that it says, whatever that is.
    fn draw_matrix(&mut self, n: usize) {
        let mut ptr = vec![0i64];
        let mut idx = Vec::new();
        for j in 0..n {
            let mut rows: Vec<i64> = (0..n as i64)
                .filter(|&i| i == j as i64 || self.rng.random_bool(0.2))
                .collect();
            if self.rng.random_bool(0.1) {
                rows.retain(|&i| i != j as i64);
            }
            if self.rng.random_bool(0.2) {
                rows.reverse();
            }
            idx.extend(rows);
            ptr.push(idx.len() as i64);
        }
        if self.rng.random_bool(0.15) && !idx.is_empty() {
            let at = self.rng.random_range(0..idx.len());
            idx[at] = [-1, n as i64, i64::from(i32::MAX), idx[0]][self.rng.random_range(0..4)];
        }
        if self.rng.random_bool(0.15) {
            let at = self.rng.random_range(0..ptr.len());
            // Never more entries than there is room for.
            ptr[at] = self.rng.random_range(-2..(MOST * MOST) as i64);
        }
        ptr.resize(MOST + 1, idx.len() as i64);
        idx.resize(MOST * MOST, 0);
        self.ptr = ptr.into_iter().map(I::of_code).collect();
        self.idx = idx.into_iter().map(I::of_code).collect();
        let hostile = [0.0, f64::NAN, f64::INFINITY, 1e300, -1e-300];
        let kind = self.rng.random_range(0..4);
        let count = 2 * MOST * MOST;
        self.values = (0..count)
            .map(|_| match kind {
                0 if self.rng.random_bool(0.1) => hostile[self.rng.random_range(0..hostile.len())],
                1 => f64::from(self.rng.random_range(-1..2)),
                _ => self.rng.random_range(-1.0..1.0),
            })
            .collect();
    }

    fn draw_parameters(&mut self) {
        let floats = [0.001, 1.0, 0.0, -3.0, f64::NAN, 7.0];
        self.common.tol = floats[self.rng.random_range(0..floats.len())];
        self.common.btf = self.number(-1, 3);
        self.common.ordering = self.number(-1, 5);
        self.common.scale = self.number(-2, 5);
        self.common.halt_if_singular = self.number(0, 2);
    }

    /// A pointer: to one of the objects, or to something else.
    fn draw_pointer(&mut self, objects: &[usize], others: &[usize]) -> usize {
        match self.rng.random_range(0..12) {
            0 => 0,
            1 => self.rng.random_range(1..1 << 47),
            2 if !self.freed.is_empty() => self.freed[self.rng.random_range(0..self.freed.len())],
            3 if !others.is_empty() => others[self.rng.random_range(0..others.len())],
            // Memory that is no object.
            4 => self.vectors.as_ptr().addr(),
            _ if objects.is_empty() => 0,
            _ => objects[self.rng.random_range(0..objects.len())],
        }
    }

    fn draw_symbolic(&mut self) -> *mut Symbolic<I> {
        let addresses =
            |list: &[*mut Symbolic<I>]| list.iter().map(|at| at.addr()).collect::<Vec<_>>();
        let others: Vec<usize> = self.numeric.iter().map(|at| at.addr()).collect();
        let objects = addresses(&self.symbolic);
        ptr::with_exposed_provenance_mut(self.draw_pointer(&objects, &others))
    }

    fn draw_numeric(&mut self) -> *mut Numeric<I> {
        let objects: Vec<usize> = self.numeric.iter().map(|at| at.addr()).collect();
        let others: Vec<usize> = self.symbolic.iter().map(|at| at.addr()).collect();
        ptr::with_exposed_provenance_mut(self.draw_pointer(&objects, &others))
    }

    fn draw_common(&mut self) -> *mut Common<I> {
        match self.rng.random_range(0..40) {
            0 => ptr::null_mut(),
            1 => (&raw mut self.common).wrapping_byte_add(1),
            _ => &raw mut self.common,
        }
    }

    /// An array of the caller, null, or one that is not aligned.
    fn draw_array<T>(&mut self, array: *const T) -> *mut T {
        match self.rng.random_range(0..25) {
            0 => ptr::null_mut(),
            1 => array.cast_mut().wrapping_byte_add(1),
            _ => array.cast_mut(),
        }
    }

    fn note(&mut self, name: &'static str, returned: I) {
        self.seen.insert((name, returned.to_i64()));
    }

    /// # Safety
    ///
    /// The library keeps to its promises.
    unsafe fn step(&mut self) {
        if self.rng.random_bool(0.3) {
            let n = self.rng.random_range(1..=MOST);
            self.draw_matrix(n);
            self.draw_parameters();
        }
        let common = self.draw_common();
        let (ap, ai) = (self.ptr.as_ptr(), self.idx.as_ptr());
        let (ap, ai) = (self.draw_array(ap), self.draw_array(ai));
        let values = self.values.as_ptr();
        let ax = self.draw_array(values);
        let b = self.vectors.as_mut_ptr();
        let b = self.draw_array(b.cast_const());
        let (symbolic, numeric) = (self.draw_symbolic(), self.draw_numeric());
        let api = self.api;
        // SAFETY: as the caller says; what is not a good pointer is one that the library finds out.
        unsafe {
            match self.rng.random_range(0..15) {
                0 | 1 => {
                    let n = self.number(-1, MOST as i64 + 1);
                    let made = if self.rng.random_bool(0.2) {
                        (api.analyze_given)(n, ap, ai, ptr::null(), ai, common)
                    } else {
                        (api.analyze)(n, ap, ai, common)
                    };
                    self.note("analyze", I::of_code(i64::from(!made.is_null())));
                    if !made.is_null() {
                        self.freed.retain(|&at| at != made.addr());
                        self.symbolic.push(made);
                    }
                }
                2 | 3 => {
                    let made = (api.factor)(ap, ai, ax, symbolic, common);
                    self.note("factor", I::of_code(i64::from(!made.is_null())));
                    if !made.is_null() {
                        self.freed.retain(|&at| at != made.addr());
                        self.numeric.push(made);
                    }
                }
                4 | 5 => {
                    let done = (api.refactor)(ap, ai, ax, symbolic, numeric, common);
                    self.note("refactor", done);
                }
                6 => {
                    let (ldim, nrhs) = (self.number(-1, 15), self.number(-1, 12));
                    let done = (api.solve)(symbolic, numeric, ldim, nrhs, b, common);
                    self.note("solve", done);
                }
                7 => {
                    let (ldim, nrhs) = (self.number(-1, 15), self.number(-1, 12));
                    let done = if api.width == 1 {
                        (api.tsolve)(symbolic, numeric, ldim, nrhs, b, common)
                    } else {
                        let conjugate = self.number(0, 2);
                        (api.tsolve_conjugate)(symbolic, numeric, ldim, nrhs, b, conjugate, common)
                    };
                    self.note("tsolve", done);
                }
                8 => {
                    let done = (api.rcond)(symbolic, numeric, common);
                    self.note("rcond", done);
                }
                9 => {
                    let done = (api.condest)(ap, ax, symbolic, numeric, common);
                    self.note("condest", done);
                }
                10 => {
                    let done = (api.rgrowth)(ap, ai, ax, symbolic, numeric, common);
                    self.note("rgrowth", done);
                }
                11 => {
                    let done = (api.flops)(symbolic, numeric, common);
                    self.note("flops", done);
                    let done = (api.sort)(symbolic, numeric, common);
                    self.note("sort", done);
                }
                12 => self.extract(numeric, symbolic, common),
                13 => {
                    let mut rs = [0.0; MOST];
                    let mut room = [I::of(0); MOST];
                    let (scale, n) = (self.number(-1, 4), self.number(-1, MOST as i64 + 1));
                    let rs = self.draw_array((&raw mut rs).cast::<f64>().cast_const());
                    let room = self.draw_array((&raw mut room).cast::<I>().cast_const());
                    let done = (api.scale)(scale, n, ap, ai, ax, rs, room, common);
                    self.note("scale", done);
                }
                _ => self.free(common),
            }
        }
        while self.symbolic.len() > KEPT || self.numeric.len() > KEPT {
            // SAFETY: as the caller says.
            unsafe {
                let common = &raw mut self.common;
                self.free(common);
            }
        }
    }

    /// # Safety
    ///
    /// As [`step`](Self::step).
    unsafe fn extract(
        &mut self,
        numeric: *mut Numeric<I>,
        symbolic: *mut Symbolic<I>,
        common: *mut Common<I>,
    ) {
        let mut integers = [I::of(0); 9 * (MOST * MOST + 1)];
        let mut numbers = [0.0; 7 * (MOST * MOST + 1)];
        let size = MOST * MOST + 1;
        let i: Vec<*mut I> = integers.chunks_mut(size).map(<[I]>::as_mut_ptr).collect();
        let x: Vec<*mut f64> = numbers.chunks_mut(size).map(<[f64]>::as_mut_ptr).collect();
        let i: Vec<*mut I> = i
            .into_iter()
            .map(|at| self.draw_array(at.cast_const()))
            .collect();
        let x: Vec<*mut f64> = x
            .into_iter()
            .map(|at| self.draw_array(at.cast_const()))
            .collect();
        // SAFETY: as the caller says, and there is room for all entries of such factors.
        let done = unsafe {
            if self.api.width == 1 {
                (self.api.extract)(
                    numeric, symbolic, i[0], i[1], x[0], i[2], i[3], x[1], i[4], i[5], x[2], i[6],
                    i[7], x[3], i[8], common,
                )
            } else {
                (self.api.extract_complex)(
                    numeric, symbolic, i[0], i[1], x[0], x[4], i[2], i[3], x[1], x[5], i[4], i[5],
                    x[2], x[6], i[6], i[7], x[3], i[8], common,
                )
            }
        };
        self.note("extract", done);
    }

    /// # Safety
    ///
    /// As [`step`](Self::step).
    unsafe fn free(&mut self, common: *mut Common<I>) {
        let api = self.api;
        // SAFETY: as the caller says.
        unsafe {
            if self.rng.random_bool(0.5) {
                let mut at = self.draw_symbolic();
                let before = at;
                let freed = (api.free_symbolic)(&mut at, common);
                self.note("free_symbolic", freed);
                if at.is_null() && !before.is_null() {
                    self.symbolic.retain(|&object| object != before);
                    self.freed.push(before.addr());
                }
            } else {
                let mut at = self.draw_numeric();
                let before = at;
                let freed = (api.free_numeric)(&mut at, common);
                self.note("free_numeric", freed);
                if at.is_null() && !before.is_null() {
                    self.numeric.retain(|&object| object != before);
                    self.freed.push(before.addr());
                }
            }
        }
    }
}

fn call_at_random<I: Integer>(complex: bool, seed: u64) {
    let api = Api::<I>::load(&ours(), complex).unwrap();
    let mut caller = Caller {
        rng: SmallRng::seed_from_u64(seed),
        common: api.common(),
        api: &api,
        symbolic: Vec::new(),
        numeric: Vec::new(),
        freed: Vec::new(),
        ptr: vec![I::of(0); MOST + 1],
        idx: vec![I::of(0); MOST * MOST],
        values: vec![1.0; 2 * MOST * MOST],
        vectors: vec![1.0; 2 * 15 * 12],
        seen: HashSet::new(),
    };
    let calls = std::env::var("LUGE_KLU_CALLS").ok();
    let calls = calls.map_or(CALLS, |calls| calls.parse().unwrap());
    for _ in 0..calls {
        // SAFETY: that it keeps to its promises is what is tested.
        unsafe { caller.step() };
    }
    // Each call has succeeded, and each has been refused.
    for name in [
        "analyze",
        "factor",
        "refactor",
        "solve",
        "tsolve",
        "rcond",
        "condest",
        "rgrowth",
        "flops",
        "sort",
        "extract",
        "scale",
        "free_symbolic",
        "free_numeric",
    ] {
        for returned in [0, 1] {
            let seen = caller.seen.contains(&(name, returned));
            assert!(seen || calls < CALLS, "{name} never returned {returned}");
        }
    }
    let (symbolic, numeric) = (caller.symbolic, caller.numeric);
    // SAFETY: these are the objects that are left.
    unsafe {
        for mut at in numeric {
            assert_eq!((api.free_numeric)(&mut at, &mut caller.common).to_i64(), 1);
        }
        for mut at in symbolic {
            assert_eq!((api.free_symbolic)(&mut at, &mut caller.common).to_i64(), 1);
        }
    }
    assert_eq!(caller.common.memusage, 0, "bytes are left");
}

#[test]
fn random_calls_with_int() {
    call_at_random::<i32>(false, 1);
    call_at_random::<i32>(true, 2);
}

#[test]
fn random_calls_with_long() {
    call_at_random::<i64>(false, 3);
    call_at_random::<i64>(true, 4);
}
