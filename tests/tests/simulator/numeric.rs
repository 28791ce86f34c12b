//! The numeric kernels and the phase built on them against the reference, on every device.

use luge_device::{Device, DeviceError, LaunchConfig, SimulatorOptions, Stream};
use luge_gpu_kernels::numeric::levels::lu_levels;
use luge_gpu_kernels::numeric::mapping::{Mapping, level_shapes, shape};
use luge_gpu_kernels::numeric::ordered::{UpdatesBuffers, lu_levels_ordered};
use luge_gpu_kernels::numeric::{self as kernels, EliminationBuffers, counter, extreme};
use luge_kernel::math::Complex;
use luge_levelize::gpu::DeviceLevels;
use luge_numeric::NumericError;
use luge_numeric::gpu::{
    ColumnMode, ColumnOptions, ColumnPlan, Columns, DeviceFactors, DeviceScalar, ElementAccess,
    factorize, positions, refactorize,
};
use luge_reference::numeric::{SparseLu, lu_right_looking};
use luge_sparse::num_traits::Zero;
use luge_sparse::{
    CancelFlag, CompressedPattern, FilledPattern, Levels, PivotPolicy, RealScalar, Scalar,
};
use luge_symbolic::cpu::filled_pattern;
use luge_symbolic::gpu::DeviceFilled;
use luge_testkit::compare::assert_close;
use luge_testkit::convert::{matrix_of, pattern_of, turned};
use luge_testkit::corpus::Corpus;
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};
use luge_testkit::residual::{assert_factor_error, error_bound};
use luge_testkit::strategies::{dominant_matrices, pattern_from};

use crate::chain::{QUICK, SLOW, dominated, on_each, ordered_corpus, seeded_streams, streams};

/// Every mode with every way to find entries, in any order of updates and in a fixed one, and what is chosen without
/// being told.
fn all_options() -> Vec<ColumnOptions> {
    let mut all = Vec::new();
    for deterministic in [false, true] {
        let forced = [
            ColumnMode::SmallBlock,
            ColumnMode::LargeBlock,
            ColumnMode::Stream,
        ];
        for mode in forced {
            for access in [ElementAccess::Search, ElementAccess::Dense] {
                all.push(ColumnOptions {
                    mode,
                    access,
                    deterministic,
                    max_device_bytes: None,
                });
            }
        }
        all.push(ColumnOptions {
            deterministic,
            ..ColumnOptions::default()
        });
    }
    all
}

/// B with what the earlier phases found of it, on the host and on the device.
struct Problem<T> {
    rows: CompressedPattern,
    values: Vec<T>,
    filled: FilledPattern,
    on_device: DeviceFilled,
    levels: DeviceLevels,
}

impl<T: DeviceScalar> Problem<T> {
    fn plan(
        &self,
        stream: &Stream,
        options: &ColumnOptions,
    ) -> Result<ColumnPlan<T>, NumericError> {
        ColumnPlan::new(stream, &self.on_device, &self.levels, &self.rows, options)
    }

    fn columns<'a>(&'a self, plan: &'a ColumnPlan<T>) -> Columns<'a, T> {
        Columns {
            filled: &self.on_device,
            levels: &self.levels,
            plan,
        }
    }

    fn factorize(
        &self,
        stream: &Stream,
        plan: &ColumnPlan<T>,
        pivots: PivotPolicy,
    ) -> Result<DeviceFactors<T>, NumericError> {
        let cancel = CancelFlag::new();
        factorize(stream, self.columns(plan), &self.values, pivots, &cancel)
    }
}

impl<T: Scalar> Problem<T> {
    /// With these values, [turned] over the complex numbers; without any for the pattern alone.
    fn new(stream: &Stream, rows: CompressedPattern, values: &[f64]) -> Self {
        let filled = filled_pattern(&rows).unwrap();
        let levels = luge_levelize::cpu::levels(&filled);
        let values = match values {
            [] => Vec::new(),
            _ => {
                turned::<T>(&matrix_of(&rows, values.to_vec()))
                    .into_raw_storage()
                    .2
            }
        };
        Self {
            values,
            on_device: DeviceFilled::upload(stream, &filled).unwrap(),
            levels: DeviceLevels::upload(stream, &levels).unwrap(),
            rows,
            filled,
        }
    }

    fn dense(stream: &Stream, n: usize, values: &[f64]) -> Self {
        let ptr = (0..=n).map(|i| (i * n) as u64).collect();
        let idx = (0..n * n).map(|p| (p % n) as u32).collect();
        Self::new(stream, CompressedPattern::new(n, ptr, idx).unwrap(), values)
    }

    fn max(&self) -> f64 {
        self.values
            .iter()
            .fold(0.0, |max, v| f64::max(max, v.magnitude().to_f64()))
    }
}

