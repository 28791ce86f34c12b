//! Random calls from one seed, bad handles, null pointers and wrong sizes among them: none crashes, none finds a defect, and
//! none that fails writes to the caller's memory.
//!
//! What no library can survive is left out: arrays that are shorter than the sizes say, and handles that were freed.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use luge_c::luge_status::*;
use luge_c::*;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::support::*;

const CALLS: usize = 40_000;

/// Larger than all orders that matrices have here.
const MAX_ORDER: usize = 10;

/// Numbers of vectors: four columns with leading dimensions up to 13, each of two parts.
const ROOM: usize = 128;

/// What memory of the caller has before a call.
const MARK: f64 = 1234.5;

struct Caller {
    rng: SmallRng,
    options: Vec<*mut luge_options>,
    solvers: Vec<*mut luge_solver>,
    analyses: Vec<*mut luge_analysis>,
    factors: Vec<*mut luge_factors>,
    buffers: Vec<*mut luge_buffer>,
    /// The solver that analyses and factors were made with, by their addresses.
    made_with: BTreeMap<usize, *mut luge_solver>,
    /// Memory that is no handle.
    nothing: Box<[u64; 8]>,
    /// How often each call was made, and how often it succeeded.
    tally: BTreeMap<&'static str, [usize; 2]>,
    statuses: BTreeMap<i32, usize>,
}

