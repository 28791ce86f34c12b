//! Which engine factorizes on a device, and what the tree is predicted to take.

use std::marker::PhantomData;
use std::sync::Arc;

use luge_frontal::gpu::DeviceCosts;
use luge_frontal::{Full, Storage, TreeOptions};
use luge_ordering::{Costs, OrderingOptions, Prediction, TreeCost};
use luge_sparse::etree::EliminationForest;

use crate::options::{DeviceEngine, Options};

/// Factorizations that an analysis serves if nobody says how many.
pub(crate) const FACTORIZATIONS: f64 = 100.0;

/// Bytes that the columns take for each entry of L+U beside its value: its row, its column, its place in the other
/// order, and about as much again while the pattern is found.
const COLUMN_BYTES_PER_ENTRY: u64 = 2 * (4 + 4 + 8);

/// Bytes that they take for each row: offsets in both orders, the diagonal, the level.
const COLUMN_BYTES_PER_ROW: u64 = 64;

/// Bytes that the column engine is predicted to need at least, for values of `value_bytes` bytes: `predicted` counts
/// the fill of the diagonal blocks, and what is filled above them comes on top.
pub(crate) fn column_bytes(n: usize, predicted: &Prediction, value_bytes: u64) -> u64 {
    let entries = predicted.lnz + predicted.unz + predicted.off_diagonal_nnz;
    entries * (value_bytes + COLUMN_BYTES_PER_ENTRY) + n as u64 * COLUMN_BYTES_PER_ROW
}

/// The engine for a matrix of which the tree is predicted to need `tree` bytes, and the columns `columns`, on a device
/// with `available` bytes, and shared memory for tiles or not.
///
/// The tree is the faster one wherever its fronts fit: its critical path is that of the forest, not the number of
/// levels. It holds all fronts at once, so large matrices may need the columns.
pub(crate) fn choose(has_tiles: bool, tree: u64, columns: u64, available: u64) -> DeviceEngine {
    if !has_tiles || tree > available && columns <= available {
        DeviceEngine::Columns
    } else {
        DeviceEngine::Tree
    }
}

/// Orders are compared by the trees that they lead to, for factors stored so.
#[derive(Debug)]
struct TreeSeconds<S>(DeviceCosts, PhantomData<S>);

impl<S: Storage> TreeCost for TreeSeconds<S> {
    fn seconds(&self, forest: &EliminationForest) -> f64 {
        let prediction = self.0.of_forest::<S>(forest, &tree_options());
        prediction.seconds()
    }

    fn estimate(&self, forest: &EliminationForest) -> f64 {
        self.0.estimate::<S>(forest)
    }
}

/// How fronts are merged that a device factorizes: alike whatever the numbers are, so that a real matrix has the same pivots if
/// it is given as a complex one.
pub(crate) fn tree_options() -> TreeOptions {
    DeviceCosts::default().tree_options()
}

/// What orders for the tree are compared by.
pub(crate) fn tree_cost<S: Storage>() -> Arc<dyn TreeCost> {
    Arc::new(TreeSeconds::<S>(DeviceCosts::default(), PhantomData))
}

/// What is assumed about the machine where orders are compared by their trees.
pub(crate) fn costs_for_tree(options: &Options) -> Costs {
    Costs {
        factorizations: options.factorizations.unwrap_or(FACTORIZATIONS),
        ..options.ordering.costs
    }
}

/// How to order for the tree, for so many factorizations if that is known.
pub(crate) fn ordering_for_tree(
    mut options: OrderingOptions,
    factorizations: Option<f64>,
) -> OrderingOptions {
    options.costs.factorizations = factorizations.unwrap_or(FACTORIZATIONS);
    options.tree_cost.get_or_insert_with(tree_cost::<Full>);
    options
}

#[cfg(test)]
mod tests {
    use luge_frontal::Symbolic;
    use luge_ordering::{Method, MethodUsed, Ordering, order};
    use luge_sparse::{CompressedPattern, Scaling};