/// B stable without pivoting: small sizes, the extremes of fill, and models of use.
fn named_matrices() -> Vec<(&'static str, CompressedPattern, Vec<f64>)> {
    let diagonal = |n: usize| {
        let ptr = (0..=n as u64).collect();
        let pattern = CompressedPattern::new(n, ptr, (0..n as u32).collect()).unwrap();
        let values = (0..n).map(|i| 1.0 + i as f64).collect();
        (pattern, values)
    };
    let mut named = Vec::new();
    for (name, n) in [
        ("one entry", 1),
        ("diagonal of 31", 31),
        ("diagonal of 32", 32),
        ("diagonal of 33", 33),
        ("diagonal of 1025", 1025),
    ] {
        let (pattern, values) = diagonal(n);
        named.push((name, pattern, values));
    }
    for (name, a) in [
        ("dense", arrow(33, ArrowHead::First)),
        ("arrow", arrow(100, ArrowHead::Last)),
        ("grid", convection_diffusion_2d(9, 8, 1.0)),
    ] {
        named.push((name, pattern_of(&a), a.data().to_vec()));
    }
    let (pattern, values) = dominated(&pattern_of(&circuit(90, 1)));
    named.push(("circuit", pattern, values));
    named
}

fn expect<T: Scalar>(problem: &Problem<T>, policy: PivotPolicy) -> SparseLu<T> {
    lu_right_looking(&problem.filled, &problem.rows, &problem.values, policy).unwrap()
}

/// Two ways of rounding the same sums of a well-conditioned elimination.
fn tolerance<T: Scalar>(n: usize) -> f64 {
    error_bound::<T>(n)
}

fn scattered<T: DeviceScalar>(stream: &Stream, problem: &Problem<T>) -> luge_device::Buffer<T> {
    let places = positions(stream, &problem.on_device, &problem.rows).unwrap();
    let b = stream.upload(&problem.values).unwrap();
    let mut lu = stream.alloc_zeroed::<T>(problem.filled.nnz()).unwrap();
    // SAFETY: the positions are distinct and `lu` is zero.
    unsafe {
        kernels::scatter_values::launch::<T, _>(
            stream,
            &LaunchConfig::linear(2, 64),
            &places,
            &b,
            &mut lu,
        )
    }
    .unwrap();
    lu
}

fn check_scatter<T: DeviceScalar>(stream: &Stream) {
    for (_, rows, values) in named_matrices() {
        let problem = Problem::<T>::new(stream, rows, &values);
        let lu = stream.download(&scattered(stream, &problem)).unwrap();
        let columns = problem.filled.rows().transpose();
        for j in 0..problem.filled.n() {
            for p in columns.range(j) {
                let i = columns.idx()[p] as usize;
                let entry = problem
                    .rows
                    .range(i)
                    .find(|&q| problem.rows.idx()[q] as usize == j);
                let expected = entry.map_or(T::zero(), |q| problem.values[q]);
                assert_eq!(lu[p], expected);
            }
        }
    }
}

#[test]
fn scatter_values_matches_reference() {
    for stream in streams() {
        check_scatter::<f32>(&stream);
        check_scatter::<f64>(&stream);
        check_scatter::<Complex<f32>>(&stream);
        check_scatter::<Complex<f64>>(&stream);
    }
}

/// A level's figures from the patterns, entry by entry.
fn expected_shapes(filled: &FilledPattern, levels: &Levels) -> Vec<u64> {
    let columns = filled.rows().transpose();
    let below = |j: usize, i: usize| {
        let rows = &columns.idx()[columns.range(j)];
        rows.iter().filter(|&&row| row as usize > i).count() as u64
    };
    let mut shapes = vec![0; levels.num_levels() * shape::LEN];
    for k in 0..filled.n() {
        let figures = &mut shapes[levels.level_of()[k] as usize * shape::LEN..][..shape::LEN];
        figures[shape::BELOW] += below(k, k);
        for p in filled.rows().range(k) {
            let j = filled.rows().idx()[p] as usize;
            if j > k {
                figures[shape::SUB_COLUMNS] += 1;
                figures[shape::UPDATES] += below(k, k);
                figures[shape::WALKED] += below(j, k);
            }
        }
    }
    shapes
}

#[test]
fn level_shapes_counts_what_the_levels_consist_of() {
    for stream in streams() {
        for (name, rows, values) in named_matrices() {
            let problem = Problem::<f64>::new(&stream, rows, &values);
            let levels = luge_levelize::cpu::levels(&problem.filled);
            let n = problem.filled.n();
            let mut shapes = stream
                .alloc_zeroed::<u64>(levels.num_levels() * shape::LEN)
                .unwrap();
            // SAFETY: patterns and levels belong to each other; the four warps cover the columns.
            unsafe {
                level_shapes::launch(
                    &stream,
                    &LaunchConfig::linear(2, 64),
                    n.div_ceil(4) as u32,
                    problem.levels.level_of(),
                    problem.levels.level_cols(),
                    problem.on_device.buffers(),
                    &mut shapes,
                )
            }
            .unwrap();
            let expected = expected_shapes(&problem.filled, &levels);
            assert_eq!(stream.download(&shapes).unwrap(), expected, "{name}");
        }
    }
}

fn search(team_log2: u32, lanes_log2: u32, parts: u32) -> Mapping {
    Mapping {
        team_log2,
        lanes_log2,
        dense: false,
        parts,
    }
}

fn dense(team_log2: u32, lanes_log2: u32, parts: u32) -> Mapping {
    Mapping {
        dense: true,
        ..search(team_log2, lanes_log2, parts)
    }
}

