//! Solves with fronts on the device: right for every order of A, and always with the same bits.

use std::sync::Arc;

use luge_device::{Backend, Device, SimulatorOptions, Stream};
use luge_frontal::gpu::{DeviceFrontalLu, DeviceTree, Limits, MemoryPlan, Placement, Workspace};
use luge_frontal::{Full, Symbolic, TreeOptions};
use luge_gpu_kernels::frontal::plan::{report, state};
use luge_gpu_kernels::frontal::solve::layout::{CONTROL_WORDS, MANY};
use luge_ordering::{Matching, Method, OrderingOptions, order};
use luge_sparse::{ColPerm, CompressedPattern, PivotPolicy, RowPerm, Scaling};
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d, laplacian_1d};
use sprs::CsMat;

use crate::chain::{RealDeviceScalar, noise, seeded_streams, streams};

/// Backward errors in units of n·ε that static pivots of these matrices stay below.
const BOUND: f64 = 32.0;

pub const PIVOTS: PivotPolicy = PivotPolicy::replacing(1e-30).in_fronts(1.0);

/// Uniform in −1 .. 1.
fn uniform(seed: u64, i: usize) -> f64 {
    (noise(seed, i) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

fn shuffled(n: usize, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.sort_by_key(|&i| noise(seed, i as usize));
    order
}

/// A matrix without structure, which needs exchanges of rows.
fn dense(n: usize) -> CsMat<f64> {
    let mut triplets = sprs::TriMat::new((n, n));
    for i in 0..n {
        for j in 0..n {
            triplets.add_triplet(i, j, uniform(7, i * n + j));
        }
    }
    triplets.to_csr()
}

/// Dense blocks of these numbers of pivots below one of `c`, each without entries in one of its columns, so that they
/// need not be merged: fronts of several tiles of both kinds. With `exchanges` the pivots are off the diagonal.
pub fn joined_fronts(pivots: &[usize], c: usize, exchanges: bool) -> CsMat<f64> {
    let n = pivots.iter().sum::<usize>() + c;
    // The block of each row, and where it begins.
    let mut blocks: Vec<(usize, usize)> = Vec::new();
    for (block, &k) in pivots.iter().chain([&c]).enumerate() {
        let start = blocks.len();
        blocks.extend(std::iter::repeat_n((block, start), k));
    }
    let mut triplets = sprs::TriMat::new((n, n));
    for i in 0..n {
        let (of_row, start) = blocks[i];
        // Rows of a block change places in groups of four.
        let group = start + (i - start) / 4 * 4;
        let next = group + (i + 1 - group) % 4;
        let is_whole = group + 4 <= n && blocks[group + 3].0 == of_row;
        let diagonal = if exchanges && is_whole { next } else { i };
        for (j, &(of_column, _)) in blocks.iter().enumerate() {
            let (block, other) = (of_row.min(of_column), i.max(j));
            let apart = of_row != of_column
                && (of_row.max(of_column) < pivots.len() || other == n - 1 - block);
            if !apart {
                let value = uniform(9, i * n + j) / 8.0;
                let value = if diagonal == j { value + 4.0 } else { value };
                triplets.add_triplet(i, j, value);
            }
        }
    }
    triplets.to_csr()
}

/// Two dense blocks of `k` pivots below one of `c`.
fn large_fronts(k: usize, c: usize) -> CsMat<f64> {
    joined_fronts(&[k, k], c, false)
}

/// B with A around it.
pub struct System {
    /// Rows of B.
    pub rows: Vec<Vec<(usize, f64)>>,
    pub block_ptr: Vec<usize>,
    row_perm: RowPerm,
    col_perm: ColPerm,
    scaling: Scaling,
    /// By columns of B, the entries of the diagonal blocks and their places in A.
    pub columns: CompressedPattern,
    pub entries: Vec<u32>,
    coupling: Arc<CompressedPattern>,
    coupling_entries: Vec<u32>,
    pub a: Vec<f64>,
    limits: Limits,
}

impl System {
    /// These diagonal blocks, with couplings right of them where `coupled(row, column)`, and factors of the scaling up to
    /// 2^±`spread`.
    pub fn new(
        blocks: &[CsMat<f64>],
        coupled: impl Fn(usize, usize) -> bool,
        spread: i32,
        seed: u64,
    ) -> Self {
        let mut block_ptr = vec![0];
        for block in blocks {
            block_ptr.push(block_ptr[block_ptr.len() - 1] + block.rows());
        }
        let n = block_ptr[blocks.len()];
        let mut rows: Vec<Vec<(usize, f64)>> = vec![Vec::new(); n];
        for (block, range) in blocks.iter().zip(block_ptr.windows(2)) {
            for (&value, (i, j)) in block {
                rows[range[0] + i].push((range[0] + j, value));
            }
            for (i, row) in rows.iter_mut().enumerate().take(range[1]).skip(range[0]) {
                row.extend(
                    (range[1]..n)
                        .filter(|&j| coupled(i, j))
                        .map(|j| (j, uniform(seed, i * n + j))),
                );
                row.sort_by_key(|entry| entry.0);
            }
        }
        let factor = |seed: u64, i: usize| {
            let exponent = (uniform(seed, i) * f64::from(spread)) as i32;
            2f64.powi(exponent)
        };
        let scaling = Scaling {
            rows: (0..n).map(|i| factor(seed + 1, i)).collect(),
            cols: (0..n).map(|i| factor(seed + 2, i)).collect(),
        };
        let row_perm = RowPerm::new(shuffled(n, seed + 3)).unwrap();
        let col_perm = ColPerm::new(shuffled(n, seed + 4)).unwrap();
        // A's values in an order of their own.
        let nnz: usize = rows.iter().map(Vec::len).sum();
        let place = shuffled(nnz, seed + 5);
        let mut a = vec![0.0; nnz];
        let mut by_column = vec![Vec::new(); n];
        let (mut coupling_ptr, mut coupling_idx) = (vec![0], Vec::new());
        let mut coupling_entries = Vec::new();
        let mut p = 0;
        for range in block_ptr.windows(2) {
            for (i, row) in rows.iter().enumerate().take(range[1]).skip(range[0]) {
                for &(j, value) in row {
                    let of_row = scaling.rows[row_perm.as_slice()[i] as usize];
                    let of_col = scaling.cols[col_perm.as_slice()[j] as usize];
                    a[place[p] as usize] = value / of_row / of_col;
                    if j < range[1] {
                        by_column[j].push((i as u32, place[p]));
                    } else {
                        coupling_idx.push(j as u32);
                        coupling_entries.push(place[p]);
                    }
                    p += 1;
                }
                coupling_ptr.push(coupling_idx.len() as u64);
            }
        }
        let mut ptr = vec![0];
        let (mut idx, mut entries) = (Vec::new(), Vec::new());
        for column in by_column {
            for (i, place) in column {
                idx.push(i);
                entries.push(place);
            }
            ptr.push(idx.len() as u64);
        }
        Self {
            rows,
            block_ptr,
            row_perm,
            col_perm,
            scaling,
            columns: CompressedPattern::new(n, ptr, idx).unwrap(),
            entries,
            coupling: Arc::new(CompressedPattern::new(n, coupling_ptr, coupling_idx).unwrap()),
            coupling_entries,
            a,
            limits: Limits::default(),
        }
    }

    pub fn alone(block: &CsMat<f64>) -> Self {
        Self::new(std::slice::from_ref(block), |_, _| false, 0, 1)
    }

    pub fn n(&self) -> usize {
        self.rows.len()
    }

    /// B·y or Bᵀ·y, and the same of magnitudes.
    fn times(&self, y: &[f64], transpose: bool) -> (Vec<f64>, Vec<f64>) {
        let (mut sum, mut size) = (vec![0.0; y.len()], vec![0.0; y.len()]);
        for (i, row) in self.rows.iter().enumerate() {
            for &(j, value) in row {
                let (to, from) = if transpose { (j, i) } else { (i, j) };
                sum[to] += value * y[from];
                size[to] += (value * y[from]).abs();
            }
        }
        (sum, size)
    }

    /// Where A has entry i of a right-hand side of B and unknown j, with their factors.
    fn placed(&self, transpose: bool) -> [(&[u32], &[f64]); 2] {
        let rows = (self.row_perm.as_slice(), &self.scaling.rows[..]);
        let cols = (self.col_perm.as_slice(), &self.scaling.cols[..]);
        if transpose {
            [cols, rows]
        } else {
            [rows, cols]
        }
    }

    /// The right-hand side of A with solution `y` of B.
    fn right_hand_side(&self, y: &[f64], transpose: bool) -> Vec<f64> {
        let [(perm, factors), _] = self.placed(transpose);
        let mut b = vec![0.0; y.len()];
        for (&old, value) in perm.iter().zip(self.times(y, transpose).0) {
            b[old as usize] = value / factors[old as usize];
        }
        b
    }

    /// ‖c − B·y‖∞ / ‖|B|·|y| + |c|‖∞ for a solution `x` of A.
    fn backward_error(&self, x: &[f64], b: &[f64], transpose: bool) -> f64 {
        let [(enter, before), (leave, after)] = self.placed(transpose);
        let scaled = |perm: &[u32], v: &[f64], f: &dyn Fn(f64, usize) -> f64| -> Vec<f64> {
            perm.iter()
                .map(|&old| f(v[old as usize], old as usize))
                .collect()
        };
        let y = scaled(leave, x, &|v, i| v / after[i]);
        let c = scaled(enter, b, &|v, i| v * before[i]);
        let (sum, size) = self.times(&y, transpose);
        let (mut error, mut largest) = (0.0f64, 0.0f64);
        for i in 0..c.len() {
            assert!(sum[i].is_finite(), "unknown {i}");
            error = error.max((c[i] - sum[i]).abs());
            largest = largest.max(size[i] + c[i].abs());
        }
        if largest == 0.0 { 0.0 } else { error / largest }
    }

    fn uploaded(&self, stream: &Stream, options: &TreeOptions) -> Arc<DeviceTree> {
        let tree = Arc::new(Symbolic::analyze(&self.columns, options).unwrap());
        let memory = MemoryPlan::with_limits(&tree, self.limits);
        let placement = self.placement();
        Arc::new(DeviceTree::upload(stream, &tree, &memory, &placement, 1).unwrap())
    }

    /// This one, with as many of several right-hand sides to a thread as large trees have.
    fn into_large(mut self) -> Self {
        self.limits.many_of_thread = 0;
        self
    }

    pub fn placement(&self) -> Placement<'_> {
        Placement {
            row_perm: &self.row_perm,
            col_perm: &self.col_perm,
            scaling: &self.scaling,
            entries: &self.entries,
            block_ptr: &self.block_ptr,
            coupling: &self.coupling,
            coupling_entries: &self.coupling_entries,
            conjugated: None,
        }
    }

    pub fn factorized<T: RealDeviceScalar>(
        &self,
        stream: &Stream,
        options: &TreeOptions,
    ) -> DeviceFrontalLu<T> {
        self.factorized_with(stream, options, &PIVOTS)
    }

    pub fn factorized_with<T: RealDeviceScalar>(
        &self,
        stream: &Stream,
        options: &TreeOptions,
        pivots: &PivotPolicy,
    ) -> DeviceFrontalLu<T> {
        let tree = self.uploaded(stream, options);
        let a = stream.upload(&self.a).unwrap();
        let factors = DeviceFrontalLu::factorize(stream, &tree, &a, pivots);
        factors.unwrap().0
    }

    /// Known solutions of B and the right-hand sides of A that belong to them.
    fn right_hand_sides(&self, nrhs: usize, transpose: bool) -> Vec<f64> {
        (0..nrhs)
            .flat_map(|rhs| {
                let y: Vec<f64> = (0..self.n())
                    .map(|i| 1.0 + uniform(rhs as u64, i))
                    .collect();
                self.right_hand_side(&y, transpose)
            })
            .collect()
    }

    /// Solves for some right-hand sides and checks each; the solutions.
    fn check<T: RealDeviceScalar>(
        &self,
        stream: &Stream,
        factors: &mut DeviceFrontalLu<T>,
        nrhs: usize,
        transpose: bool,
        what: &str,
    ) -> Vec<f64> {
        let n = self.n();
        let b = self.right_hand_sides(nrhs, transpose);
        let x = solved(stream, factors, &b, nrhs, transpose);
        let epsilon = if size_of::<T>() == 4 {
            f64::from(f32::EPSILON)
        } else {
            f64::EPSILON
        };
        let bound = BOUND * n as f64 * epsilon;
        for rhs in 0..nrhs {
            let range = rhs * n..(rhs + 1) * n;
            let error = self.backward_error(&x[range.clone()], &b[range], transpose);
            assert!(
                error <= bound,
                "{what}, right-hand side {rhs} of {nrhs}, transpose {transpose}: {error:e}, at most {bound:e}"
            );
        }
        x
    }
}

fn solved<T: RealDeviceScalar>(
    stream: &Stream,
    factors: &mut DeviceFrontalLu<T>,
    b: &[f64],
    nrhs: usize,
    transpose: bool,
) -> Vec<f64> {
    let mut x = stream.upload(b).unwrap();
    factors.solve(stream, &mut x, nrhs, transpose).unwrap();
    stream.download(&x).unwrap()
}

pub fn merged() -> TreeOptions {
    TreeOptions {
        zero_fraction: 0.9,
        tiny_zero_fraction: 0.9,
        tiny_pivots: 64,
        ..TreeOptions::default()
    }
}

fn one(value: f64) -> CsMat<f64> {
    CsMat::new((1, 1), vec![0, 1], vec![0], vec![value])
}

/// A big block among singles, on several levels, one single with many couplings.
fn coupled_blocks(spread: i32) -> System {
    let mut blocks: Vec<CsMat<f64>> = (0..40).map(|i| one(2.0 + uniform(5, i))).collect();
    blocks.push(circuit(60, 3));
    blocks.push(convection_diffusion_2d(7, 6, 1.0));
    blocks.extend((0..50).map(|i| one(-2.0 + uniform(6, i))));
    let coupled = |i: usize, j: usize| i == 3 || noise(11, i * 1000 + j).is_multiple_of(23);
    System::new(&blocks, coupled, spread, 20)
}

fn named_systems() -> Vec<(&'static str, System)> {
    vec![
        ("none", System::new(&[], |_, _| false, 0, 1)),
        ("one", System::alone(&one(-3.0))),
        ("line of 31", System::alone(&laplacian_1d(31))),
        ("line of 33", System::alone(&laplacian_1d(33))),
        ("dense 70", System::alone(&dense(70)).into_large()),
        (
            "arrow",
            System::alone(&arrow(60, ArrowHead::Last)).into_large(),
        ),
        ("grid", System::alone(&convection_diffusion_2d(12, 11, 1.0))),
        ("large fronts", System::alone(&large_fronts(40, 110))),
        ("blocks", coupled_blocks(0)),
        ("scaled blocks", coupled_blocks(250).into_large()),
    ]
}

#[test]
fn solutions_satisfy_the_matrix() {
    let options = [TreeOptions::default(), merged()];
    for (stream, options) in seeded_streams().iter().zip(options.iter().cycle()) {
        for (name, system) in named_systems() {
            let mut factors = system.factorized::<f64>(stream, options);
            for transpose in [false, true] {
                for nrhs in [1, 3] {
                    system.check(stream, &mut factors, nrhs, transpose, name);
                }
            }
        }
    }
}

#[test]
fn factors_may_be_of_single_precision() {
    let stream = &seeded_streams()[0];
    for (name, system) in named_systems() {
        let mut factors = system.factorized::<f32>(stream, &TreeOptions::default());
        system.check(stream, &mut factors, 1, false, name);
        system.check(stream, &mut factors, 2, true, name);
    }
}

#[test]
fn shuffles_need_not_order_memory() {
    let stream = &streams()[streams().len() - 1];
    for (name, system) in named_systems() {
        let mut factors = system.factorized::<f64>(stream, &merged());
        system.check(stream, &mut factors, 1, false, name);
        system.check(stream, &mut factors, 2, true, name);
    }
}

#[test]
fn many_right_hand_sides_and_many_blocks() {
    let stream = &seeded_streams()[0];
    let singles: Vec<CsMat<f64>> = (0..1025).map(|i| one(3.0 + uniform(8, i))).collect();
    let chains = System::new(&singles, |i, j| j == i + 1 && i % 3 < 2, 100, 4);
    let grid = System::alone(&convection_diffusion_2d(9, 8, 1.0));
    for (name, system, most) in [("chains", chains, 2), ("grid", grid, 65)] {
        let mut factors = system.factorized::<f64>(stream, &TreeOptions::default());
        for nrhs in [1, 2, 16, 33, 65] {
            if nrhs <= most {
                system.check(stream, &mut factors, nrhs, nrhs % 2 == 0, name);
            }
        }
        assert!(solved(stream, &mut factors, &[], 0, false).is_empty());
    }
}

/// A thread has two of several right-hand sides, and others have two more of them: four, two and one group of the lanes of a
/// warp, then lanes that have two rows, then four, two and one group of the warps of a block.
#[test]
fn groups_of_threads_share_right_hand_sides() {
    let stream = &seeded_streams()[0];
    for (pivots, below, of_rhs) in [
        (4, 5, [2, 8, 19]),
        (7, 10, [3, 9, 16]),
        (12, 20, [2, 16, 17]),
        (20, 40, [7, 8, 9]),
        (40, 25, [2, 9, 16]),
        (66, 60, [3, 8, 10]),
        (110, 90, [2, 9, 16]),
    ] {
        let system = || System::alone(&joined_fronts(&[pivots, pivots / 2], below, true));
        for (number, system) in [system(), system().into_large()].into_iter().enumerate() {
            let mut factors = system.factorized::<f64>(stream, &TreeOptions::default());
            for (at, nrhs) in of_rhs.into_iter().enumerate() {
                let name = format!("fronts of {pivots} pivots above {below}");
                system.check(stream, &mut factors, nrhs, at % 2 == number, &name);
            }
        }
    }
}

/// Every task waits for others: a block of large fronts among singles and a circuit.
fn mixed() -> System {
    let mut blocks: Vec<CsMat<f64>> = (0..12).map(|i| one(2.0 + uniform(5, i))).collect();
    blocks.push(large_fronts(36, 100));
    blocks.push(circuit(40, 3));
    blocks.push(one(4.0));
    System::new(
        &blocks,
        |i, j| noise(3, i * 1000 + j).is_multiple_of(31),
        60,
        2,
    )
}

#[test]
fn bits_do_not_depend_on_the_grid_or_the_schedule() {
    let system = mixed();
    let mut streams = seeded_streams();
    if luge_tests::backend() == Backend::Simulator {
        for resident_blocks in [2, 3] {
            let mut options = SimulatorOptions::with_seed(u64::from(resident_blocks));
            options.simulator.resident_blocks = resident_blocks;
            streams.push(Device::simulator(options).create_stream().unwrap());
        }
    }
    let mut expected: Option<Vec<Vec<f64>>> = None;
    for stream in &streams {
        let mut factors = system.factorized::<f64>(stream, &merged());
        let found: Vec<Vec<f64>> = [(1, false), (1, true), (2, false)]
            .iter()
            .map(|&(nrhs, transpose)| system.check(stream, &mut factors, nrhs, transpose, "mixed"))
            .collect();
        assert!(*expected.get_or_insert_with(|| found.clone()) == found);
    }
}

/// A stream of a device, if it is simulated, with two blocks.
fn stream_of_few_blocks() -> Stream {
    let mut device = luge_tests::devices().remove(0);
    if luge_tests::backend() == Backend::Simulator {
        let mut options = SimulatorOptions::with_seed(1);
        options.simulator.resident_blocks = 2;
        options.simulator.collectives_order_memory = false;
        device = Device::simulator(options);
    }
    device.create_stream().unwrap()
}

/// Fronts of more than 256 rows go by strips of 64, here the last one of pivots and the last one below them in part. On a
/// simulator with two blocks, each of which works on strips one after another.
fn solves_by_strips(pivots: usize, below: usize, of_rhs: &[usize]) {
    let stream = &stream_of_few_blocks();
    let system = System::alone(&joined_fronts(&[pivots, 3], below, true)).into_large();
    let options = TreeOptions {
        zero_fraction: 0.0,
        tiny_zero_fraction: 0.0,
        ..TreeOptions::default()
    };
    let tree = Symbolic::<Full>::analyze(&system.columns, &options).unwrap();
    let mut fronts = tree.tree().fronts().iter();
    let size = (pivots as u32, below as u32 - 1);
    assert!(fronts.any(|front| (front.pivots, front.below) == size));
    let mut factors = system.factorized::<f64>(stream, &options);
    for transpose in [false, true] {
        for &nrhs in of_rhs {
            system.check(stream, &mut factors, nrhs, transpose, "strips");
        }
    }
    let mut factors = system.factorized::<f32>(stream, &options);
    system.check(stream, &mut factors, of_rhs[0], true, "strips in f32");
    system.check(stream, &mut factors, 2, false, "strips in f32");
}

#[test]
fn very_large_fronts_are_solved_by_strips() {
    solves_by_strips(70, 190, &[1, 8, 16, 17]);
}

/// Three strips of pivots, and one strip of rows below; two strips of pivots and none below.
#[test]
fn very_large_fronts_of_more_strips() {
    solves_by_strips(200, 60, &[1, 9]);
    solves_by_strips(3, 290, &[1, 9]);
}

/// Of two diagonal blocks with strips one is coupled to the other, so each is a level, in which blocks take tasks by a counter
/// that goes on counting. A whole front of more than 128 rows has strips too where right-hand sides are several.
#[test]
fn strips_on_several_levels() {
    let stream = &stream_of_few_blocks();
    let blocks = [
        joined_fronts(&[66, 3], 5, false),
        joined_fronts(&[67, 2], 130, true),
    ];
    let system = System::new(&blocks, |i, j| (i + 3 * j).is_multiple_of(11), 0, 3);
    let options = TreeOptions {
        zero_fraction: 0.0,
        tiny_zero_fraction: 0.0,
        ..TreeOptions::default()
    };
    let mut factors = system.factorized::<f64>(stream, &options);
    for transpose in [false, true] {
        for nrhs in [1, 9] {
            system.check(stream, &mut factors, nrhs, transpose, "levels of strips");
        }
    }
}

/// Fronts of a warp with more rows than it has lanes, one of which adds to the last rows of the other.
#[test]
fn small_fronts_of_more_rows_than_lanes() {
    let stream = &streams()[streams().len() - 1];
    let (first, second, n) = (3, 11, 53);
    let mut triplets = sprs::TriMat::new((n, n));
    for i in 0..n {
        for j in 0..n {
            let (lower, upper) = (i.min(j), i.max(j));
            // Nothing but the root has the last column, and the first three have not the fourth, so it stays alone.
            let is_apart = lower < second && upper == n - 1 || lower < first && upper == first;
            if !is_apart {
                let value = uniform(9, i * n + j) / 8.0;
                triplets.add_triplet(i, j, if i == j { value + 4.0 } else { value });
            }
        }
    }
    let system = System::alone(&triplets.to_csr());
    let options = TreeOptions {
        zero_fraction: 0.0,
        tiny_zero_fraction: 0.0,
        ..TreeOptions::default()
    };
    let tree = Symbolic::<Full>::analyze(&system.columns, &options).unwrap();
    let sizes: Vec<_> = tree
        .tree()
        .fronts()
        .iter()
        .map(|f| (f.pivots, f.below))
        .collect();
    assert!(
        sizes.contains(&(1, 48)) && sizes.contains(&(10, 41)),
        "{sizes:?}"
    );
    let mut factors = system.factorized::<f64>(stream, &options);
    for transpose in [false, true] {
        for nrhs in [1, 3] {
            system.check(stream, &mut factors, nrhs, transpose, "small fronts");
        }
    }
}

/// One block of a simulator does all tasks, each of its warps several.
#[test]
fn workers_take_several_tasks() {
    let mut device = luge_tests::devices().remove(0);
    if luge_tests::backend() == Backend::Simulator {
        let mut options = SimulatorOptions::with_seed(1);
        options.simulator.resident_blocks = 1;
        device = Device::simulator(options);
    }
    let stream = &device.create_stream().unwrap();
    let system = System::alone(&convection_diffusion_2d(16, 11, 1.0));
    let mut factors = system.factorized::<f64>(stream, &TreeOptions::default());
    for nrhs in [1, 9, 17] {
        system.check(stream, &mut factors, nrhs, nrhs == 9, "grid");
    }
}

/// Rows of 33, 256, 257 and 600 couplings, of fronts of one pivot and of others, in one segment and in several.
#[test]
fn long_rows_come_in_segments() {
    let stream = &seeded_streams()[0];
    let mut blocks: Vec<CsMat<f64>> = (0..4).map(|i| one(2.0 + uniform(5, i))).collect();
    blocks.push(dense(4));
    blocks.extend((0..600).map(|i| one(3.0 + uniform(8, i))));
    let coupled = |i: usize, j: usize| {
        let lengths = [33, 256, 257, 600, 600, 33, 257, 32];
        j >= 8 && lengths.get(i).is_some_and(|length| j < 8 + length)
    };
    let system = System::new(&blocks, coupled, 3, 4);
    let mut factors = system.factorized::<f64>(stream, &TreeOptions::default());
    for nrhs in [1, 9, 17] {
        system.check(stream, &mut factors, nrhs, false, "long rows");
    }
    system.check(stream, &mut factors, 9, true, "long columns");
    let turned = |i: usize, j: usize| {
        let lengths = [33, 256, 257, 600];
        i < 600 && j >= 600 && j - 600 < 4 && i < lengths[j - 600]
    };
    let mut blocks: Vec<CsMat<f64>> = (0..600).map(|i| one(3.0 + uniform(8, i))).collect();
    blocks.extend((0..4).map(|i| one(2.0 + uniform(5, i))));
    let system = System::new(&blocks, turned, 3, 4);
    let mut factors = system.factorized::<f64>(stream, &TreeOptions::default());
    system.check(stream, &mut factors, 1, true, "long columns");
    system.check(stream, &mut factors, 9, true, "long columns");
}

/// Entries of a right-hand side that are smaller than its largest by 42 orders of magnitude, with factors of single
/// precision.
#[test]
fn small_entries_of_a_right_hand_side_keep_their_digits() {
    let stream = &seeded_streams()[0];
    let system = System::new(&[one(1.0), one(1.0), one(1.0)], |_, _| false, 0, 1);
    let mut factors = system.factorized::<f32>(stream, &TreeOptions::default());
    let b = [1.0, 1.2345678 * 2f64.powi(-140), -1.7 * 2f64.powi(-120)];
    let x = solved(stream, &mut factors, &b, 1, false);
    let [(enter, _), (leave, _)] = system.placed(false);
    for (&from, &to) in enter.iter().zip(leave) {
        let (b, x) = (b[from as usize], x[to as usize]);
        assert!(
            (x - b).abs() <= f64::from(f32::EPSILON) * b.abs(),
            "{x:e} for {b:e}"
        );
    }
}

/// A power of two more in a right-hand side is one in its solution, and nothing else.
fn scales_exactly<T: RealDeviceScalar>(stream: &Stream, system: &System) {
    let n = system.n();
    let mut factors = system.factorized::<T>(stream, &TreeOptions::default());
    for transpose in [false, true] {
        let b = system.right_hand_sides(3, transpose);
        let x = solved(stream, &mut factors, &b, 3, transpose);
        let powers = [-800, 900, 0];
        let times = |v: &[f64]| -> Vec<f64> {
            v.iter()
                .enumerate()
                .map(|(i, v)| v * 2f64.powi(powers[i / n]))
                .collect()
        };
        let far = solved(stream, &mut factors, &times(&b), 3, transpose);
        assert_eq!(far, times(&x));
        // What is not a number stays in its right-hand side, and nothing comes of nothing.
        let mut spoiled = b.clone();
        spoiled[n] = f64::NAN;
        spoiled[2 * n..].fill(0.0);
        let found = solved(stream, &mut factors, &spoiled, 3, transpose);
        assert_eq!(found[..n], x[..n]);
        assert!(found[n..2 * n].iter().any(|v| v.is_nan()));
        assert!(found[2 * n..].iter().all(|&v| v == 0.0));
    }
}

#[test]
fn right_hand_sides_may_be_far_from_one() {
    let stream = &seeded_streams()[0];
    let system = coupled_blocks(0);
    scales_exactly::<f64>(stream, &system);
    scales_exactly::<f32>(stream, &system);
}

#[test]
fn solves_follow_a_refactorization() {
    let stream = &seeded_streams()[0];
    let system = coupled_blocks(30);
    let mut factors = system.factorized::<f64>(stream, &merged());
    let b = system.right_hand_sides(1, false);
    let before = solved(stream, &mut factors, &b, 1, false);
    let a: Vec<f64> = system.a.iter().map(|v| v / 4.0).collect();
    factors
        .refactorize(stream, &stream.upload(&a).unwrap(), &PIVOTS)
        .unwrap();
    let after = solved(stream, &mut factors, &b, 1, false);
    let expected: Vec<f64> = before.iter().map(|x| x * 4.0).collect();
    assert_eq!(after, expected);
}

/// Factors and a workspace take as many bytes as is said before they are there.
fn takes_what_it_says<T: RealDeviceScalar>(
    stream: &Stream,
    name: &str,
    system: &System,
    options: &TreeOptions,
) {
    let device = stream.device();
    let a = stream.upload(&system.a).unwrap();
    let on_device = system.uploaded(stream, options);
    let tree = on_device.symbolic();
    let value_bytes = size_of::<T>();

    // Lists for several right-hand sides are made with the first of such solves, and stay with the tree: here elsewhere.
    {
        let factors = DeviceFrontalLu::<T>::factorize(stream, &on_device, &a, &PIVOTS);
        let mut several = stream.upload(&vec![1.0; 3 * system.n()]).unwrap();
        let (mut factors, _) = factors.unwrap();
        factors.solve(stream, &mut several, 3, false).unwrap();
    }

    let before_workspace = device.allocated_bytes();
    let workspace = Arc::new(Workspace::new(stream, &on_device).unwrap());
    let before_factors = device.allocated_bytes();
    let factors = DeviceFrontalLu::<T>::factorize_in(&workspace, stream, &on_device, &a, &PIVOTS);
    let (mut factors, _) = factors.unwrap();
    let before_solve = device.allocated_bytes();
    // The entries right of the diagonal blocks are not counted.
    let of_coupling = (system.coupling.nnz() * value_bytes) as u64;
    let of_factors = DeviceTree::factor_bytes(tree, value_bytes) + of_coupling;
    assert_eq!(before_solve - before_factors, of_factors, "{name}");

    // A workspace for solves with one right-hand side of either kind.
    let mut x = stream.upload(&vec![1.0; system.n()]).unwrap();
    let before_vectors = device.allocated_bytes();
    factors.solve(stream, &mut x, 1, false).unwrap();
    let of_vectors = device.allocated_bytes() - before_vectors;
    let of_working = before_factors - before_workspace;
    let of_workspace = Workspace::<T>::bytes(&on_device);
    assert_eq!(of_working + of_vectors, of_workspace, "{name}");

    // Those for several serve one as well. They lie where elements were if there is room for them.
    let mut several = stream.upload(&vec![1.0; 3 * system.n()]).unwrap();
    let before_several = device.allocated_bytes();
    factors.solve(stream, &mut several, 3, false).unwrap();
    factors.solve(stream, &mut x, 1, false).unwrap();
    let more = device.allocated_bytes() - before_several;
    if of_vectors > 0 {
        assert_eq!(more, of_vectors * (MANY as u64 - 1), "{name}");
    } else {
        let of_one = 3 * system.n() as u64 * value_bytes as u64;
        assert!(more == 0 || more >= of_one * MANY as u64, "{name}: {more}");
    }

    // What is known of it before there is a plan: all but the state, the extremes and the two controls of solves.
    let predicted = DeviceTree::workspace_bytes(tree, &MemoryPlan::new(tree), value_bytes);
    let of_reports = 4 * state::LEN + 8 * report::NUM_EXTREMES;
    let of_controls = 2 * 4 * CONTROL_WORDS;
    let of_rest = (of_reports + of_controls) as u64;
    assert_eq!(of_working, predicted + of_rest, "{name}");
}

#[test]
fn factors_and_workspaces_take_what_was_predicted() {
    let stream = &seeded_streams()[0];
    for (name, system) in [
        ("one", System::alone(&one(-3.0))),
        ("line", System::alone(&laplacian_1d(33))),
        ("grid", System::alone(&convection_diffusion_2d(12, 11, 1.0))),
        ("large fronts", System::alone(&large_fronts(10, 100))),
        ("blocks", coupled_blocks(0)),
    ] {
        takes_what_it_says::<f64>(stream, name, &system, &TreeOptions::default());
        takes_what_it_says::<f32>(stream, name, &system, &merged());
    }
}

/// The matrix in an order of nested dissection.
pub(crate) fn dissected(a: &CsMat<f64>) -> CsMat<f64> {
    let options = OrderingOptions::default()
        .method(Method::NestedDissection)
        .matching(Matching::Never)
        .block_triangular(false);
    let ordering = order(&pattern_of(a), None, &options).unwrap();
    let place = ordering.col_perm.inverse();
    let mut permuted = sprs::TriMat::new(a.shape());
    for (&value, (i, j)) in a {
        permuted.add_triplet(place[i] as usize, place[j] as usize, value);
    }
    permuted.to_csr()
}

#[test]
fn trees_take_about_what_was_predicted() {
    let stream = &seeded_streams()[0];
    let device = stream.device();
    let grid = |n| System::alone(&dissected(&convection_diffusion_2d(n, n, 1.0)));
    for (name, system) in [
        ("line", System::alone(&laplacian_1d(500))),
        ("grid of 20", grid(20)),
        ("grid of 50", grid(50)),
        ("large fronts", System::alone(&large_fronts(60, 100))),
        ("circuit", System::alone(&circuit(1000, 3))),
    ] {
        let before = device.allocated_bytes();
        let on_device = system.uploaded(stream, &TreeOptions::default());
        let tree = on_device.symbolic();
        let taken = device.allocated_bytes() - before;
        let memory = MemoryPlan::new(tree);
        // What is predicted for the tree does not depend on the values.
        let of_tree = |value_bytes| {
            DeviceTree::predicted_bytes(tree, &memory, value_bytes)
                - DeviceTree::factor_bytes(tree, value_bytes)
                - DeviceTree::workspace_bytes(tree, &memory, value_bytes)
        };
        assert_eq!(of_tree(8), of_tree(4), "{name}");
        let ratio = taken as f64 / of_tree(8) as f64;
        assert!(
            (0.85..1.25).contains(&ratio),
            "{name}: {taken} bytes, {ratio:.3}"
        );
    }
}

#[test]
fn factors_of_the_scaling_may_span_the_range() {
    let stream = &seeded_streams()[0];
    // Entries of A stay within the range while both of their factors go to its ends.
    let mut system = System::alone(&convection_diffusion_2d(6, 6, 1.0));
    system.scaling.rows.fill(2f64.powi(1020));
    system.scaling.cols.fill(2f64.powi(-1022));
    for value in &mut system.a {
        *value *= 4.0;
    }
    for transpose in [false, true] {
        let n = system.n();
        let mut factors = system.factorized::<f32>(stream, &TreeOptions::default());
        let y = vec![1.0; n];
        let b = system.right_hand_side(&y, transpose);
        let x = solved(stream, &mut factors, &b, 1, transpose);
        let [_, (_, after)] = system.placed(transpose);
        for (x, after) in x.iter().zip(after) {
            let y = x / after;
            assert!((y - 1.0).abs() < 1e-4, "{y} in place of 1");
        }
    }
}