    use super::*;
    use crate::engine::Transform;
    use crate::permuted::permuted_columns;

    /// The pattern of a symmetric matrix with these edges and a full diagonal.
    fn pattern(n: usize, edges: impl Iterator<Item = (usize, usize)>) -> CompressedPattern {
        let mut lines: Vec<Vec<u32>> = (0..n as u32).map(|v| vec![v]).collect();
        for (v, w) in edges {
            lines[v].push(w as u32);
            lines[w].push(v as u32);
        }
        let (mut ptr, mut idx) = (vec![0], Vec::new());
        for line in &mut lines {
            line.sort_unstable();
            idx.append(line);
            ptr.push(idx.len() as u64);
        }
        CompressedPattern::new(n, ptr, idx).unwrap()
    }

    fn grid(m: usize) -> CompressedPattern {
        let right = (0..m * m).filter(|v| v % m + 1 < m).map(|v| (v, v + 1));
        let down = (0..m * (m - 1)).map(|v| (v, v + m));
        pattern(m * m, right.chain(down))
    }

    fn cube(m: usize) -> CompressedPattern {
        let n = m * m * m;
        let along = |step: usize| {
            let has_next = move |v: &usize| v / step % m + 1 < m;
            (0..n).filter(has_next).map(move |v| (v, v + step))
        };
        pattern(n, along(1).chain(along(m)).chain(along(m * m)))
    }

    /// A tree in which every vertex has `arity` children.
    fn tree(n: usize, arity: usize) -> CompressedPattern {
        pattern(n, (1..n).map(|v| ((v - 1) / arity, v)))
    }

    fn ordered(a: &CompressedPattern, factorizations: f64, threads: usize) -> Ordering {
        ordered_by(Method::Auto, a, factorizations, threads)
    }

    fn ordered_by(
        method: Method,
        a: &CompressedPattern,
        factorizations: f64,
        threads: usize,
    ) -> Ordering {
        let options = ordering_for_tree(OrderingOptions::default(), Some(factorizations))
            .method(method)
            .threads(threads);
        order(a, None, &options).unwrap()
    }

    fn seconds(ordering: &Ordering) -> f64 {
        tree_cost::<Full>().seconds(ordering.forest.as_ref().unwrap())
    }

    /// A hub, and paths of two vertices beside it.
    fn star() -> CompressedPattern {
        let edges = (0..600).flat_map(|k| [(2 * k + 1, 2 * k + 2), (0, 2 * k + 2)]);
        pattern(1201, edges)
    }

    #[test]
    fn the_cheaper_tree_is_chosen_for_many_factorizations() {
        let trees = [3, 8, 60].map(|arity| tree(4000, arity));
        for a in trees.into_iter().chain([grid(60), cube(15), star()]) {
            let by_degree = seconds(&ordered_by(Method::Amd, &a, 1.0, 1));
            let dissected = seconds(&ordered_by(Method::NestedDissection, &a, 1.0, 1));
            let chosen = ordered(&a, 1e6, 1);
            assert_eq!(seconds(&chosen), by_degree.min(dissected));
            let cheaper = if by_degree < dissected {
                MethodUsed::Amd
            } else {
                MethodUsed::NestedDissection
            };
            assert_eq!(chosen.method_used, cheaper);
        }
    }

    #[test]
    fn few_factorizations_are_served_by_one_order() {
        let trees = [3, 8, 60].map(|arity| tree(4000, arity));
        for a in trees.into_iter().chain([grid(60), cube(15), star()]) {
            let chosen = ordered(&a, 1.0, 1);
            assert_eq!(chosen.method_used, MethodUsed::NestedDissection);
            // What one factorization loses by that is less than a second order would have taken.
            let lost = seconds(&chosen) - seconds(&ordered_by(Method::Amd, &a, 1.0, 1));
            let costs = OrderingOptions::default().costs;
            let second = 2.0 * a.nnz() as f64 * costs.minimum_degree_entry;
            assert!(lost < second, "{lost} of {second}");
        }
        // Small blocks get none but minimum degree.
        assert_eq!(ordered(&grid(22), 1e6, 1).method_used, MethodUsed::Amd);
    }