/// U, and L times its pivots, by [`lu_levels`] with one mapping for all levels.
fn eliminated<T: DeviceScalar>(
    stream: &Stream,
    problem: &Problem<T>,
    smallest: T::Magnitude,
    (grid, threads): (u32, u32),
    mapping: Mapping,
    num_dense: u32,
) -> luge_device::Buffer<T> {
    let n = problem.filled.n();
    let mut lu = scattered(stream, problem);
    let mut barrier = stream.alloc_zeroed::<u32>(1).unwrap();
    let mut dense = stream.alloc_zeroed::<T>(num_dense as usize * n).unwrap();
    let mappings = vec![mapping.pack(); problem.levels.num_levels() as usize];
    let mappings = stream.upload(&mappings).unwrap();
    let elimination = EliminationBuffers {
        num_levels: problem.levels.num_levels(),
        num_dense,
        smallest,
        mappings: &mappings,
        lu: &mut lu.slice_mut(..).into_elements(),
        dense: &mut dense,
        barrier: &mut barrier,
    };
    // SAFETY: patterns and levels belong to each other; the mapping fits the grid; the launch is cooperative.
    unsafe {
        lu_levels::launch::<T, _>(
            stream,
            &LaunchConfig::linear(grid, threads).cooperative(),
            elimination,
            problem.levels.buffers(),
            problem.on_device.buffers(),
        )
    }
    .unwrap();
    // As the next factorization needs them.
    assert!(
        num_dense == 0
            || stream
                .download(&dense)
                .unwrap()
                .iter()
                .all(|&v| v == T::zero())
    );
    lu
}

/// What [`lu_levels`] leaves: U, and L times the pivot of its column.
fn expect_undivided<T: Scalar>(problem: &Problem<T>) -> Vec<T> {
    let mut expected = expect(problem, PivotPolicy::STATIC);
    for j in 0..expected.n() {
        let pivot = expected.pivot(j);
        for p in expected.below(j) {
            expected.values[p] *= pivot;
        }
    }
    expected.values
}

fn check_levels<T: DeviceScalar>(stream: &Stream, rows: &CompressedPattern, values: &[f64]) {
    let problem = Problem::<T>::new(stream, rows.clone(), values);
    let expected = expect_undivided(&problem);
    let cases = [
        // Lanes, a warp, a block, several blocks with threads to spare; fewer dense columns than teams.
        ((1, 32), search(3, 2, 1), 0),
        ((2, 96), search(5, 5, 3), 0),
        ((3, 64), search(7, 6, 1), 0),
        ((3, 64), search(6, 5, 2), 0),
        ((2, 96), dense(5, 5, 2), 6),
        ((2, 96), dense(5, 3, 1), 5),
        ((3, 96), dense(6, 6, 2), 2),
        ((4, 64), dense(6, 5, 1), 1),
    ];
    for (grid, mapping, num_dense) in cases {
        let lu = eliminated(stream, &problem, Zero::zero(), grid, mapping, num_dense);
        let lu = stream.download(&lu).unwrap();
        assert_close(&lu, &expected, tolerance::<T>(problem.filled.n()));
    }
}

#[test]
fn lu_levels_matches_reference() {
    for stream in streams() {
        for (name, rows, values) in named_matrices() {
            eprintln!("{name}");
            check_levels::<f32>(&stream, &rows, &values);
            check_levels::<f64>(&stream, &rows, &values);
            check_levels::<Complex<f64>>(&stream, &rows, &values);
        }
        let (rows, values) = two_updates_of_one_column();
        check_levels::<Complex<f32>>(&stream, &rows, &values);
    }
    on_each(10, &dominant_matrices(24), |stream, a| {
        if a.rows() > 0 {
            check_levels::<f64>(stream, &pattern_of(&a), a.data());
        }
    });
}

/// The updates of each level by column, as [`lu_levels_ordered`] takes them, from their definition.
struct Updates {
    target_ptr: Vec<u64>,
    target_cols: Vec<u32>,
    update_ptr: Vec<u64>,
    updates: Vec<u64>,
}

impl Updates {
    fn new(filled: &FilledPattern) -> Self {
        let levels = luge_levelize::cpu::levels(filled);
        let columns = filled.rows().transpose();
        let mut all = Self {
            target_ptr: vec![0],
            target_cols: Vec::new(),
            update_ptr: vec![0],
            updates: Vec::new(),
        };
        for level in 0..levels.num_levels() as u32 {
            for j in 0..filled.n() {
                let updates: Vec<u64> = columns
                    .range(j)
                    .filter(|&p| {
                        let k = columns.idx()[p] as usize;
                        k < j && levels.level_of()[k] == level
                    })
                    .map(|p| p as u64)
                    .collect();
                if !updates.is_empty() {
                    all.target_cols.push(j as u32);
                    all.updates.extend(updates);
                    all.update_ptr.push(all.updates.len() as u64);
                }
            }
            all.target_ptr.push(all.target_cols.len() as u64);
        }
        all
    }
}

