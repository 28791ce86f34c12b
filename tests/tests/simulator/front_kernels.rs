//! The kernels of fronts against the reference, one shape class at a time.
//!
//! A matrix is made for a forest of given fronts, so that each class of `luge_gpu_kernels::frontal::plan` stands alone or
//! above children of one class. Factors, exchanges of rows and reports are compared with those of
//! `luge_reference::frontal`, each number to the bound of its rounding errors; a contribution block is compared
//! through the factors of its parent.

use luge_device::Stream;
use luge_frontal::gpu::{DeviceFrontalLu, DeviceQuality, Limits};
use luge_frontal::{AssemblyTree, TreeOptions};
use luge_gpu_kernels::frontal::plan::TILE;
use luge_reference::Dense;
use luge_reference::frontal::lu::{LuFront, lu_front};
use luge_reference::frontal::solve::solve_fronts;
use luge_reference::frontal::{Front, Rounded};
use luge_sparse::etree::inverse;
use luge_sparse::{PivotPolicy, RealScalar};

use crate::chain::{RealDeviceScalar, noise, streams};
use crate::frontal::{Problem, uploaded};

/// A front that a matrix is made for.
struct Shape {
    pivots: usize,
    parent: Option<usize>,
    /// The rows below its pivots, by their positions in the parent's front.
    rows: Vec<usize>,
}

impl Shape {
    fn size(&self) -> usize {
        self.pivots + self.rows.len()
    }
}

/// Fronts, parents before their children.
#[derive(Default)]
struct Forest(Vec<Shape>);

impl Forest {
    fn root(&mut self, pivots: usize) -> usize {
        self.0.push(Shape {
            pivots,
            parent: None,
            rows: Vec::new(),
        });
        self.0.len() - 1
    }

    /// A front with these rows of its parent's front. The first of these must be among them, and one of its other pivots
    /// not, lest the two are one supernode.
    fn child(&mut self, parent: usize, pivots: usize, rows: impl Iterator<Item = usize>) -> usize {
        let rows: Vec<usize> = rows.collect();
        assert_eq!(rows[0], 0);
        assert!(rows.iter().all(|&row| row < self.0[parent].size()));
        self.0.push(Shape {
            pivots,
            parent: Some(parent),
            rows,
        });
        self.0.len() - 1
    }

    /// A front of `k` pivots and `c` rows below them, if need be under a root that takes these.
    fn front(&mut self, k: usize, c: usize) {
        if c == 0 {
            self.root(k);
        } else {
            let root = self.root(c + 1);
            self.child(root, k, (0..=c).filter(|&row| row != 1));
        }
    }

    /// A front of `k` pivots below which there are these, of as many pivots and rows below them; with rows of its own
    /// below if it is not a root.
    fn family(&mut self, k: usize, c: usize, children: &[(usize, usize)]) {
        let mut parent = self.root(if c == 0 { k } else { c + 1 });
        if c > 0 {
            parent = self.child(parent, k, (0..=c).filter(|&row| row != 1));
        }
        for (number, &(pivots, below)) in (0..).zip(children) {
            // The first row, and others without an order in that.
            let mut rows: Vec<usize> = (2..k + c).collect();
            rows.sort_by_key(|&row| noise(number, row));
            rows.truncate(below - 1);
            rows.sort_unstable();
            self.child(parent, pivots, std::iter::once(0).chain(rows));
        }
    }

    /// The matrix, a full block of entries for each front; the tree has these fronts and no others.
    fn matrix(&self, values: Values) -> Problem {
        let mut starts = vec![0; self.0.len()];
        let mut n = 0;
        for (start, shape) in starts.iter_mut().zip(&self.0).rev() {
            *start = n;
            n += shape.pivots;
        }
        let mut triplets = sprs::TriMat::new((n, n));
        let mut rows: Vec<Vec<usize>> = Vec::new();
        for (shape, &start) in self.0.iter().zip(&starts) {
            let k = shape.pivots;
            let mut own: Vec<usize> = (start..start + k).collect();
            if let Some(parent) = shape.parent {
                own.extend(shape.rows.iter().map(|&row| rows[parent][row]));
            }
            for (i, &row) in own.iter().enumerate() {
                for (j, &column) in own.iter().enumerate() {
                    if i < k || j < k {
                        let value = values.of(shape, (i, j), row * n + column);
                        triplets.add_triplet(row, column, value);
                    }
                }
            }
            rows.push(own);
        }
        let options = TreeOptions {
            zero_fraction: 0.0,
            tiny_zero_fraction: 0.0,
            ..TreeOptions::default()
        };
        let problem = Problem::new(&triplets.to_csr(), &options);
        let fronts = problem.symbolic.tree().fronts().iter();
        let mut found: Vec<_> = fronts.map(|f| (f.pivots, f.below)).collect();
        let shapes = self.0.iter();
        let mut wanted: Vec<_> = shapes
            .map(|shape| (shape.pivots as u32, shape.rows.len() as u32))
            .collect();
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "fronts of the tree");
        problem
    }
}