    #[test]
    fn threads_do_not_change_the_order() {
        // Two blocks without an edge between them, so there is more than one way to share.
        let one = cube(14);
        let n = one.major_dim();
        let edges = |start: usize| {
            let lines = one.lines().enumerate();
            let above = lines.flat_map(|(v, line)| line.iter().map(move |&w| (v, w as usize)));
            above
                .filter(|(v, w)| v < w)
                .map(move |(v, w)| (v + start, w + start))
                .collect::<Vec<_>>()
        };
        let a = pattern(2 * n, edges(0).into_iter().chain(edges(n)));
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(4)
            .build()
            .unwrap();
        for factorizations in [1.0, 1e6] {
            let serial = ordered(&a, factorizations, 1);
            let shared = pool.install(|| ordered(&a, factorizations, 4));
            assert_eq!(serial.col_perm, shared.col_perm);
            assert_eq!(serial.forest, shared.forest);
            assert_eq!(serial.blocks, shared.blocks);
        }
    }

    #[test]
    fn the_tree_of_an_ordering_is_that_of_an_analysis() {
        for a in [grid(30), cube(9), tree(900, 3)] {
            let ordering = ordered(&a, 100.0, 1);
            let identity = Scaling::identity(a.major_dim(), a.major_dim());
            let transform = Transform {
                row_perm: ordering.row_perm.clone(),
                col_perm: ordering.col_perm.clone(),
                scaling: Arc::new(identity),
            };
            let b = Arc::new(permuted_columns(&a, &transform).0);
            let costs = DeviceCosts::default();
            let options = tree_options();
            let forest = ordering.forest.unwrap();
            let posted = Symbolic::analyze_posted(Arc::clone(&b), &forest, &options, 1).unwrap();
            let analyzed = Symbolic::analyze(&b, &options).unwrap();
            // How threads share solves is not known to all, and what was reserved on the way is not the same.
            let shown = |tree: &Symbolic| {
                let text = format!("{tree:?}");
                let places =
                    [", solves: ", ", model: ", ", memory: "].map(|field| text.rfind(field));
                let [solves, model, memory] = places.map(|place| place.unwrap());
                text[..solves].to_owned() + &text[model..memory]
            };
            assert!(shown(&posted) == shown(&analyzed));
            let shared = Symbolic::analyze_posted(b, &forest, &options, 4).unwrap();
            assert!(shown(&shared) == shown(&analyzed));
            let (early, late) = (
                costs.of_forest::<Full>(&forest, &options),
                costs.of_tree::<Full>(posted.tree()),
            );
            assert_eq!((early.path, early.solve_path), (late.path, late.solve_path));
            let about = costs.estimate::<Full>(&forest) / early.seconds();
            assert!((0.5..8.0).contains(&about), "{about}");
            // A sum over the same fronts, which the tree may number otherwise.
            assert!((early.shared - late.shared).abs() <= 1e-12 * late.shared);
        }
    }

    #[test]
    fn columns_take_so_much_for_each_entry_and_row() {
        let predicted = Prediction {
            lnz: 7,
            unz: 5,
            off_diagonal_nnz: 3,
            ..Prediction::default()
        };
        for (value_bytes, bytes) in [(8, 15 * 40 + 2 * 64), (4, 15 * 36 + 2 * 64)] {
            assert_eq!(column_bytes(2, &predicted, value_bytes), bytes);
        }
    }

    #[test]
    fn memory_alone_speaks_for_columns() {
        assert_eq!(choose(true, 100, 1, 100), DeviceEngine::Tree);
        assert_eq!(choose(true, 101, 100, 100), DeviceEngine::Columns);
        // Neither fits: the tree's prediction is the one that is checked.
        assert_eq!(choose(true, 101, 101, 100), DeviceEngine::Tree);
        // Tiles have no room in the shared memory.
        assert_eq!(choose(false, 100, 1, 100), DeviceEngine::Columns);
    }
}