fn check_ordered<T: DeviceScalar>(stream: &Stream, rows: &CompressedPattern, values: &[f64]) {
    let problem = Problem::<T>::new(stream, rows.clone(), values);
    let n = problem.filled.n();
    let expected = expect_undivided(&problem);
    let updates = Updates::new(&problem.filled);
    let num_levels = problem.levels.num_levels();
    let mut bits: Option<Vec<T>> = None;
    let cases = [
        ((1, 32), search(2, 2, 1), 0),
        ((2, 96), search(5, 5, 1), 0),
        ((2, 96), search(5, 5, 3), 0),
        ((3, 96), search(6, 6, 3), 0),
        ((2, 96), dense(5, 5, 1), 6),
        ((4, 64), dense(5, 5, 1), 3),
        ((3, 96), dense(6, 6, 1), 2),
    ];
    for ((grid, threads), mapping, num_dense) in cases {
        let mut lu = scattered(stream, &problem);
        let mut barrier = stream.alloc_zeroed::<u32>(1).unwrap();
        let mut dense = stream.alloc::<T>(num_dense as usize * n).unwrap();
        let mappings = vec![mapping.pack(); num_levels as usize];
        let elimination = EliminationBuffers {
            num_levels,
            num_dense,
            smallest: Zero::zero(),
            mappings: &stream.upload(&mappings).unwrap(),
            lu: &mut lu.slice_mut(..).into_elements(),
            dense: &mut dense,
            barrier: &mut barrier,
        };
        let updates = UpdatesBuffers {
            target_ptr: &stream.upload(&updates.target_ptr).unwrap(),
            target_cols: &stream.upload(&updates.target_cols).unwrap(),
            update_ptr: &stream.upload(&updates.update_ptr).unwrap(),
            updates: &stream.upload(&updates.updates).unwrap(),
        };
        // SAFETY: patterns, levels and updates belong to each other; the mapping fits the grid; the launch is
        // cooperative.
        unsafe {
            lu_levels_ordered::launch::<T, _>(
                stream,
                &LaunchConfig::linear(grid, threads).cooperative(),
                elimination,
                updates,
                problem.on_device.buffers(),
            )
        }
        .unwrap();
        let lu = stream.download(&lu).unwrap();
        assert_close(&lu, &expected, tolerance::<T>(n));
        assert_eq!(*bits.get_or_insert_with(|| lu.clone()), lu);
    }
}

/// Two columns of one level that update the same one, with more entries than a warp has lanes.
fn two_updates_of_one_column() -> (CompressedPattern, Vec<f64>) {
    let n = 100u32;
    let (mut ptr, mut idx, mut values) = (vec![0u64], Vec::new(), Vec::new());
    for i in 0..n {
        let row = match i {
            0 | 1 => vec![(i, 4.0), (2, 1.0)],
            2 => vec![(0, 0.5), (1, 0.25), (2, 4.0)],
            _ => vec![(0, 0.5), (1, 0.25), (i, 4.0)],
        };
        for (j, value) in row {
            idx.push(j);
            values.push(value);
        }
        ptr.push(idx.len() as u64);
    }
    (
        CompressedPattern::new(n as usize, ptr, idx).unwrap(),
        values,
    )
}

#[test]
fn lu_levels_ordered_matches_reference() {
    for stream in streams() {
        let (rows, values) = two_updates_of_one_column();
        check_ordered::<f64>(&stream, &rows, &values);
        check_ordered::<Complex<f32>>(&stream, &rows, &values);
        for (name, rows, values) in named_matrices() {
            eprintln!("{name}");
            check_ordered::<f32>(&stream, &rows, &values);
            check_ordered::<f64>(&stream, &rows, &values);
            check_ordered::<Complex<f64>>(&stream, &rows, &values);
        }
    }
    on_each(10, &dominant_matrices(24), |stream, a| {
        if a.rows() > 0 {
            check_ordered::<f64>(stream, &pattern_of(&a), a.data());
        }
    });
}

/// Finishes a given elimination: L divided, pivots replaced, everything counted.
fn check_finish<T: DeviceScalar>(stream: &Stream, rows: &CompressedPattern, values: &[f64]) {
    let problem = Problem::<T>::new(stream, rows.clone(), values);
    // Some pivots are replaced.
    let below = 0.3;
    let expected = expect(&problem, PivotPolicy::replacing(below));
    let smallest = RealScalar::from_f64(below * problem.max());
    let mut lu = eliminated(stream, &problem, smallest, (2, 64), search(5, 5, 1), 0);
    let mut counters = [u32::MAX; counter::LEN];
    counters[counter::NUM_PERTURBED] = 0;
    let mut counters = stream.upload(&counters).unwrap();
    let mut extremes = [0u64; extreme::LEN];
    extremes[extreme::MIN_PIVOT] = f64::INFINITY.to_bits();
    let mut extremes = stream.upload(&extremes).unwrap();
    // SAFETY: the patterns belong to the values; counters and extremes are at their start.
    unsafe {
        kernels::lu_finish::launch::<T, _>(
            stream,
            &LaunchConfig::linear(2, 64),
            smallest,
            problem.on_device.buffers(),
            &mut lu,
            &mut counters,
            &mut extremes,
        )
    }
    .unwrap();
    let lu = stream.download(&lu).unwrap();
    assert_close(&lu, &expected.values, tolerance::<T>(expected.n()));
    let counters = stream.download(&counters).unwrap();
    let first = expected.perturbed.first().map_or(u32::MAX, |&k| k);
    assert_eq!(
        counters,
        [expected.perturbed.len() as u32, first, u32::MAX, u32::MAX]
    );
    // Against the values that came back, so exactly.
    let size = |v: T| RealScalar::to_f64(Scalar::magnitude(v));
    let columns = problem.filled.rows().transpose();
    let mut reported = [0.0f64, f64::INFINITY, 0.0];
    for j in 0..columns.major_dim() {
        for p in columns.range(j) {
            let i = columns.idx()[p] as usize;
            if i <= j {
                reported[extreme::MAX_U] = reported[extreme::MAX_U].max(size(lu[p]));
            }
            if i == j {
                reported[extreme::MIN_PIVOT] = reported[extreme::MIN_PIVOT].min(size(lu[p]));
                reported[extreme::MAX_PIVOT] = reported[extreme::MAX_PIVOT].max(size(lu[p]));
            }
        }
    }
    let extremes = stream.download(&extremes).unwrap();
    assert_eq!(extremes, reported.map(f64::to_bits));
}

