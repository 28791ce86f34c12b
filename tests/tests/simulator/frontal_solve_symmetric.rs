//! Solves with L·D·Lᵀ on the device: those of the CPU with the same factors, to rounding, and always with the same bits.

use std::sync::Arc;

use luge_device::{Backend, Device, DeviceError, SimulatorOptions, Stream};
use luge_frontal::gpu::{
    DeviceFrontalError, DeviceFrontalLdlt, DeviceTree, MemoryPlan, MovedTree, Placement,
    SymmetricFactors, UploadedLdlt,
};
use luge_frontal::{FrontalLdlt, FrontalScalar, Lower, Options, Symbolic, TreeOptions};
use luge_sparse::{
    CancelFlag, ColPerm, CompressedPattern, PivotKind, PivotPolicy, RealScalar, RowPerm, Scaling,
    SmallPivots, SymmetricPivoting,
};

use crate::chain::{RealDeviceScalar, noise, seeded_streams, streams};

/// Differences from the solution of the CPU, in units of n·ε times its largest entry, that these matrices stay below.
const BOUND: f64 = 16.0;

/// Column by column, so that pivots are where they are asked for; those of nothing but zeros are zero.
const PIVOTS: PivotPolicy = PivotPolicy {
    kind: PivotKind::Symmetric {
        threshold: 0.01,
        method: SymmetricPivoting::Columns,
    },
    small: SmallPivots::Accept { below: 0.0 },
};