impl Caller {
    fn new(seed: u64) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed),
            options: Vec::new(),
            solvers: Vec::new(),
            analyses: Vec::new(),
            factors: Vec::new(),
            buffers: Vec::new(),
            made_with: BTreeMap::new(),
            nothing: Box::new([0; 8]),
            tally: BTreeMap::new(),
            statuses: BTreeMap::new(),
        }
    }

    fn count(&mut self, call: &'static str, status: luge_status) -> luge_status {
        assert_ne!(status, LUGE_ERROR_INTERNAL, "{call}: {}", message());
        let counts = self.tally.entry(call).or_default();
        counts[0] += 1;
        counts[1] += usize::from(status == LUGE_OK);
        *self.statuses.entry(status as i32).or_default() += 1;
        status
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_ratio(1, n)
    }

    /// A handle of `pool`, or something else.
    fn handle<H>(&mut self, pool: fn(&Self) -> &Vec<*mut H>) -> *mut H {
        match self.rng.random_range(0..40) {
            0 => null_mut(),
            1 => self.nothing.as_mut_ptr().cast(),
            2 => self.nothing.as_mut_ptr().wrapping_byte_add(1).cast(),
            3 => self
                .options
                .choose(&mut self.rng)
                .map_or(null_mut(), |h| h.cast()),
            4 => self
                .factors
                .choose(&mut self.rng)
                .map_or(null_mut(), |h| h.cast()),
            _ => {
                let len = pool(self).len();
                if len == 0 {
                    return null_mut();
                }
                let at = self.rng.random_range(0..len);
                pool(self)[at]
            }
        }
    }

    /// A pointer that may be NULL or not aligned.
    fn pointer<T>(&mut self, to: *mut T) -> *mut T {
        match self.rng.random_range(0..40) {
            0 => null_mut(),
            1 if align_of::<T>() > 1 => to.wrapping_byte_add(1),
            _ => to,
        }
    }

    /// A size that may be wrong, but is then refused or small.
    fn size(&mut self, right: i64) -> i64 {
        match self.rng.random_range(0..40) {
            0 => -1,
            1 => i64::MIN,
            2 => i64::MAX,
            3 => 1 << 61,
            4 => right - 1,
            _ => right,
        }
    }

    fn value(&mut self) -> f64 {
        match self.rng.random_range(0..60) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => 0.0,
            3 => 1e300,
            4 => -1e-300,
            5 => 5e-324,
            _ => self.rng.random_range(-4.0..4.0),
        }
    }

    fn values(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.value()).collect()
    }

    fn number<const N: usize>(&mut self, numbers: [i32; N]) -> i32 {
        numbers[self.rng.random_range(0..N)]
    }

    /// A matrix in arrays as large as all sizes that are not refused.
    fn matrix(&mut self) -> Memory {
        let n = self.rng.random_range(0..=MAX_ORDER as i64);
        let density = self.rng.random_range(0.1..0.6);
        let base = i64::from(self.one_in(3));
        let is_triangle = self.one_in(3);
        let (mut offsets, mut indices) = (vec![base], Vec::new());
        for i in 0..n {
            for j in 0..n {
                let is_there = self.rng.random_bool(density) && !(is_triangle && j > i);
                if i == j || is_there {
                    indices.push(j + base);
                }
            }
            offsets.push(indices.len() as i64 + base);
        }
        let nnz = indices.len() as i64;
        for numbers in [&mut offsets, &mut indices] {
            if self.rng.random_ratio(1, 20) && !numbers.is_empty() {
                let at = self.rng.random_range(0..numbers.len());
                numbers[at] = self.rng.random_range(-3..20);
            }
            numbers.resize(MAX_ORDER * MAX_ORDER + 1, 3);
        }
        // Complex numbers take two.
        let values = self.values(2 * MAX_ORDER * MAX_ORDER);
        let wide = self.one_in(2);
        let mut memory = Memory {
            narrow: [&offsets, &indices].map(|from| from.iter().map(|&i| i as i32).collect()),
            wide: [offsets, indices],
            singles: values.iter().map(|&value| value as f32).collect(),
            values,
            matrix: luge_matrix {
                size: size_of::<luge_matrix>(),
                n,
                nnz,
                format: self.number([0, 0, 0, 1, 1, 1, 1, 7]),
                index_type: i32::from(wide),
                value_type: self.number([0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 3, 9]),
                index_base: base as i32,
                offsets: null(),
                indices: null(),
                values: null(),
            },
        };
        let at = |memory: &Memory, k: usize| -> *mut c_void {
            if wide {
                memory.wide[k].as_ptr().cast_mut().cast()
            } else {
                memory.narrow[k].as_ptr().cast_mut().cast()
            }
        };
        let values: *const c_void = if matches!(memory.matrix.value_type, 1 | 3) {
            memory.singles.as_ptr().cast()
        } else {
            memory.values.as_ptr().cast()
        };
        memory.matrix.offsets = self.pointer(at(&memory, 0).cast::<i64>()).cast();
        memory.matrix.indices = self.pointer(at(&memory, 1).cast::<i64>()).cast();
        memory.matrix.values = self.pointer(values.cast_mut().cast::<i64>()).cast();
        match self.rng.random_range(0..30) {
            0 => memory.matrix.n = self.number([-1, i32::MIN]).into(),
            1 => memory.matrix.n = i64::from(u32::MAX) + i64::from(self.number([0, 5])),
            2 => memory.matrix.nnz = self.size(nnz),
            3 => memory.matrix.index_base = self.number([-1, 0, 1, 2]),
            4 => memory.matrix.size = self.number([0, 8, 4096, -1]) as usize,
            _ => {}
        }
        if memory.matrix.size == 4096 {
            memory.matrix.size = size_of::<luge_matrix>();
        }
        memory
    }

    /// One call.
    fn call(&mut self) {
        match self.rng.random_range(0..100) {
            0..=9 => self.call_options(),
            10..=13 => self.make_solver(),
            14..=24 => self.make_analysis(),
            25..=39 => self.make_factors(),
            40..=54 => self.refactorize(),
            55..=79 => self.solve(),
            80..=89 => self.ask(),
            90..=96 => self.call_device(),
            _ => self.free_one(),
        }
    }

    fn call_options(&mut self) {
        let options = self.handle(|caller| &caller.options);
        let (mut int, mut real) = (0, 0.0);
        let n = self.rng.random_range(0..=MAX_ORDER as i64);
        let numbers: Vec<i64> = match self.rng.random_range(0..3) {
            0 => (0..MAX_ORDER as i64).collect(),
            1 => (0..n).rev().chain(n..MAX_ORDER as i64).collect(),
            _ => (0..MAX_ORDER)
                .map(|_| self.rng.random_range(-1..6))
                .collect(),
        };
        let signs: Vec<i8> = (0..MAX_ORDER)
            .map(|_| self.rng.random_range(-1..=1))
            .collect();
        let option = self.rng.random_range(-1..23);
        let value = match option {
            // Not more threads than there are cores; those of many solvers would take long to start.
            5 => self.rng.random_range(-2..3),
            15 | 16 => self.number([-1, -1, -1, -2, 0, 5000, 1 << 30]).into(),
            _ => self.rng.random_range(-2..5),
        };
        let size = self.size(n);
        let pointer = self.pointer(numbers.as_ptr().cast_mut());
        let which = self.rng.random_range(0..7);
        // SAFETY: arrays have the lengths of all sizes that are not refused.
        let (call, status) = unsafe {
            match which {
                0 => {
                    let mut out = null_mut();
                    let at = self.pointer(&mut out);
                    let status = luge_options_create(at);
                    self.options.extend((status == LUGE_OK).then_some(out));
                    ("options_create", status)
                }
                1 => (
                    "options_set_int",
                    luge_options_set_int(options, option, value),
                ),
                2 => {
                    let at = self.pointer(&mut int);
                    ("options_get_int", luge_options_get_int(options, option, at))
                }
                3 => {
                    let value = self.value();
                    (
                        "options_set_real",
                        luge_options_set_real(options, 99 + option % 8, value),
                    )
                }
                4 => {
                    let at = self.pointer(&mut real);
                    (
                        "options_get_real",
                        luge_options_get_real(options, 99 + option % 8, at),
                    )
                }
                5 => {
                    let columns = numbers.as_ptr();
                    let status = luge_options_set_permutations(options, size, pointer, columns);
                    ("options_set_permutations", status)
                }
                _ => {
                    let delta = self.value();
                    let signs = signs.as_ptr();
                    let status =
                        luge_options_set_regularization(options, size, signs, delta, delta / 2.0);
                    ("options_set_regularization", status)
                }
            }
        };
        self.count(call, status);
    }

    /// Options of which a solver can be made, for calls that others are refused by.
    fn likely_options(&mut self) {
        let mut out = null_mut();
        let backend = self.number([1, 3]).into();
        let kind = self.number([0, 1, 1, 1, 2, 4]).into();
        let delays = if self.one_in(4) { 1 } else { -1 };
        let chosen = [
            (luge_int_option::LUGE_OPTION_BACKEND, backend),
            (luge_int_option::LUGE_OPTION_KIND, kind),
            (luge_int_option::LUGE_OPTION_MAX_DELAYS, delays),
        ];
        // SAFETY: there is room for a handle.
        unsafe {
            ok(luge_options_create(&mut out));
            for (option, value) in chosen {
                ok(luge_options_set_int(out, option as i32, value));
            }
        }
        self.options.push(out);
    }

    fn make_solver(&mut self) {
        let options = match self.rng.random_range(0..4) {
            0 => null_mut(),
            1 | 2 => {
                self.likely_options();
                self.options[self.options.len() - 1]
            }
            _ => self.handle(|caller| &caller.options),
        };
        let mut out = null_mut();
        let at = self.pointer(&mut out);
        // SAFETY: every pointer is NULL, not aligned, or has memory behind it.
        let status = unsafe { luge_solver_create(options, at) };
        if self.count("solver_create", status) == LUGE_OK {
            self.solvers.push(out);
        } else {
            assert!(out.is_null());
        }
        let solver = self.handle(|caller| &caller.solvers);
        // SAFETY: as above.
        let statuses = unsafe { [luge_solver_cancel(solver), luge_solver_resume(solver)] };
        self.count("solver_cancel", statuses[0]);
        self.count("solver_resume", statuses[1]);
    }

    fn make_analysis(&mut self) {
        let solver = self.handle(|caller| &caller.solvers);
        let memory = self.matrix();
        let mut out = null_mut();
        let at = self.pointer(&mut out);
        // SAFETY: arrays have the lengths of all sizes that are not refused.
        let status = unsafe { luge_analyze(solver, &memory.matrix, at) };
        if self.count("analyze", status) != LUGE_OK {
            assert!(out.is_null());
            return;
        }
        self.analyses.push(out);
        self.made_with.insert(out.addr(), solver);
        let analysis = out;
        // Factors of the same matrix, which random ones would hardly fit.
        let mut out = null_mut();
        // SAFETY: as above.
        let status = unsafe { luge_factorize(analysis, &memory.matrix, &mut out) };
        if self.count("factorize", status) == LUGE_OK {
            self.factors.push(out);
            self.made_with.insert(out.addr(), solver);
        }
    }

    fn make_factors(&mut self) {
        let analysis = self.handle(|caller| &caller.analyses);
        let mut report: luge_inform = sized();
        let mut out = null_mut();
        let memory = self.matrix();
        // SAFETY: arrays have the lengths of all sizes that are not refused.
        unsafe {
            let known = luge_analysis_inform(analysis, &mut report) == LUGE_OK;
            let (mut text, mut length) = ([0u8; 1 << 16], 0);
            let capacity = self.number([0, 1, 100, 1 << 16]) as usize;
            let to = self.pointer(text.as_mut_ptr().cast());
            let status = luge_analysis_json(analysis, capacity, to, &mut length);
            self.count("analysis_json", status);
            let count = self.size(if known { report.nnz } else { 3 });
            let at = self.pointer(&mut out);
            let values = self.pointer(memory.values.as_ptr().cast_mut());
            let (call, status) = match self.rng.random_range(0..6) {
                0 | 4 => ("factorize", luge_factorize(analysis, &memory.matrix, at)),
                1 => {
                    let values = memory.singles.as_ptr();
                    let status = luge_factorize_values_f32(analysis, count, values, at);
                    ("factorize_values_f32", status)
                }
                2 => {
                    let status = luge_factorize_values_complex(analysis, count, values, at);
                    ("factorize_values_complex", status)
                }
                _ => {
                    let status = luge_factorize_values(analysis, count, values, at);
                    ("factorize_values", status)
                }
            };
            if self.count(call, status) == LUGE_OK {
                self.factors.push(out);
                let solver = self.made_with.get(&analysis.addr()).copied();
                self.made_with
                    .extend(solver.map(|solver| (out.addr(), solver)));
            } else {
                assert!(out.is_null());
            }
        }
    }

    /// The report of factors, if they are some.
    fn report(&mut self, factors: *const luge_factors) -> luge_inform {
        let mut report: luge_inform = sized();
        // SAFETY: eight bytes of whatever it is can be read.
        let status = unsafe { luge_factors_inform(factors, &mut report) };
        if self.count("factors_inform", status) != LUGE_OK {
            (report.n, report.nnz) = (3, 3);
        }
        report
    }

    fn refactorize(&mut self) {
        let factors = self.handle(|caller| &caller.factors);
        let report = self.report(factors);
        let memory = self.matrix();
        let mut outcome: luge_refactorized = sized();
        outcome.size = self.number([0, size_of::<luge_refactorized>() as i32]) as usize;
        let outcome = if self.one_in(2) {
            null_mut()
        } else {
            &raw mut outcome
        };
        let count = self.size(report.nnz);
        let values = self.pointer(memory.values.as_ptr().cast_mut());
        let mut threshold = MARK;
        let which = self.rng.random_range(0..10);
        // SAFETY: arrays have the lengths of all sizes that are not refused.
        let (call, status) = unsafe {
            match which {
                0 => (
                    "refactorize",
                    luge_refactorize(factors, &memory.matrix, outcome),
                ),
                1 => {
                    let singles = memory.singles.as_ptr();
                    let status = luge_refactorize_values_f32(factors, count, singles, outcome);
                    ("refactorize_values_f32", status)
                }
                8 => {
                    let status = luge_refactorize_values_complex(factors, count, values, outcome);
                    ("refactorize_values_complex", status)
                }
                2 => {
                    let at = self.pointer(&mut threshold);
                    ("raise_threshold", luge_raise_threshold(factors, at))
                }
                _ => {
                    let status = luge_refactorize_values(factors, count, values, outcome);
                    ("refactorize_values", status)
                }
            }
        };
        self.count(call, status);
    }

    fn solve(&mut self) {
        let factors = self.handle(|caller| &caller.factors);
        let n = self.report(factors).n;
        let nrhs = self.rng.random_range(0..4);
        let nrhs = self.size(nrhs);
        let [ldb, ldx] = [0; 2].map(|_| {
            let ld = n.max(1) + self.rng.random_range(0..3);
            self.size(ld)
        });
        let b = self.values(ROOM);
        let (mut x, mut singles) = ([MARK; ROOM], [1.5f32; ROOM]);
        let from = self.pointer(b.as_ptr().cast_mut());
        let to = self.pointer(x.as_mut_ptr());
        let mut accuracy: luge_accuracy = sized();
        let accuracy = if self.one_in(2) {
            null_mut()
        } else {
            &raw mut accuracy
        };
        let accuracy = self.pointer(accuracy);
        let operation = self.number([0, 0, 0, 1, 1, 2, 3]);
        let which = self.rng.random_range(0..14);
        // SAFETY: four columns with leading dimensions up to 13 have room, and larger ones are refused.
        let (call, status) = unsafe {
            match which {
                0..=3 => (
                    "solve",
                    luge_solve(factors, operation, nrhs, from, ldb, to, ldx, accuracy),
                ),
                4..=6 => (
                    "solve_in_place",
                    luge_solve_in_place(factors, operation, nrhs, to, ldx, accuracy),
                ),
                7 => {
                    let to = singles.as_mut_ptr();
                    let status =
                        luge_solve_in_place_f32(factors, operation, nrhs, to, ldx, accuracy);
                    ("solve_in_place_f32", status)
                }
                10 => (
                    "solve_complex",
                    luge_solve_complex(factors, operation, nrhs, from, ldb, to, ldx, accuracy),
                ),
                11 => (
                    "solve_in_place_complex",
                    luge_solve_in_place_complex(factors, operation, nrhs, to, ldx, accuracy),
                ),
                12 => (
                    "solve_part_complex",
                    luge_solve_part_complex(factors, operation, nrhs, to, ldx),
                ),
                13 => {
                    let to = singles.as_mut_ptr();
                    let status = luge_solve_complex_f32(
                        factors, operation, nrhs, to, ldb, to, ldx, accuracy,
                    );
                    ("solve_complex_f32", status)
                }
                8 => (
                    "solve_part",
                    luge_solve_part(factors, operation, nrhs, to, ldx),
                ),
                _ => {
                    let to = singles.as_mut_ptr();
                    let status =
                        luge_solve_f32(factors, operation, nrhs, to, ldb, to, ldx, accuracy);
                    ("solve_f32", status)
                }
            }
        };
        if self.count(call, status) != LUGE_OK {
            assert!(
                x == [MARK; ROOM] && singles == [1.5; ROOM],
                "{call}: {}",
                message()
            );
        }
        let parts = if call.contains("complex") { 2 } else { 1 };
        let columns = (parts * nrhs.clamp(0, 4) * ldx.clamp(0, 13)) as usize;
        assert!(x[columns.min(ROOM)..].iter().all(|&x| x == MARK), "{call}");
    }

    fn ask(&mut self) {
        let factors = self.handle(|caller| &caller.factors);
        let (mut a, mut b, mut c, mut real) = (0i64, 0i64, 0i64, 0.0);
        let (mut many, mut twice) = ([0i64; MAX_ORDER], [0.0; 2 * MAX_ORDER]);
        let (mut text, mut length) = ([0u8; 1 << 16], 0);
        let capacity = self.number([0, 1, 300, 1 << 16]) as usize;
        let text = self.pointer(text.as_mut_ptr().cast());
        let capacity_of_many = self.size(MAX_ORDER as i64);
        let at = self.pointer(&mut real);
        let integer = self.pointer(&mut a);
        let which = self.rng.random_range(0..9);
        // SAFETY: no more is written than there are columns or capacity.
        let (call, status) = unsafe {
            match which {
                0 => ("determinant", luge_determinant(factors, at, integer)),
                1 => ("rcond", luge_rcond(factors, at)),
                2 => ("inertia", luge_inertia(factors, integer, &mut b, &mut c)),
                3 => {
                    let many = many.as_mut_ptr();
                    let status = luge_perturbed_columns(factors, capacity_of_many, many, integer);
                    ("perturbed_columns", status)
                }
                4 => (
                    "factors_json",
                    luge_factors_json(factors, capacity, text, &mut length),
                ),
                5 => {
                    let status = luge_factors_warnings(factors, capacity, text, &mut length);
                    ("factors_warnings", status)
                }
                6 => {
                    let many = self.pointer(many.as_mut_ptr());
                    ("pivots", luge_pivots(factors, many, twice.as_mut_ptr()))
                }
                7 => {
                    let mut error: luge_error = sized();
                    let error = self.pointer(&mut error);
                    ("last_error", luge_last_error(error))
                }
                _ => {
                    let many = many.as_mut_ptr();
                    let status =
                        luge_last_error_unmatched(capacity_of_many, many, null_mut(), integer);
                    ("last_error_unmatched", status)
                }
            }
        };
        self.count(call, status);
    }

    /// A buffer that goes with factors, if their solver is there and has a device; else any.
    fn buffer_for(&mut self, factors: *mut luge_factors, len: i64) -> *mut luge_buffer {
        let solver = self.made_with.get(&factors.addr()).copied();
        if let Some(solver) = solver {
            let mut out = null_mut();
            // SAFETY: the handle is one, and there is room for another.
            let status = unsafe { luge_buffer_create(solver, len, &mut out) };
            if self.count("buffer_create", status) == LUGE_OK {
                self.buffers.push(out);
                return out;
            }
        }
        self.handle(|caller| &caller.buffers)
    }

    fn call_device(&mut self) {
        let (solver, factors) = (
            self.handle(|caller| &caller.solvers),
            self.handle(|caller| &caller.factors),
        );
        let which = self.rng.random_range(0..8);
        let [first, second] = if which > 4 && self.one_in(2) {
            let report = self.report(factors);
            let len = if which == 5 { report.nnz } else { report.n };
            [0; 2].map(|_| self.buffer_for(factors, len))
        } else {
            [0; 2].map(|_| self.handle(|caller| &caller.buffers))
        };
        let (mut stream, mut address, mut out) = (null_mut(), 0, null_mut());
        let mut numbers = vec![1.0; ROOM];
        let right = if which > 4 {
            1
        } else {
            self.rng.random_range(0..12)
        };
        let count = self.size(right);
        let operation = self.number([0, 1, 2]);
        // SAFETY: buffers have no more numbers than there is room for, and larger ones are refused.
        let (call, status) = unsafe {
            match which {
                0 => ("solver_stream", luge_solver_stream(solver, &mut stream)),
                1 => {
                    let status = luge_buffer_create(solver, count, &mut out);
                    self.buffers.extend((status == LUGE_OK).then_some(out));
                    ("buffer_create", status)
                }
                2 => ("buffer_address", luge_buffer_address(first, &mut address)),
                3 => (
                    "buffer_write",
                    luge_buffer_write(first, count, numbers.as_ptr()),
                ),
                4 => (
                    "buffer_read",
                    luge_buffer_read(first, count, numbers.as_mut_ptr()),
                ),
                5 => {
                    let status = luge_refactorize_device(factors, first, null_mut());
                    ("refactorize_device", status)
                }
                6 => {
                    let status = luge_solve_device(factors, operation, count, first, null_mut());
                    ("solve_device", status)
                }
                _ => {
                    let status = luge_solve_refined_device(
                        factors,
                        operation,
                        count,
                        first,
                        second,
                        null_mut(),
                    );
                    ("solve_refined_device", status)
                }
            }
        };
        self.count(call, status);
    }

    /// Frees a handle where there are many, and always what is none.
    fn free_one(&mut self) {
        let mut none: *mut luge_factors = null_mut();
        let mut wrong: *mut luge_solver = self.nothing.as_mut_ptr().cast();
        // SAFETY: handles are taken out of their pools, so that nobody uses them any more.
        unsafe {
            ok(luge_factors_free(&mut none));
            assert_eq!(luge_solver_free(&mut wrong), LUGE_ERROR_HANDLE);
            for _ in 8..self.factors.len() {
                let at = self.rng.random_range(0..self.factors.len());
                let mut factors = self.factors.swap_remove(at);
                // Another handle may get the address.
                self.made_with.remove(&factors.addr());
                ok(luge_factors_free(&mut factors));
            }
            for _ in 6..self.analyses.len() {
                let at = self.rng.random_range(0..self.analyses.len());
                let mut analysis = self.analyses.swap_remove(at);
                self.made_with.remove(&analysis.addr());
                ok(luge_analysis_free(&mut analysis));
            }
            for _ in 5..self.solvers.len() {
                let at = self.rng.random_range(0..self.solvers.len());
                let mut solver = self.solvers.swap_remove(at);
                self.made_with.retain(|_, with| *with != solver);
                ok(luge_solver_free(&mut solver));
            }
            for _ in 5..self.options.len() {
                let at = self.rng.random_range(0..self.options.len());
                ok(luge_options_free(&mut self.options.swap_remove(at)));
            }
            for _ in 4..self.buffers.len() {
                let at = self.rng.random_range(0..self.buffers.len());
                ok(luge_buffer_free(&mut self.buffers.swap_remove(at)));
            }
        }
    }
}