#[test]
fn lu_finish_matches_reference() {
    for stream in streams() {
        // Pivots that are just large enough: 0.3 times the largest entry.
        let diagonal = pattern_from(3, [(0, 0), (1, 1), (2, 2)]);
        check_finish::<f32>(&stream, &diagonal, &[1.0, 0.3, -0.3]);
        check_finish::<f64>(&stream, &diagonal, &[1.0, 0.3, -0.3]);
        for (_, rows, values) in named_matrices() {
            check_finish::<f32>(&stream, &rows, &values);
            check_finish::<f64>(&stream, &rows, &values);
            check_finish::<Complex<f32>>(&stream, &rows, &values);
            check_finish::<Complex<f64>>(&stream, &rows, &values);
        }
    }
}

fn check_phase<T: DeviceScalar>(
    stream: &Stream,
    rows: &CompressedPattern,
    values: &[f64],
    options: &[ColumnOptions],
) {
    let problem = Problem::<T>::new(stream, rows.clone(), values);
    let expected = expect(&problem, PivotPolicy::STATIC);
    let n = expected.n();
    let doubled: Vec<T> = problem.values.iter().map(|&v| v + v).collect();
    for options in options {
        let plan = problem.plan(stream, options).unwrap();
        check_report(&plan, options, problem.levels.num_levels() as usize);
        let mut factors = problem
            .factorize(stream, &plan, PivotPolicy::STATIC)
            .unwrap();
        let lu = stream.download(factors.values()).unwrap();
        assert_close(&lu, &expected.values, tolerance::<T>(n));
        let b = matrix_of(rows, problem.values.clone());
        assert_factor_error(&b, &expected.cols, &lu);
        let pivots = factors.pivots();
        assert_eq!((pivots.num_perturbed, pivots.first_perturbed), (0, None));
        if n > 0 {
            let growth = expected.element_growth(RealScalar::from_f64(problem.max()));
            assert!((pivots.element_growth / growth - 1.0).abs() <= tolerance::<T>(n));
        } else {
            assert_eq!(pivots.element_growth, 1.0);
        }

        // The same memory again with other values, and nothing besides.
        let device = stream.device();
        device.reset_peak();
        let before = device.allocated_bytes();
        refactorize(
            stream,
            problem.columns(&plan),
            &doubled,
            PivotPolicy::STATIC,
            &CancelFlag::new(),
            &mut factors,
        )
        .unwrap();
        assert_eq!(device.peak_bytes(), before);
        let again = stream.download(factors.values()).unwrap();
        assert_factor_error(&matrix_of(rows, doubled.clone()), &expected.cols, &again);
        if options.deterministic {
            // Powers of two change no rounding: U is twice as large, L the same.
            for j in 0..n {
                for p in expected.cols.range(j) {
                    let scale = if expected.cols.idx()[p] as usize <= j {
                        lu[p]
                    } else {
                        T::zero()
                    };
                    assert_eq!(again[p], lu[p] + scale);
                }
            }
        }
    }
}

/// The forced mode and access, and no other, are those of all levels.
fn check_report<T: DeviceScalar>(plan: &ColumnPlan<T>, options: &ColumnOptions, num_levels: usize) {
    let report = plan.report();
    let modes = [
        report.small_block_levels,
        report.large_block_levels,
        report.stream_levels,
    ];
    match options.mode {
        ColumnMode::Auto => assert_eq!(modes.iter().sum::<usize>(), num_levels),
        ColumnMode::SmallBlock => assert_eq!(modes, [num_levels, 0, 0]),
        ColumnMode::LargeBlock => assert_eq!(modes, [0, num_levels, 0]),
        ColumnMode::Stream => assert_eq!(modes, [0, 0, num_levels]),
    }
    match options.access {
        ElementAccess::Auto => assert!(report.dense_levels <= num_levels),
        ElementAccess::Search => assert_eq!((report.dense_levels, report.dense_columns), (0, 0)),
        ElementAccess::Dense => {
            assert_eq!(report.dense_levels, num_levels);
            assert_eq!(report.dense_columns > 0, num_levels > 0);
        }
    }
    assert_eq!(plan.is_deterministic(), options.deterministic);
}