/// Uniform in −1 .. 1.
fn uniform(seed: u64, i: usize) -> f64 {
    (noise(seed, i) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

fn shuffled(n: usize, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.sort_by_key(|&i| noise(seed, i as usize));
    order
}

/// What is on the diagonal of a block at some of its rows, and beside it.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// ±4.
    One,
    /// Zero, 4 beside it, zero: a pivot of order 2.
    FirstOfTwo,
    SecondOfTwo,
    /// Nothing but zeros in the row and in the column.
    Zero,
}

/// As asked for by `first(row)` of a block: rows of which a pivot of order 2 begins.
fn twos(first: impl Fn(usize) -> bool, row: usize, rows: usize) -> At {
    if first(row) && row + 1 < rows {
        At::FirstOfTwo
    } else if row > 0 && first(row - 1) {
        At::SecondOfTwo
    } else {
        At::One
    }
}

/// Entries i ≥ j of a symmetric matrix: dense blocks of these numbers of pivots below one of `c`, each without entries in
/// one of its columns, so that they need not be merged.
fn joined_fronts(
    pivots: &[usize],
    c: usize,
    at: impl Fn(usize, usize) -> At,
) -> Vec<(usize, usize, f64)> {
    // The block of each row, and where it begins, and how long it is.
    let mut blocks: Vec<(usize, usize, usize)> = Vec::new();
    for (block, &k) in pivots.iter().chain([&c]).enumerate() {
        let start = blocks.len();
        blocks.extend(std::iter::repeat_n((block, start, k), k));
    }
    let n = blocks.len();
    let at = |i: usize| at(i - blocks[i].1, blocks[i].2);
    let mut entries = Vec::new();
    for i in 0..n {
        for j in 0..=i {
            let (block, other) = (blocks[j].0, blocks[i].0);
            let apart = block != other && (other < pivots.len() || i == n - 1 - block);
            if apart {
                continue;
            }
            let value = if at(i) == At::Zero || at(j) == At::Zero {
                0.0
            } else if i == j {
                match at(i) {
                    At::One if i.is_multiple_of(3) => -4.0,
                    At::One => 4.0,
                    _ => 0.0,
                }
            } else if i == j + 1 && block == other && at(j) == At::FirstOfTwo {
                4.0
            } else {
                uniform(9, i * n + j) / 8.0
            };
            entries.push((i, j, value));
        }
    }
    entries
}

/// The entries of diagonal blocks one after the other.
fn side_by_side(blocks: &[Vec<(usize, usize, f64)>]) -> Vec<(usize, usize, f64)> {
    let mut all = Vec::new();
    let mut start = 0;
    for block in blocks {
        all.extend(block.iter().map(|&(i, j, v)| (start + i, start + j, v)));
        start += 1 + block.iter().map(|entry| entry.0).max().unwrap_or(0);
    }
    all
}

/// B with A around it, and the factors of the CPU.
struct System<T: FrontalScalar> {
    n: usize,
    perm: Vec<u32>,
    factors_of_scaling: Vec<f64>,
    symbolic: Arc<Symbolic<Lower>>,
    pattern: CompressedPattern,
    values: Vec<T>,
    factors: FrontalLdlt<T>,
}

impl<T: RealDeviceScalar + FrontalScalar> System<T> {
    /// With factors of the scaling up to 2^±`spread`.
    fn new(entries: &[(usize, usize, f64)], options: &TreeOptions, spread: i32) -> Self {
        Self::with(entries, options, spread, &PIVOTS)
    }

    fn with(
        entries: &[(usize, usize, f64)],
        options: &TreeOptions,
        spread: i32,
        pivots: &PivotPolicy,
    ) -> Self {
        let n = entries.iter().map(|entry| entry.0 + 1).max().unwrap_or(0);
        let mut columns: Vec<Vec<(u32, f64)>> = vec![Vec::new(); n];
        for (p, &(i, j, value)) in entries.iter().enumerate() {
            // In either triangle.
            let (i, j) = if noise(13, p).is_multiple_of(2) {
                (i, j)
            } else {
                (j, i)
            };
            columns[j].push((i as u32, value));
        }
        let (mut ptr, mut idx, mut values) = (vec![0], Vec::new(), Vec::new());
        for column in &mut columns {
            column.sort_by_key(|entry| entry.0);
            for &(i, value) in column.iter() {
                idx.push(i);
                values.push(RealScalar::from_f64(value));
            }
            ptr.push(idx.len() as u64);
        }
        let pattern = CompressedPattern::new(n, ptr, idx).unwrap();
        let symbolic = Arc::new(Symbolic::analyze(&pattern, options).unwrap());
        let options = Options {
            pivots: *pivots,
            ..Options::default()
        };
        let (factors, quality) = FrontalLdlt::factorize(&symbolic, &values, &options).unwrap();
        assert_eq!(quality.num_delayed, 0, "no pivot is delayed");
        let factor = |i| 2f64.powi((uniform(2, i) * f64::from(spread)) as i32);
        Self {
            n,
            perm: shuffled(n, 5),
            factors_of_scaling: (0..n).map(factor).collect(),
            symbolic,
            pattern,
            values,
            factors,
        }
    }

    fn tree(
        &self,
        stream: &Stream,
        symbolic: &Arc<Symbolic<Lower>>,
    ) -> Result<DeviceTree<Lower>, DeviceError> {
        let (row_perm, col_perm) = (
            RowPerm::new(self.perm.clone()).unwrap(),
            ColPerm::new(self.perm.clone()).unwrap(),
        );
        let scaling = Scaling {
            rows: self.factors_of_scaling.clone(),
            cols: self.factors_of_scaling.clone(),
        };
        let none = CompressedPattern::new(self.n, vec![0; self.n + 1], Vec::new()).unwrap();
        let placement = Placement {
            row_perm: &row_perm,
            col_perm: &col_perm,
            scaling: &scaling,
            entries: &(0..self.pattern.nnz() as u32).collect::<Vec<_>>(),
            block_ptr: &[0, self.n],
            coupling: &Arc::new(none),
            coupling_entries: &[],
            conjugated: None,
        };
        DeviceTree::upload(stream, symbolic, &MemoryPlan::new(symbolic), &placement, 1)
    }

    /// The factors of the CPU on the device.
    fn uploaded(&self, stream: &Stream) -> UploadedLdlt<T> {
        let tree = self.tree(stream, &self.symbolic).unwrap();
        UploadedLdlt::upload(stream, &Arc::new(tree), &self.factors).unwrap()
    }

    /// Right-hand sides of A without entries where the matrix has none, so the unknowns there are zero.
    fn consistent(&self, nrhs: usize) -> Vec<f64> {
        let mut is_met = vec![false; self.n];
        for j in 0..self.n {
            for p in self.pattern.range(j) {
                let is_entry = self.values[p] != T::zero();
                is_met[j] |= is_entry;
                is_met[self.pattern.idx()[p] as usize] |= is_entry;
            }
        }
        let mut b = vec![0.0; self.n * nrhs];
        for rhs in 0..nrhs {
            for (i, &old) in self.perm.iter().enumerate() {
                let at = rhs * self.n + old as usize;
                let factor = self.factors_of_scaling[old as usize];
                if is_met[i] {
                    b[at] = (1.5 + uniform(3, at)) / factor;
                }
            }
        }
        b
    }

    /// What the CPU makes of right-hand sides of A with some of the factors.
    fn expected(&self, b: &[f64], nrhs: usize, of: SymmetricFactors) -> Vec<f64> {
        let [enters, leaves] = [
            of == SymmetricFactors::L || of == SymmetricFactors::ALL,
            of != SymmetricFactors::L && of != SymmetricFactors::D,
        ];
        let factor = |scales: bool, old: usize| {
            if scales {
                self.factors_of_scaling[old]
            } else {
                1.0
            }
        };
        let mut y = vec![T::zero(); b.len()];
        for rhs in 0..nrhs {
            for (i, &old) in self.perm.iter().enumerate() {
                let value = b[rhs * self.n + old as usize] * factor(enters, old as usize);
                y[rhs * self.n + i] = RealScalar::from_f64(value);
            }
        }
        let (f, never) = (&self.factors, CancelFlag::new());
        if of == SymmetricFactors::ALL {
            f.solve(&mut y, nrhs, 1, &never).unwrap();
        } else if of == SymmetricFactors::L {
            f.solve_lower(&mut y, nrhs, 1, &never).unwrap();
        } else {
            if of != SymmetricFactors::TRANSPOSED_L {
                f.solve_diagonal(&mut y, nrhs, 1, &never).unwrap();
            }
            if of != SymmetricFactors::D {
                f.solve_upper(&mut y, nrhs, 1, &never).unwrap();
            }
        }
        let mut x = vec![0.0; b.len()];
        for rhs in 0..nrhs {
            for (i, &old) in self.perm.iter().enumerate() {
                let value = RealScalar::to_f64(y[rhs * self.n + i]);
                x[rhs * self.n + old as usize] = value * factor(leaves, old as usize);
            }
        }
        x
    }

    /// Solves for some right-hand sides, and compares each with what the CPU makes of it; the solutions.
    fn check(
        &self,
        stream: &Stream,
        factors: &mut UploadedLdlt<T>,
        nrhs: usize,
        of: SymmetricFactors,
        what: &str,
    ) -> Vec<f64> {
        let n = self.n;
        // Near one where they are scaled.
        let enters = of == SymmetricFactors::L || of == SymmetricFactors::ALL;
        let b: Vec<f64> = (0..n * nrhs)
            .map(|i| {
                let value = 1.5 + uniform(3, i);
                if enters {
                    value / self.factors_of_scaling[i % n]
                } else {
                    value
                }
            })
            .collect();
        let mut x = stream.upload(&b).unwrap();
        factors.solve(stream, &mut x, nrhs, of).unwrap();
        let x = stream.download(&x).unwrap();
        let expected = self.expected(&b, nrhs, of);
        let leaves = of != SymmetricFactors::L && of != SymmetricFactors::D;
        let epsilon = RealScalar::to_f64(T::epsilon());
        for rhs in 0..nrhs {
            let (mut difference, mut largest) = (0.0f64, 0.0f64);
            for old in 0..n {
                let factor = if leaves {
                    self.factors_of_scaling[old]
                } else {
                    1.0
                };
                let at = rhs * n + old;
                assert!(x[at].is_finite(), "{what}: unknown {old}");
                difference = difference.max((x[at] - expected[at]).abs() / factor);
                largest = largest.max(expected[at].abs() / factor);
            }
            let bound = BOUND * n as f64 * epsilon * largest;
            assert!(
                difference <= bound,
                "{what}, right-hand side {rhs} of {nrhs}, {of:?}: {difference:e}, at most {bound:e}"
            );
        }
        x
    }

    /// Positions within their fronts at which pivots of order 2 begin, for fronts of so many pivots and rows below.
    fn firsts_of_two(&self, pivots: u32, below: u32) -> Vec<usize> {
        let d = self.factors.d();
        let fronts = self.symbolic.tree().fronts().iter();
        let of_size = fronts.filter(|f| (f.pivots, f.below) == (pivots, below));
        let mut is_met = false;
        let firsts = of_size.flat_map(|front| {
            is_met = true;
            let range = front.start as usize..(front.start + front.pivots) as usize;
            let is_first = |e: &usize| d[2 * e + 1] != T::zero();
            range.filter(is_first).map(|e| e - front.start as usize)
        });
        let firsts = firsts.collect();
        assert!(is_met, "a front of {pivots} pivots and {below} rows below");
        firsts
    }
}

const OF_RHS: [usize; 5] = [1, 8, 9, 17, 70];

/// Fronts as they are given, none merged.
fn apart() -> TreeOptions {
    TreeOptions {
        zero_fraction: 0.0,
        tiny_zero_fraction: 0.0,
        ..TreeOptions::default()
    }
}

/// A simulator with so many blocks, whose collectives order no memory.
fn stream_of(resident_blocks: usize) -> Stream {
    let mut device = luge_tests::devices().remove(0);
    if luge_tests::backend() == Backend::Simulator {
        let mut options = SimulatorOptions::with_seed(resident_blocks as u64);
        options.simulator.resident_blocks = resident_blocks as u32;
        options.simulator.collectives_order_memory = false;
        device = Device::simulator(options);
    }
    device.create_stream().unwrap()
}

/// A diagonal of 1025 entries, some of them zero.
#[test]
fn fronts_of_one_pivot() {
    let stream = &seeded_streams()[0];
    let d = |i: usize| {
        if i % 7 == 3 {
            0.0
        } else {
            uniform(8, i) + if i.is_multiple_of(2) { 3.0 } else { -3.0 }
        }
    };
    let entries: Vec<_> = (0..1025).map(|i| (i, i, d(i))).collect();
    let system = System::<f64>::new(&entries, &TreeOptions::default(), 100);
    assert_eq!(system.factors.rank(), 1025 - 146);
    let mut factors = system.uploaded(stream);
    for nrhs in [1, 9] {
        for of in EACH {
            system.check(stream, &mut factors, nrhs, of, "singles");
        }
    }
    // Nothing at all.
    let system = System::<f64>::new(&[], &TreeOptions::default(), 0);
    let mut factors = system.uploaded(stream);
    system.check(stream, &mut factors, 1, SymmetricFactors::ALL, "none");
}

const EACH: [SymmetricFactors; 5] = [
    SymmetricFactors::ALL,
    SymmetricFactors::L,
    SymmetricFactors::D,
    SymmetricFactors::TRANSPOSED_L,
    SymmetricFactors::D_AND_TRANSPOSED_L,
];

/// Fronts of warps: a forest of blocks with pivots of both orders and zero pivots, some next to a pivot of order 2.
fn small_fronts() -> Vec<(usize, usize, f64)> {
    let blocks: Vec<_> = (0..6)
        .map(|seed| {
            joined_fronts(&[5, 7 + seed, 2, 9, 1, 3], 8 + seed, |row, rows| {
                if row % 5 == 3 && rows % 2 == 0 {
                    At::Zero
                } else {
                    twos(|row| row % 5 == 1, row, rows)
                }
            })
        })
        .collect();
    side_by_side(&blocks)
}

#[test]
fn small_fronts_with_pivots_of_both_orders() {
    let entries = small_fronts();
    for (stream, options) in streams()
        .iter()
        .zip([TreeOptions::default(), apart()].iter().cycle())
    {
        let system = System::<f64>::new(&entries, options, 30);
        assert!(system.factors.quality().num_two > 20 && system.factors.quality().num_zero > 5);
        let mut factors = system.uploaded(stream);
        for nrhs in OF_RHS {
            system.check(stream, &mut factors, nrhs, SymmetricFactors::ALL, "small");
        }
        let system = System::<f32>::new(&entries, options, 3);
        let mut factors = system.uploaded(stream);
        for nrhs in [1, 9] {
            system.check(stream, &mut factors, nrhs, SymmetricFactors::ALL, "f32");
        }
    }
}

/// Fronts of a warp with more rows than it has lanes, one of which adds to the last rows of the other.
#[test]
fn small_fronts_of_more_rows_than_lanes() {
    let stream = &streams()[streams().len() - 1];
    let (first, second, n) = (3, 11, 53);
    let mut entries = Vec::new();
    for i in 0..n {
        for j in 0..=i {
            // Nothing but the root has the last column, and the first three have not the fourth, so it stays alone.
            let is_apart = j < second && i == n - 1 || j < first && i == first;
            let is_two = |i: usize| i > first && i < 10 && matches!(i % 3, 1 | 2);
            let value = match i - j {
                0 if is_two(i) => 0.0,
                0 => 4.0,
                1 if is_two(j) && j % 3 == 1 => 4.0,
                _ => uniform(9, i * n + j) / 8.0,
            };
            if !is_apart {
                entries.push((i, j, value));
            }
        }
    }
    let system = System::<f64>::new(&entries, &apart(), 10);
    let firsts = system.firsts_of_two(10, 41);
    assert!(firsts.len() > 1, "{firsts:?}");
    assert!(system.firsts_of_two(1, 48).is_empty());
    let mut factors = system.uploaded(stream);
    for of in EACH {
        for nrhs in [1, 9] {
            system.check(stream, &mut factors, nrhs, of, "small fronts");
        }
    }
}

/// Pivots of order 2 at the end of every 16 rows, and zero pivots at two rows.
fn at_ends(zeros: [usize; 2]) -> impl Fn(usize, usize) -> At {
    move |row, rows| {
        if zeros.contains(&row) {
            At::Zero
        } else {
            twos(|row| row % 16 == 15, row, rows)
        }
    }
}

/// Joined fronts, the first of which has pivots of order 2 beginning at all of `firsts`, between the rows of two warps or
/// strips: where the search for pivots puts those depends on where zero pivots are.
fn with_twos_at(pivots: &[usize], c: usize, firsts: &[usize]) -> System<f64> {
    let (size, below) = match pivots {
        [] => (c, 0),
        [k, ..] => (*k, c - 1),
    };
    let zeros = (1..30).flat_map(|first| (33..size.max(34)).map(move |second| [first, second]));
    let mut systems = zeros.map(|zeros| {
        let entries = joined_fronts(pivots, c, at_ends(zeros));
        System::new(&entries, &apart(), 10)
    });
    let fits = |system: &System<f64>| {
        let found = system.firsts_of_two(size as u32, below as u32);
        firsts.iter().all(|first| found.contains(first))
    };
    systems.find(fits).expect("pivots of order 2 there")
}

/// A block works on each, whose warps have 32 rows.
#[test]
fn fronts_of_a_block() {
    let stream = &streams()[streams().len() - 1];
    for (pivots, c, firsts) in [
        (&[40, 34][..], 100, &[31][..]),
        (&[], 70, &[31, 63]),
        (&[], 256, &[31]),
    ] {
        let system = with_twos_at(pivots, c, firsts);
        assert!(system.factors.quality().num_zero > 0);
        let mut factors = system.uploaded(stream);
        for nrhs in OF_RHS {
            if c < 256 || nrhs < 17 {
                let of = SymmetricFactors::ALL;
                system.check(stream, &mut factors, nrhs, of, "whole fronts");
            }
        }
    }
    let system = System::<f32>::new(&joined_fronts(&[], 95, at_ends([3, 40])), &apart(), 1);
    let mut factors = system.uploaded(stream);
    for of in EACH {
        for nrhs in [1, 9] {
            system.check(stream, &mut factors, nrhs, of, "whole fronts in f32");
        }
    }
}

/// Fronts of more than 256 rows go by strips of 64, on two blocks, each of which works on strips one after another.
fn solves_by_strips(pivots: usize, below: usize, firsts: &[usize], of_rhs: &[usize]) {
    let stream = &stream_of(2);
    let system = with_twos_at(&[pivots, 3], below, firsts);
    let mut factors = system.uploaded(stream);
    for &nrhs in of_rhs {
        let of = SymmetricFactors::ALL;
        system.check(stream, &mut factors, nrhs, of, "strips");
    }
    for of in EACH {
        system.check(stream, &mut factors, 1, of, "strips");
        system.check(stream, &mut factors, 9, of, "strips");
    }
    let entries = joined_fronts(&[pivots, 3], below, at_ends([2, 50]));
    let system = System::<f32>::new(&entries, &apart(), 1);
    let mut factors = system.uploaded(stream);
    for nrhs in [1, 2] {
        let of = SymmetricFactors::ALL;
        system.check(stream, &mut factors, nrhs, of, "strips in f32");
    }
}

#[test]
fn very_large_fronts_are_solved_by_strips() {
    solves_by_strips(70, 190, &[63], &[8, 16, 17]);
}

/// Four strips of pivots, and one strip of rows below; five strips of pivots and none below.
#[test]
fn very_large_fronts_of_more_strips() {
    solves_by_strips(200, 60, &[63, 127], &[9]);
    solves_by_strips(3, 290, &[], &[9]);
}

/// The search by blocks, and no search: factors of either kind of policy.
#[test]
fn factors_of_any_policy() {
    let stream = &seeded_streams()[0];
    let entries = joined_fronts(&[40, 36], 70, at_ends([20, 60]));
    let system = System::<f64>::with(
        &entries,
        &apart(),
        5,
        &PivotPolicy {
            kind: PivotKind::Symmetric {
                threshold: 0.01,
                method: SymmetricPivoting::Blocks,
            },
            ..PIVOTS
        },
    );
    assert!(system.factors.quality().num_two > 5);
    let mut factors = system.uploaded(stream);
    system.check(stream, &mut factors, 1, SymmetricFactors::ALL, "blocks");
    let definite: Vec<_> = joined_fronts(&[12, 40], 70, |_, _| At::One)
        .into_iter()
        .map(|(i, j, value)| (i, j, if i == j { 9.0 } else { value }))
        .collect();
    let policy = &PivotPolicy::DEFINITE;
    let system = System::<f64>::with(&definite, &apart(), 5, policy);
    let mut factors = system.uploaded(stream);
    for nrhs in [1, 9] {
        let of = SymmetricFactors::ALL;
        system.check(stream, &mut factors, nrhs, of, "definite");
    }
}

#[test]
fn bits_do_not_depend_on_the_grid_or_the_schedule() {
    let mut blocks = vec![small_fronts()];
    blocks.push(joined_fronts(&[36, 34], 100, at_ends([20, 60])));
    blocks.extend((0..12).map(|i| vec![(0, 0, 2.0 + uniform(5, i))]));
    blocks.push(joined_fronts(&[40, 3], 230, at_ends([20, 60])));
    let system = System::<f64>::new(&side_by_side(&blocks), &apart(), 60);
    let mut streams = seeded_streams();
    if luge_tests::backend() == Backend::Simulator {
        streams.extend([1, 2, 3].map(stream_of));
    }
    let mut expected: Option<Vec<Vec<f64>>> = None;
    for stream in &streams {
        let mut factors = system.uploaded(stream);
        let of = SymmetricFactors::ALL;
        let found: Vec<Vec<f64>> = [1, 2, 9]
            .iter()
            .map(|&nrhs| system.check(stream, &mut factors, nrhs, of, "mixed"))
            .collect();
        assert!(*expected.get_or_insert_with(|| found.clone()) == found);
    }
}

/// Factors that the device made, with refactorizations.
#[test]
fn factors_of_the_device() {
    let entries = [
        small_fronts(),
        joined_fronts(&[36, 34], 70, at_ends([20, 60])),
        vec![(0, 0, 3.0)],
    ];
    let system = System::<f64>::new(&side_by_side(&entries), &apart(), 20);
    for stream in &seeded_streams()[..1] {
        let tree = Arc::new(system.tree(stream, &system.symbolic).unwrap());
        let upload = |moved: MovedTree<'_, Lower>| Ok(system.tree(stream, &moved.symbolic(1)?)?);
        let mut a = Vec::new();
        for j in 0..system.n {
            for p in system.pattern.range(j) {
                let i = system.pattern.idx()[p] as usize;
                let factor = |i: usize| system.factors_of_scaling[system.perm[i] as usize];
                a.push(system.values[p] / factor(i) / factor(j));
            }
        }
        let values = stream.upload(&a).unwrap();
        let (mut factors, quality) =
            DeviceFrontalLdlt::factorize(stream, &tree, &values, &PIVOTS, &upload).unwrap();
        assert_eq!(quality.num_zero, system.factors.quality().num_zero);
        assert!(quality.num_two > 20);
        let compare = |factors: &mut DeviceFrontalLdlt<f64>, times: f64| {
            for nrhs in [1, 9] {
                let b = system.consistent(nrhs);
                let expected = system.expected(&b, nrhs, SymmetricFactors::ALL);
                let mut x = stream.upload(&b).unwrap();
                factors.solve(stream, &mut x, nrhs).unwrap();
                let found = stream.download(&x).unwrap();
                let mut one_by_one = stream.upload(&b).unwrap();
                for of in [
                    SymmetricFactors::L,
                    SymmetricFactors::D,
                    SymmetricFactors::TRANSPOSED_L,
                ] {
                    let x = &mut one_by_one;
                    factors.solve_with(stream, x, nrhs, of).unwrap();
                }
                let one_by_one = stream.download(&one_by_one).unwrap();
                for (i, &wanted) in expected.iter().enumerate() {
                    let factor = system.factors_of_scaling[i % system.n];
                    for x in [found[i], one_by_one[i]] {
                        let difference = (x * times - wanted).abs() / factor;
                        assert!(difference < 1e-11, "unknown {i}: {difference:e}");
                    }
                }
            }
        };
        compare(&mut factors, 1.0);
        let doubled: Vec<f64> = a.iter().map(|v| v * 2.0).collect();
        let values = stream.upload(&doubled).unwrap();
        let refactorized = factors.refactorize(stream, &values, &PIVOTS, &upload);
        refactorized.unwrap();
        compare(&mut factors, 2.0);
        // A search that fails leaves nothing behind of the places that it has found.
        for j in [0, system.n / 2, system.n - 3] {
            let mut broken = a.clone();
            broken[system.pattern.range(j).end - 1] = f64::NAN;
            let values = stream.upload(&broken).unwrap();
            for _ in 0..2 {
                let failed = factors.refactorize(stream, &values, &PIVOTS, &upload);
                let error = failed.unwrap_err();
                assert!(
                    matches!(error, DeviceFrontalError::NotFinite { .. }),
                    "{error}"
                );
            }
            let values = stream.upload(&a).unwrap();
            let refactorized = factors.refactorize(stream, &values, &PIVOTS, &upload);
            refactorized.unwrap();
            compare(&mut factors, 1.0);
        }
    }
}