/// A matrix, and arrays that are longer than it says.
struct Memory {
    narrow: [Vec<i32>; 2],
    wide: [Vec<i64>; 2],
    values: Vec<f64>,
    singles: Vec<f32>,
    matrix: luge_matrix,
}

impl Drop for Caller {
    fn drop(&mut self) {
        // SAFETY: nobody uses them any more.
        unsafe {
            for handle in &mut self.factors {
                luge_factors_free(handle);
            }
            for handle in &mut self.analyses {
                luge_analysis_free(handle);
            }
            for handle in &mut self.solvers {
                luge_solver_free(handle);
            }
            for handle in &mut self.options {
                luge_options_free(handle);
            }
            for handle in &mut self.buffers {
                luge_buffer_free(handle);
            }
        }
    }
}

fn campaign(seed: u64, calls: usize) -> Caller {
    let mut caller = Caller::new(seed);
    for _ in 0..calls {
        caller.call();
    }
    caller
}

#[test]
fn random_calls_neither_crash_nor_find_a_defect() {
    let caller = campaign(25, CALLS);
    for (call, [made, succeeded]) in &caller.tally {
        println!("{call:28} {made:6} {succeeded:6}");
    }
    println!("{:?}", caller.statuses);
    // Every call is tried, and nearly every one succeeds at times, so that handles are used and not only refused.
    assert!(caller.tally.len() >= 40, "{}", caller.tally.len());
    for (call, [made, succeeded]) in &caller.tally {
        assert!(*made >= 10, "{call} was made {made} times");
        // Without devices all calls for them are refused.
        let is_for_devices = ["buffer", "device", "stream"]
            .iter()
            .any(|part| call.contains(part));
        if cfg!(feature = "gpu") || !is_for_devices {
            assert!(*succeeded > 0, "{call} never succeeded");
        }
    }
    assert!(caller.statuses.len() >= 18, "{:?}", caller.statuses);
}

#[test]
fn a_seed_says_what_is_called() {
    let [one, again, other] = [1, 1, 2].map(|seed| campaign(seed, 3000).tally.clone());
    assert_eq!(one, again);
    assert_ne!(one, other);
}