#[test]
fn factorize_phase_matches_reference() {
    let options = all_options();
    let streams = streams();
    for (at, stream) in streams.iter().enumerate() {
        // All devices together have all options in both types.
        let dealt = |to: usize| -> Vec<ColumnOptions> {
            let mine = |&(i, _): &(usize, &ColumnOptions)| i % streams.len() == to % streams.len();
            options
                .iter()
                .enumerate()
                .filter(mine)
                .map(|(_, &o)| o)
                .collect()
        };
        for (name, rows, values) in named_matrices() {
            eprintln!("{name}");
            check_phase::<f32>(stream, &rows, &values, &dealt(at + 1));
            check_phase::<f64>(stream, &rows, &values, &dealt(at));
            check_phase::<Complex<f64>>(stream, &rows, &values, &dealt(at + 2)[..1]);
            check_phase::<Complex<f32>>(stream, &rows, &values, &dealt(at)[..1]);
        }
    }
    on_each(6, &dominant_matrices(24), |stream, a| {
        check_phase::<f64>(stream, &pattern_of(&a), a.data(), &options);
    });
}

#[test]
fn deterministic_factors_are_the_same_bits_in_every_run() {
    let (_, rows, values) = named_matrices().pop().unwrap();
    let mut bits: Option<Vec<f64>> = None;
    for stream in streams() {
        let problem = Problem::<f64>::new(&stream, rows.clone(), &values);
        for options in all_options() {
            if options.deterministic {
                let plan = problem.plan(&stream, &options).unwrap();
                for _ in 0..2 {
                    let factors = problem
                        .factorize(&stream, &plan, PivotPolicy::STATIC)
                        .unwrap();
                    let lu = stream.download(factors.values()).unwrap();
                    assert_eq!(*bits.get_or_insert_with(|| lu.clone()), lu, "{options:?}");
                }
            }
        }
    }
}

#[test]
fn modes_and_access_follow_the_levels() {
    if luge_tests::backend() != luge_device::Backend::Simulator {
        // The thresholds depend on the size of the device.
        return;
    }
    let stream = &seeded_streams()[0];
    let report = |rows: CompressedPattern| {
        let problem = Problem::<f64>::new(stream, rows, &[]);
        *problem
            .plan(stream, &ColumnOptions::default())
            .unwrap()
            .report()
    };
    let many = report(dominated(&pattern_of(&circuit(90, 1))).0);
    assert!(many.small_block_levels > 0, "{many:?}");
    // One column a level, at first with more sub-columns than there are warps, whose rows are all those of the column.
    let fat = report(pattern_of(&arrow(70, ArrowHead::First)));
    assert!(fat.large_block_levels > 0, "{fat:?}");
    assert!(fat.dense_levels > 0, "{fat:?}");
}

#[test]
fn dense_columns_keep_to_the_budget() {
    // The first level has many columns.
    let (rows, values) = dominated(&pattern_of(&circuit(90, 1)));
    for stream in streams() {
        let problem = Problem::<f64>::new(&stream, rows.clone(), &values);
        let expected = expect(&problem, PivotPolicy::STATIC);
        for deterministic in [false, true] {
            let options = |access, max_device_bytes| ColumnOptions {
                mode: ColumnMode::SmallBlock,
                access,
                deterministic,
                max_device_bytes,
            };
            let plan = problem
                .plan(&stream, &options(ElementAccess::Search, None))
                .unwrap();
            let least = plan.report().plan_bytes + plan.report().factor_bytes;
            let column = 8 * problem.filled.n() as u64;
            for columns in [1, 2, 5] {
                let budget = least + columns * column + 7;
                let plan = problem
                    .plan(&stream, &options(ElementAccess::Dense, Some(budget)))
                    .unwrap();
                let report = plan.report();
                assert_eq!(report.dense_columns as u64, columns);
                assert!(report.plan_bytes + report.factor_bytes <= budget);
                let before = stream.device().allocated_bytes();
                let factors = problem
                    .factorize(&stream, &plan, PivotPolicy::STATIC)
                    .unwrap();
                let taken = stream.device().allocated_bytes() - before;
                assert_eq!(taken, report.factor_bytes);
                let lu = stream.download(factors.values()).unwrap();
                assert_close(&lu, &expected.values, tolerance::<f64>(expected.n()));
            }
            // Not one column: search is what remains, unless it is excluded.
            let budget = least + column - 1;
            let plan = problem
                .plan(&stream, &options(ElementAccess::Auto, Some(budget)))
                .unwrap();
            assert_eq!(plan.report().dense_columns, 0);
            let refused = problem.plan(&stream, &options(ElementAccess::Dense, Some(budget)));
            assert_out_of_memory(refused.map(|_| ()), least + column, budget);
        }
    }
}