/// Entries of a matrix, the largest of which is between 1/4 and 4.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Values {
    /// The largest entry of a column of pivots is near the diagonal, but mostly not on it; that on the diagonal may be
    /// large enough, and the others are so small that factors do not grow much.
    Exchanged,
    /// The diagonal is larger than the rest of its row, and often small.
    Replaced,
}

impl Values {
    /// Entry (i, j) of a front, the `number`-th of the matrix.
    fn of(self, shape: &Shape, (i, j): (usize, usize), number: usize) -> f64 {
        let (k, m) = (shape.pivots, shape.size());
        let uniform = |seed| (noise(seed, number) >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        match self {
            Self::Exchanged => {
                // Rows change places in groups of four, none of which is cut by tiles.
                let group = i / 4 * 4;
                if i < k && j == group + (i + 1 - group) % 4.min(k - group) {
                    1.0 + uniform(1).abs() * 2.0
                } else if i == j {
                    uniform(1)
                } else {
                    uniform(1) * (2.0 / m as f64).min(0.25)
                }
            }
            Self::Replaced if i == j => 1.5 * uniform(10),
            Self::Replaced => uniform(3) / (4.0 * m as f64),
        }
    }

    fn pivots(self, threshold: f64) -> PivotPolicy {
        match self {
            Self::Exchanged => PivotPolicy::replacing(1e-30).in_fronts(threshold),
            Self::Replaced => PivotPolicy::replacing(0.5),
        }
    }
}

/// Ways to find pivots: with the diagonal preferred, the largest candidates, and the diagonal alone.
fn policies() -> [(Values, PivotPolicy); 3] {
    let policy = |values: Values, threshold| (values, values.pivots(threshold));
    [
        policy(Values::Exchanged, 0.3),
        policy(Values::Exchanged, 1.0),
        policy(Values::Replaced, 0.0),
    ]
}

/// The rows of a front in the order of elimination.
fn rows_of(tree: &AssemblyTree, s: usize) -> Vec<u32> {
    let front = tree.fronts()[s];
    let pivots = front.start..front.start + front.pivots;
    pivots.chain(tree.rows_below(s).iter().copied()).collect()
}

/// The fronts of a tree by definition, with candidates for a pivot as these limits have them.
fn expected<T: RealScalar>(
    problem: &Problem,
    limits: Limits,
    pivots: &PivotPolicy,
) -> Vec<LuFront<T>> {
    // The largest entry is 1.
    let resolved = pivots.resolve::<T>(|| 1.0);
    let tree = problem.symbolic.tree();
    let position = inverse(tree.perm());
    let starts: Vec<u32> = tree.fronts().iter().map(|front| front.start).collect();
    let mut entries = vec![Vec::new(); starts.len()];
    for j in 0..tree.n() {
        for p in problem.columns.range(j) {
            let i = position[problem.columns.idx()[p] as usize];
            let j = position[j];
            let owner = starts.partition_point(|&start| start <= i.min(j)) - 1;
            entries[owner].push((i, j, T::from_f64(problem.values[p])));
        }
    }
    let mut is_large = vec![false; starts.len()];
    let mut found: Vec<LuFront<T>> = Vec::new();
    for (s, front) in tree.fronts().iter().enumerate() {
        let rows = rows_of(tree, s);
        let at = |row: u32| rows.binary_search(&row).unwrap();
        let mut assembled = Front::zeros(rows.len());
        for &(i, j, value) in &entries[s] {
            assembled.set(at(i), at(j), Rounded::exact(value));
        }
        let children = tree.children(s).iter().map(|&c| c as usize);
        let blocks: Vec<_> = children
            .clone()
            .map(|c| {
                let positions = tree.rows_below(c).iter().map(|&row| at(row)).collect();
                (found[c].contribution(), positions)
            })
            .collect();
        assembled.extend_add(&blocks);
        let is_above_large = children.into_iter().any(|c| is_large[c]);
        is_large[s] = front.size() > limits.small_front || is_above_large;
        let is_cut = is_large[s] && front.size() > limits.whole_front;
        let block = if is_cut { TILE as usize } else { usize::MAX };
        let lu = lu_front(&assembled, front.pivots as usize, &resolved, block);
        found.push(lu.unwrap_or_else(|e| panic!("front {s}: {e}")));
    }
    found
}

/// Compares factors on the device with those by definition.
fn compare<T: RealDeviceScalar>(
    stream: &Stream,
    tree: &AssemblyTree,
    factors: &DeviceFrontalLu<T>,
    expected: &[LuFront<T>],
) {
    let panels = stream.download(factors.factors()).unwrap();
    let pivot_rows = stream.download(factors.pivot_rows()).unwrap();
    let mut slot = 0;
    for (front, lu) in tree.fronts().iter().zip(expected) {
        let (k, c) = (front.pivots as usize, front.below as usize);
        let (m, start) = (k + c, front.start as usize);
        let rows: Vec<usize> = pivot_rows[start..start + k]
            .iter()
            .map(|&row| row as usize)
            .collect();
        assert_eq!(rows, lu.exchanges, "exchanges, {k} pivots above {c} rows");
        let largest = RealScalar::to_f64(lu.entries.values().max_abs());
        // A bound that would let any number pass proves nothing.
        let useful = RealScalar::to_f64(T::epsilon()).sqrt() * largest;
        let check = |i: usize, j: usize, found: T| {
            let entry = lu.entries.get(i, j);
            assert!(
                entry.agrees_with(found) && entry.error < useful,
                "({i}, {j}) of {k} pivots above {c} rows: {found}, not {entry:?}"
            );
        };
        for j in 0..k {
            for i in 0..m {
                check(i, j, panels[slot + j * m + i]);
            }
        }
        for i in 0..k {
            for q in 0..c {
                check(i, k + q, panels[slot + k * m + i * c + q]);
            }
        }
        slot += k * (m + c);
    }
    assert_eq!(slot, panels.len());
}

/// Compares a report with that on the factors by definition.
fn compare_report<T: RealScalar>(
    problem: &Problem,
    quality: &DeviceQuality,
    expected: &[LuFront<T>],
) {
    let tree = problem.symbolic.tree();
    let fronts = || tree.fronts().iter().zip(expected);
    let perturbed: Vec<usize> = fronts()
        .flat_map(|(front, lu)| lu.perturbed.iter().map(|&j| front.start as usize + j))
        .collect();
    let first = perturbed.first().map(|&pivot| tree.perm()[pivot] as usize);
    assert_eq!(quality.num_perturbed as usize, perturbed.len());
    assert_eq!(quality.first_perturbed, first);
    let max_b = problem
        .values
        .iter()
        .fold(0.0, |most: f64, v| most.max(v.abs()));
    assert_eq!(quality.max_b, max_b);
    let (mut of_u, mut of_l) = ((0.0f64, 0.0f64), (0.0f64, 0.0f64));
    for (_, lu) in fronts() {
        for i in 0..lu.entries.order() {
            for j in 0..lu.entries.order() {
                let entry = lu.entries.get(i, j);
                let range = if i > j && j < lu.pivots {
                    &mut of_l
                } else if i <= j && i < lu.pivots {
                    &mut of_u
                } else {
                    continue;
                };
                let size = RealScalar::to_f64(entry.value).abs();
                range.0 = range.0.max(size - 2.0 * entry.error);
                range.1 = range.1.max(size + 2.0 * entry.error);
            }
        }
    }
    for (found, range) in [(quality.max_u, of_u), (quality.max_l, of_l)] {
        assert!(
            range.0 <= found && found <= range.1,
            "{found:e} in {range:?}"
        );
    }
}

/// Factorizes the matrix of a forest, and compares with the definition.
fn check<T: RealDeviceScalar>(
    stream: &Stream,
    problem: &Problem,
    limits: Limits,
    pivots: &PivotPolicy,
    expected: &[LuFront<T>],
) -> DeviceFrontalLu<T> {
    let values = stream.upload(&problem.values).unwrap();
    let tree = uploaded(stream, problem, limits);
    let (factors, quality) =
        DeviceFrontalLu::<T>::factorize(stream, &tree, &values, pivots).unwrap();
    assert_eq!(factors.scale(), 1.0, "what small pivots are compared with");
    compare(stream, problem.symbolic.tree(), &factors, expected);
    compare_report(problem, &quality, expected);
    factors
}

/// Checks a forest in one precision on every `step`-th stream from number `first` on. The streams take turns with the
/// policies.
fn check_in<T: RealDeviceScalar>(forest: &Forest, limits: Limits, first: usize, step: usize) {
    let problems = policies().map(|(values, pivots)| {
        let problem = forest.matrix(values);
        let expected = expected::<T>(&problem, limits, &pivots);
        (problem, pivots, expected)
    });
    let streams = streams();
    for number in (first..streams.len()).step_by(step) {
        let (problem, pivots, expected) = &problems[number % problems.len()];
        check(&streams[number], problem, limits, pivots, expected);
    }
}

/// Checks a forest on all streams, which take turns with the precisions.
fn check_forest(forest: &Forest, limits: Limits) {
    check_in::<f64>(forest, limits, 0, 2);
    check_in::<f32>(forest, limits, 1, 2);
}

fn limits(small_front: u32, whole_front: u32, gathered: u32) -> Limits {
    Limits {
        small_front,
        whole_front,
        gathered,
        apart: 0,
        ..Limits::default()
    }
}

/// Fronts of a warp of every order, with every number of pivots: without rows below, and with them below a root.
#[test]
fn small_fronts_of_every_order() {
    let mut forest = Forest::default();
    for m in 1..=16 {
        for k in 1..=m {
            forest.front(k, m - k);
        }
    }
    check_forest(&forest, Limits::default());
}

/// Fronts of a block with one, two and three rows a lane, panels of pivots of every width, and few and many rows below.
#[test]
fn whole_fronts_of_every_order() {
    let mut forest = Forest::default();
    // Every number of pivots in the last panel, with rows below from none to nearly all.
    let shapes = [
        (17, 0),
        (10, 14),
        (31, 0),
        (8, 24),
        (1, 32),
        (27, 13),
        (12, 35),
        (63, 0),
        (5, 59),
        (64, 1),
        (14, 66),
        (95, 0),
    ];
    for (k, c) in shapes {
        forest.front(k, c);
    }
    check_forest(&forest, Limits::default());
}

/// Fronts around one, two and three tiles, with a last tile of one row, of some and of all; also of one row more than
/// threads of two rows and columns reach.
#[test]
fn tiled_fronts_of_orders_around_tiles() {
    let mut forest = Forest::default();
    for k in [1, 64, 65, 97, 129] {
        forest.front(k, 0);
    }
    check_forest(&forest, limits(0, 0, 0));
}

/// Fronts of tiles of pivots and of rows below them, the last ones of one row, of some and of all. Their contribution
/// blocks, one and several, are added in pieces to whole fronts and to fronts of tiles.
#[test]
fn tiles_with_rows_below() {
    let mut forest = Forest::default();
    for (k, c) in [(1, 1), (5, 20), (17, 65)] {
        forest.front(k, c);
    }
    forest.family(66, 8, &[(3, 30), (2, 70)]);
    check_forest(&forest, limits(0, 0, 0));
    let mut forest = Forest::default();
    forest.family(30, 40, &[(5, 17), (65, 20), (1, 66)]);
    check_in::<f64>(&forest, limits(0, 95, 0), 2, 1);
}

/// Every front that is not whole is wide.
fn wide(small_front: u32, whole_front: u32, gathered: u32) -> Limits {
    Limits {
        tiled_front: 0,
        ..limits(small_front, whole_front, gathered)
    }
}

/// Wide fronts of one part, of two, and of more; with a last tile of one row, of some and of all.
#[test]
fn wide_fronts_of_orders_around_tiles() {
    let mut forest = Forest::default();
    for k in [1, 65, 128, 193, 257] {
        forest.front(k, 0);
    }
    check_forest(&forest, wide(0, 0, 0));
}

/// Wide tiles of pivots and of rows below them, the last ones of one row, of some and of all. Their contribution blocks are
/// added in pieces to wide fronts, as those of narrow tiles are.
#[test]
fn wide_tiles_with_rows_below() {
    let mut forest = Forest::default();
    for (k, c) in [(1, 1), (17, 129), (130, 66)] {
        forest.front(k, c);
    }
    forest.family(131, 8, &[(3, 30), (2, 135)]);
    check_forest(&forest, wide(0, 0, 0));
    let mut forest = Forest::default();
    forest.family(70, 40, &[(5, 17), (65, 20), (1, 106)]);
    let limits = Limits {
        tiled_front: 100,
        ..limits(0, 60, 16)
    };
    check_in::<f64>(&forest, limits, 2, 1);
}

/// Contribution blocks of small fronts in fronts of a warp: of one child, of as many as are read at once, and of more;
/// of children that the same warp works on and of others.
#[test]
fn small_fronts_add_up_their_children() {
    let mut forest = Forest::default();
    for (k, c) in [(3, 0), (2, 2), (6, 2), (8, 0), (5, 11), (16, 0)] {
        for num_children in [1, 2, 4, 5, 9] {
            // Long and short ones: these are worked on just before the parent.
            let children: Vec<(usize, usize)> = (0..num_children)
                .map(|number| {
                    let below = 1 + (3 * number + k) % (k + c - 1);
                    (1 + (7 * number) % (16 - below), below)
                })
                .collect();
            forest.family(k, c, &children);
        }
    }
    check_forest(&forest, Limits::default());
}

/// Contribution blocks of few rows, of one to seven children, which are added entry by entry to whole fronts and to
/// fronts of tiles; some beside larger ones.
#[test]
fn small_elements_are_added_to_large_fronts() {
    for limits in [Limits::default(), limits(16, 0, 16)] {
        let mut forest = Forest::default();
        forest.family(20, 0, &[(3, 5)]);
        forest.family(
            30,
            12,
            &[(2, 1), (3, 13), (1, 3), (5, 8), (4, 12), (1, 15), (6, 10)],
        );
        forest.family(50, 20, &[(2, 14), (9, 30), (1, 3), (1, 16), (3, 17)]);
        check_forest(&forest, limits);
    }
}

/// Entries that so many small elements are added to that a warp adds them up, among others that a thread does.
#[test]
fn sums_of_many_elements_are_those_of_warps() {
    for (k, c, limits) in [
        (20, 0, Limits::default()),
        (10, 15, Limits::default()),
        (70, 9, limits(16, 0, 16)),
    ] {
        let mut forest = Forest::default();
        let mut children = vec![(1, 3); 300];
        children.extend([(1, 5); 37]);
        children.push((2, 18));
        forest.family(k, c, &children);
        check_forest(&forest, limits);
    }
}

/// Pivots that are replaced in fronts of each kind, with the report and the bits again in a refactorization.
#[test]
fn replaced_pivots_are_counted_and_keep_their_sign() {
    let mut forest = Forest::default();
    let shapes = [(66, 20), (30, 40), (9, 7), (12, 0)];
    for (k, c) in shapes {
        forest.front(k, c);
    }
    let problem = forest.matrix(Values::Replaced);
    let pivots = Values::Replaced.pivots(0.0);
    let expected = expected::<f64>(&problem, Limits::default(), &pivots);
    for (k, _) in shapes {
        let lu = expected.iter().find(|lu| lu.pivots == k).unwrap();
        assert!(!lu.perturbed.is_empty() && lu.perturbed.len() < k, "{k}");
    }
    for stream in streams() {
        let mut factors = check(&stream, &problem, Limits::default(), &pivots, &expected);
        let bits = stream.download(factors.factors()).unwrap();
        let values = stream.upload(&problem.values).unwrap();
        let quality = factors.refactorize(&stream, &values, &pivots).unwrap();
        compare_report(&problem, &quality, &expected);
        assert_eq!(stream.download(factors.factors()).unwrap(), bits);
    }
}

/// The first pivot that is replaced is not the first of its front, which is one of a warp, of a block, or of tiles.
#[test]
fn the_first_replaced_pivot_is_named() {
    let stream = &streams()[0];
    let pivots = Values::Replaced.pivots(0.0);
    for k in [14, 32, 97] {
        let mut forest = Forest::default();
        forest.front(k, 0);
        let problem = forest.matrix(Values::Replaced);
        let expected = expected::<f64>(&problem, Limits::default(), &pivots);
        assert!(expected[0].perturbed[0] > 0);
        check(stream, &problem, Limits::default(), &pivots, &expected);
    }
}

/// L below the diagonal and U on and above it, put together from the fronts, and the row of the matrix in each row of L.
fn factors_and_rows<T: RealDeviceScalar>(
    stream: &Stream,
    tree: &AssemblyTree,
    factors: &DeviceFrontalLu<T>,
) -> (Dense<T>, Vec<usize>) {
    let panels = stream.download(factors.factors()).unwrap();
    let pivot_rows = stream.download(factors.pivot_rows()).unwrap();
    let mut order: Vec<usize> = tree.perm().iter().map(|&old| old as usize).collect();
    let mut dense = Dense::zeros(tree.n(), tree.n());
    let mut slot = 0;
    for (s, front) in tree.fronts().iter().enumerate() {
        let rows = rows_of(tree, s);
        let (k, m, start) = (front.pivots as usize, rows.len(), front.start as usize);
        // Rows of L in the fronts below change places too.
        for j in 0..k {
            let row = start + pivot_rows[start + j] as usize;
            order.swap(start + j, row);
            dense.swap_rows(start + j, row);
        }
        for (j, &column) in rows[..k].iter().enumerate() {
            for (i, &row) in rows.iter().enumerate() {
                dense[(row as usize, column as usize)] = panels[slot + j * m + i];
            }
            for (q, &right) in rows[k..].iter().enumerate() {
                let place = slot + k * m + j * (m - k) + q;
                dense[(column as usize, right as usize)] = panels[place];
            }
        }
        slot += k * (2 * m - k);
    }
    (dense, order)
}

/// Solves with the factors of a forest for one and for three right-hand sides.
fn check_solves<T: RealDeviceScalar>(stream: &Stream, forest: &Forest) {
    let problem = forest.matrix(Values::Exchanged);
    let tree = problem.symbolic.tree();
    let n = tree.n();
    let values = stream.upload(&problem.values).unwrap();
    let on_device = uploaded(stream, &problem, Limits::default());
    let pivots = Values::Exchanged.pivots(1.0);
    let (mut factors, _) =
        DeviceFrontalLu::<T>::factorize(stream, &on_device, &values, &pivots).unwrap();
    let (dense, rows) = factors_and_rows(stream, tree, &factors);
    let columns: Vec<usize> = tree.perm().iter().map(|&old| old as usize).collect();
    for (nrhs, transpose) in [(1, false), (1, true), (3, false), (3, true)] {
        let number = |i: usize| (noise(7, i) >> 48) as f64 / f64::from(1u32 << 15) - 1.0;
        let b: Vec<f64> = (0..nrhs * n).map(number).collect();
        let mut x = stream.upload(&b).unwrap();
        factors.solve(stream, &mut x, nrhs, transpose).unwrap();
        let x = stream.download(&x).unwrap();
        let (from, to) = if transpose {
            (&columns, &rows)
        } else {
            (&rows, &columns)
        };
        for rhs in 0..nrhs {
            let own = rhs * n..(rhs + 1) * n;
            let (b, x) = (&b[own.clone()], &x[own]);
            let b: Vec<T> = from.iter().map(|&i| RealScalar::from_f64(b[i])).collect();
            for (e, expected) in solve_fronts(&dense, &b, transpose).iter().enumerate() {
                let found = x[to[e]];
                let bound = RealScalar::to_f64(T::epsilon()).sqrt();
                assert!(
                    expected.agrees_with(RealScalar::from_f64(found)) && expected.error < bound,
                    "unknown {e}, right-hand side {rhs} of {nrhs}, transpose {transpose}: {found:e}, not {expected:?}"
                );
            }
        }
    }
}

/// Fronts of one pivot, of a warp, and of a block with one tile of pivots and with several; fronts with children.
#[test]
fn solves_match_those_by_definition() {
    let solve = |streams: &[Stream], shapes: &[(usize, usize)]| {
        let mut forest = Forest::default();
        for &(k, c) in shapes {
            forest.front(k, c);
        }
        forest.family(6, 40, &[(2, 30), (1, 45), (3, 12)]);
        for stream in streams {
            check_solves::<f64>(stream, &forest);
        }
        check_solves::<f32>(&streams[0], &forest);
    };
    let streams = streams();
    let last = &streams[streams.len() - 1..];
    solve(
        &streams,
        &[(1, 0), (1, 1), (3, 2), (16, 0), (31, 0), (8, 24)],
    );
    solve(last, &[(32, 0), (33, 0), (20, 30), (40, 60), (65, 0)]);
}