#[track_caller]
fn assert_out_of_memory(result: Result<(), NumericError>, bytes: u64, left: u64) {
    match result {
        Err(NumericError::Device(DeviceError::OutOfMemory { asked, available })) => {
            assert_eq!((asked, available), (bytes, left));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn too_little_memory_is_told_before_any_is_taken() {
    // A budget belongs to a whole device, so it is one of its own.
    let device = Device::simulator(SimulatorOptions::with_seed(1));
    let stream = device.create_stream().unwrap();
    let a = convection_diffusion_2d(9, 8, 1.0);
    let problem = Problem::<f64>::new(&stream, pattern_of(&a), a.data());
    for deterministic in [false, true] {
        let options = |max_device_bytes| ColumnOptions {
            access: ElementAccess::Search,
            deterministic,
            max_device_bytes,
            ..ColumnOptions::default()
        };
        let before = device.allocated_bytes();
        let plan = problem.plan(&stream, &options(None)).unwrap();
        let report = *plan.report();
        assert_eq!(device.allocated_bytes() - before, report.plan_bytes);
        let least = report.plan_bytes + report.factor_bytes;
        assert!(problem.plan(&stream, &options(Some(least))).is_ok());

        let before = device.allocated_bytes();
        device.reset_peak();
        let refused = problem.plan(&stream, &options(Some(least - 1)));
        assert_out_of_memory(refused.map(|_| ()), least, least - 1);
        assert_eq!(device.peak_bytes(), before);

        // The plan fits, but others took the memory of the factors since.
        device.set_budget(Some(before + report.factor_bytes - 1));
        let refused = problem.factorize(&stream, &plan, PivotPolicy::STATIC);
        let left = report.factor_bytes - 1;
        assert_out_of_memory(refused.map(|_| ()), report.factor_bytes, left);
        assert_eq!(device.peak_bytes(), before);
        device.set_budget(Some(before + report.factor_bytes));
        assert!(
            problem
                .factorize(&stream, &plan, PivotPolicy::STATIC)
                .is_ok()
        );
        device.set_budget(None);
    }
}

fn factorize_dense<T: DeviceScalar>(
    stream: &Stream,
    n: usize,
    values: &[f64],
    pivots: PivotPolicy,
) -> Result<(Vec<T>, luge_numeric::PivotReport), NumericError> {
    let problem = Problem::<T>::dense(stream, n, values);
    let plan = problem.plan(stream, &ColumnOptions::default())?;
    let factors = problem.factorize(stream, &plan, pivots)?;
    Ok((stream.download(factors.values())?, factors.pivots().clone()))
}

#[test]
fn small_pivots_are_replaced_with_their_sign_and_counted() {
    let perturb = PivotPolicy::replacing(0.25);
    for stream in streams() {
        let (lu, pivots) =
            factorize_dense::<f64>(&stream, 2, &[-1e-9, 0.0, 0.0, 4.0], perturb).unwrap();
        assert_eq!(lu, [-1.0, 0.0, 0.0, 4.0]);
        assert_eq!((pivots.num_perturbed, pivots.first_perturbed), (1, Some(0)));
        assert_eq!((pivots.min_pivot, pivots.max_pivot), (1.0, 4.0));
        let (lu, _) = factorize_dense::<f32>(&stream, 2, &[0.0, 4.0, 4.0, 0.0], perturb).unwrap();
        assert_eq!(lu[0], 1.0);
        // As large as the smallest that is taken.
        let (_, pivots) =
            factorize_dense::<f64>(&stream, 2, &[-1.0, 0.0, 0.0, 4.0], perturb).unwrap();
        assert_eq!((pivots.num_perturbed, pivots.first_perturbed), (0, None));
    }
}

#[test]
fn zero_pivots_name_their_column() {
    for stream in streams() {
        let keep = factorize_dense::<f64>(&stream, 2, &[1.0; 4], PivotPolicy::STATIC);
        assert!(matches!(keep, Err(NumericError::ZeroPivot { column: 1 })));
        let default = PivotPolicy::replacing_by_default(f64::EPSILON);
        let zero = factorize_dense::<f64>(&stream, 1, &[0.0], default);
        assert!(matches!(zero, Err(NumericError::ZeroPivot { column: 0 })));
    }
}

#[test]
fn overflow_and_nan_name_their_column() {
    for stream in streams() {
        let values = [1e-30, 1.0, 1e30, 1.0];
        let overflow = factorize_dense::<f32>(&stream, 2, &values, PivotPolicy::STATIC);
        assert!(matches!(
            overflow,
            Err(NumericError::NotFinite { column: 0 })
        ));
        let values = [1.0, f64::NAN, 1.0, 2.0];
        let nan = factorize_dense::<f64>(&stream, 2, &values, PivotPolicy::STATIC);
        assert!(matches!(nan, Err(NumericError::NotFinite { column: 1 })));
    }
}

#[test]
#[should_panic(expected = "entry (1, 0) is not in the filled pattern")]
fn an_entry_outside_is_a_broken_call() {
    let stream = &streams()[0];
    let diagonal = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 1]).unwrap();
    let problem = Problem::<f64>::new(stream, diagonal, &[1.0, 1.0]);
    let other = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 0]).unwrap();
    let _ = positions(stream, &problem.on_device, &other);
}

#[test]
fn the_flag_stops_the_phase() {
    let stream = &streams()[0];
    let problem = Problem::<f64>::dense(stream, 1, &[1.0]);
    let plan = problem.plan(stream, &ColumnOptions::default()).unwrap();
    let cancel = CancelFlag::new();
    cancel.cancel();
    let columns = problem.columns(&plan);
    let stopped = factorize(
        stream,
        columns,
        &problem.values,
        PivotPolicy::STATIC,
        &cancel,
    );
    assert!(matches!(stopped, Err(NumericError::Cancelled(_))));
}

#[test]
#[should_panic(expected = "levels and filled pattern differ")]
fn foreign_levels_are_a_broken_call() {
    let stream = &streams()[0];
    let problem = Problem::<f64>::dense(stream, 2, &[1.0, 0.0, 0.0, 1.0]);
    let levels = DeviceLevels::upload(stream, &Levels::from_level_of(vec![0])).unwrap();
    let options = ColumnOptions::default();
    let _ = ColumnPlan::<f64>::new(stream, &problem.on_device, &levels, &problem.rows, &options);
}

#[test]
#[should_panic(expected = "the plan is for another pattern")]
fn a_foreign_plan_is_a_broken_call() {
    let stream = &streams()[0];
    let problem = Problem::<f64>::dense(stream, 2, &[1.0, 0.0, 0.0, 1.0]);
    let other = Problem::<f64>::dense(stream, 1, &[1.0]);
    let plan = other.plan(stream, &ColumnOptions::default()).unwrap();
    let _ = problem.factorize(stream, &plan, PivotPolicy::STATIC);
}

/// Factorizes a matrix of the corpus on a device and on the CPU, and compares. The values of the factors, unless one
/// order of summation may overflow where another does not.
fn check_corpus_matrix(
    stream: &Stream,
    name: &str,
    problem: &Problem<f64>,
    options: &ColumnOptions,
) -> Option<Vec<f64>> {
    let policy = PivotPolicy::replacing_by_default(f64::EPSILON);
    let plan = problem.plan(stream, options).unwrap();
    let factors = problem.factorize(stream, &plan, policy);
    let pattern = luge_numeric::LuPattern::new(&problem.filled);
    let on_cpu = luge_numeric::cpu::static_pivoting::factorize(
        &pattern,
        &pattern.positions_of(&problem.rows),
        &problem.values,
        policy,
        &CancelFlag::new(),
    );
    let (factors, on_cpu) = match (factors, on_cpu) {
        (Ok(factors), Ok(on_cpu)) => (factors, on_cpu),
        // Where growth leaves no digit of a factor determined, and nears the largest number, one order of its sums may
        // overflow and another not.
        (Err(NumericError::NotFinite { .. }), Ok(on_cpu))
            if on_cpu.pivots.element_growth > 1e100 =>
        {
            return None;
        }
        (Ok(factors), Err(NumericError::NotFinite { .. }))
            if factors.pivots().element_growth > 1e100 =>
        {
            return None;
        }
        (device, cpu) => panic!("{name}, {options:?}: {device:?}, {cpu:?}"),
    };
    let (device, cpu) = (factors.pivots(), &on_cpu.pivots);
    eprintln!(
        "{name}, {options:?}: {} replaced, growth {:.1e}",
        device.num_perturbed, device.element_growth
    );
    let lu = stream.download(factors.values()).unwrap();
    // Growth carries rounding errors along; without it the factors agree.
    if cpu.num_perturbed == 0 && cpu.element_growth < 1e3 && cpu.min_pivot > 1e-6 {
        assert_eq!(device.num_perturbed, 0, "{name}, {options:?}");
        if problem.filled.n() <= 600 {
            let b = matrix_of(&problem.rows, problem.values.clone());
            assert_factor_error(&b, pattern.cols(), &lu);
        }
    }
    Some(lu)
}

#[test]
fn corpus_factors_match_the_cpu() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let streams = seeded_streams();
    let options = all_options();
    // Each matrix on one device with one choice of options, in turn; the test below has all of them.
    for (i, (name, rows)) in ordered_corpus(&corpus, &streams[0], QUICK).enumerate() {
        let stream = &streams[i % streams.len()];
        let problem = Problem::<f64>::new(stream, rows.pattern, &rows.values);
        check_corpus_matrix(stream, &name, &problem, &options[i % options.len()]);
    }
}

#[test]
#[ignore = "takes many minutes on the simulator"]
fn corpus_factors_match_the_cpu_in_every_mode() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let streams = seeded_streams();
    for (name, rows) in ordered_corpus(&corpus, &streams[0], SLOW) {
        let mut bits: Option<Vec<f64>> = None;
        for stream in &streams {
            let problem = Problem::<f64>::new(stream, rows.pattern.clone(), &rows.values);
            for options in all_options() {
                let lu = check_corpus_matrix(stream, &name, &problem, &options);
                if let (true, Some(lu)) = (options.deterministic, lu) {
                    assert_eq!(
                        *bits.get_or_insert_with(|| lu.clone()),
                        lu,
                        "{name}, {options:?}"
                    );
                }
            }
        }
    }
}
