//! The assembly tree of a symmetrised pattern: which columns are eliminated together, in which
//! front, and which rows each front has. Nothing here knows values, pivots or the kind of
//! factorization.

mod cost;
mod structure;
mod supernodes;

pub use cost::CostModel;
pub(crate) use supernodes::{Supernodes, supernodes};

use std::cmp::Reverse;
use std::sync::Arc;

use luge_sparse::etree::{self, EliminationForest, NONE, inverse};
use luge_sparse::{CancelFlag, Cancelled, CompressedPattern, Limits, Reservation, to_u32};

use crate::error::FrontalError;
use crate::lu::{Layout, Schedule};
use crate::shares::both;
use cost::{front_entries, front_flops};
pub(crate) use structure::Transposed;
use structure::{Columns, Symmetrized};

/// How fronts are merged.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeOptions {
    /// Largest fraction of explicit zeros among the entries of a merged front.
    pub zero_fraction: f64,
    /// That of fronts with at most [`tiny_pivots`](Self::tiny_pivots) pivots.
    pub tiny_zero_fraction: f64,
    /// Number of pivots up to which a front is tiny.
    pub tiny_pivots: u32,
    /// Decides, within these limits, whether merging pays.
    pub cost: CostModel,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            zero_fraction: 0.12,
            tiny_zero_fraction: 0.25,
            tiny_pivots: 8,
            cost: CostModel::default(),
        }
    }
}

/// A front: `pivots` columns and rows that are eliminated here, and `below` later ones that are
/// updated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Front {
    /// First pivot, in elimination order.
    pub start: u32,
    /// Number of pivots.
    pub pivots: u32,
    /// Number of rows (and columns) below the pivots.
    pub below: u32,
    /// How many of those are pivots of the parent; they come first.
    pub pivots_in_parent: u32,
    /// The parent's index, or `u32::MAX` at a root.
    pub parent: u32,
    /// Where its children start in the list of children.
    pub(crate) children: u32,
    /// Number of children.
    pub num_children: u32,
    /// Number of fronts on the way to the root.
    pub depth: u32,
    /// Where its rows start among all rows.
    pub(crate) rows: u64,
}

impl Front {
    /// Rows of the front.
    pub fn size(&self) -> u32 {
        self.pivots + self.below
    }

    pub(crate) fn row_range(&self) -> std::ops::Range<usize> {
        self.rows as usize..self.rows as usize + self.below as usize
    }

    pub(crate) fn pivot_range(&self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.pivots) as usize
    }

    pub(crate) fn child_range(&self) -> std::ops::Range<usize> {
        self.children as usize..(self.children + self.num_children) as usize
    }
}

/// The assembly tree of one irreducible diagonal block (or any square matrix) with its predicted
/// cost. Fronts stand in postorder.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The pattern that was analyzed.
    pub(crate) pattern: Arc<CompressedPattern>,
    /// Elimination order: new to input.
    pub(crate) perm: Vec<u32>,
    pub(crate) fronts: Vec<Front>,
    /// Children of all fronts, in the order in which they are added up.
    pub(crate) children: Vec<u32>,
    /// Rows below the pivots of all fronts, ascending in each.
    pub(crate) rows: Vec<u32>,
    /// Position of each of `rows` in the parent's front.
    pub(crate) relative: Vec<u32>,
    pub(crate) layout: Layout,
    /// Seconds of the subtree of each front.
    pub(crate) subtree_seconds: Vec<f64>,
    max_front: u32,
    factor_entries: u64,
    flops: f64,
    /// Most entries of the two stacks of generated elements, in a serial factorization.
    pub(crate) stack_entries: [u64; 2],
    /// What is reserved for all of this but the pattern.
    memory: Reservation,
}

/// Bytes that the elimination tree of a column, its postorder and counts, and its front take at most, at once.
const ANALYSIS_PER_COLUMN: u64 = 200;

impl Tree {
    /// Analyzes the pattern of a square matrix B given by columns, whose order is a good elimination
    /// order of B + Bᵀ; only the order within a postorder is changed.
    ///
    /// Near linear in the entries of B and the rows of all fronts.
    ///
    /// # Errors
    ///
    /// [`FrontalError::NotSquare`]; [`FrontalError::IndexOverflow`] if a front or the entries of B
    /// exceed 32-bit positions.
    pub fn analyze(cols: &CompressedPattern, options: &TreeOptions) -> Result<Self, FrontalError> {
        Self::analyze_within(Arc::new(cols.clone()), options, &Limits::none())
    }

    /// As [`analyze`](Self::analyze), within limits. `cols` counts as reserved by the caller.
    ///
    /// # Errors
    ///
    /// As [`analyze`](Self::analyze), [`FrontalError::OutOfMemory`] and [`FrontalError::Cancelled`].
    pub fn analyze_within(
        cols: Arc<CompressedPattern>,
        options: &TreeOptions,
        limits: &Limits,
    ) -> Result<Self, FrontalError> {
        check(&cols)?;
        let cancel = &limits.cancel;
        // The rows, with their places while they are found; the elimination tree, its postorder and the counts; fronts.
        let (order, nnz) = (cols.major_dim() as u64, cols.nnz() as u64);
        let at_first = ANALYSIS_PER_COLUMN * order + 16 * nnz;
        let mut memory = limits.memory.reserve(at_first)?;
        let rows = Transposed::new(&cols, 1);
        cancel.check()?;
        let graph = Symmetrized::new(&cols, &rows);
        let n = cols.major_dim();
        let parent = etree::try_elimination_tree(n, |v| graph.neighbours(v), || cancel.check())?;
        let post = etree::postorder(&parent);
        cancel.check()?;
        let position = inverse(&post);
        let parent = etree::renumbered(&parent, &post, &position);
        let counts = etree::try_weighted_column_counts(
            &parent,
            |_| 1,
            |j| {
                let joined = graph.neighbours(post[j as usize]);
                joined.map(|w| position[w as usize])
            },
            || cancel.check(),
        )?;
        let forest = EliminationForest { parent, counts };
        let skeleton = Skeleton::new(&forest, Some(&post), options, cancel)?;
        drop(forest);
        // Rows and relative indices; the layout, and where each entry is among a column's while it is made.
        let num_rows = skeleton.num_rows;
        memory.grow(8 * num_rows + 16 * nnz + 16 * order)?;
        let mut tree = Self::build(cols, rows, skeleton, options, 1, cancel)?;
        memory.shrink_to(tree.own_bytes());
        tree.memory = memory;
        Ok(tree)
    }

    /// As [`analyze`](Self::analyze), for columns whose order is a postorder of the elimination forest of B + Bᵀ, which
    /// is given with the sizes of the columns of the Cholesky factor. With `threads` above 1, independent parts are done
    /// side by side on the current rayon pool; the tree is the same.
    ///
    /// # Errors
    ///
    /// As [`analyze`](Self::analyze).
    ///
    /// # Panics
    ///
    /// If `forest` has another number of columns. The tree of a forest that is not B's has rows that the entries of B
    /// do not fill; where that would lead out of bounds, it panics.
    #[track_caller]
    pub fn analyze_posted(
        cols: Arc<CompressedPattern>,
        forest: &EliminationForest,
        options: &TreeOptions,
        threads: usize,
    ) -> Result<Self, FrontalError> {
        let tree = Self::analyze_posted_beside(|| (cols, ()), forest, options, threads);
        tree.map(|(tree, ())| tree)
    }

    /// As [`analyze_posted`](Self::analyze_posted), for columns that `make` makes, with something else, while the part
    /// of the analysis goes on that needs the forest alone.
    ///
    /// # Errors
    ///
    /// As [`analyze`](Self::analyze).
    ///
    /// # Panics
    ///
    /// As [`analyze_posted`](Self::analyze_posted).
    #[track_caller]
    pub fn analyze_posted_beside<R: Send>(
        make: impl FnOnce() -> (Arc<CompressedPattern>, R) + Send,
        forest: &EliminationForest,
        options: &TreeOptions,
        threads: usize,
    ) -> Result<(Self, R), FrontalError> {
        let columns = || {
            let (cols, rest) = make();
            check(&cols)?;
            let rows = Transposed::new(&cols, threads);
            Ok::<_, FrontalError>((cols, rows, rest))
        };
        let never = CancelFlag::new();
        let skeleton = || Skeleton::new(forest, None, options, &never);
        let (columns, skeleton) = both(threads, columns, skeleton);
        let (cols, rows, rest) = columns?;
        let lengths = (forest.parent.len(), forest.counts.len());
        let n = cols.major_dim();
        assert_eq!(lengths, (n, n), "a forest of as many columns as B");
        let tree = Self::build(cols, rows, skeleton?, options, threads, &never)?;
        Ok((tree, rest))
    }

    fn build(
        cols: Arc<CompressedPattern>,
        rows_of: Transposed,
        skeleton: Skeleton,
        options: &TreeOptions,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<Self, FrontalError> {
        let Skeleton {
            perm,
            mut fronts,
            front_of,
            children,
            num_rows,
        } = skeleton;
        let graph = Symmetrized::new(&cols, &rows_of);
        let inv_perm = inverse(&perm);
        let columns = Columns {
            graph: &graph,
            fronts: &fronts,
            front_of: &front_of,
            perm: &perm,
            inv_perm: &inv_perm,
        };
        let (rows, totals) = both(
            threads,
            || structure::row_structure(columns, num_rows, threads, cancel),
            || Totals::new(&fronts, &children, &options.cost),
        );
        let rows = rows?;
        cancel.check()?;
        let ((relative, pivots_in_parent), layout) = both(
            threads,
            || structure::relative_indices(&fronts, &rows, threads),
            || {
                Layout::new(
                    &fronts, &rows, &cols, &rows_of, &perm, &inv_perm, threads, cancel,
                )
            },
        );
        let layout = layout?;
        for (front, count) in fronts.iter_mut().zip(pivots_in_parent) {
            front.pivots_in_parent = count;
        }
        let Totals {
            subtree_seconds,
            max_front,
            factor_entries,
            flops,
            stack_entries,
        } = totals;
        Ok(Self {
            pattern: cols,
            perm,
            fronts,
            children,
            rows,
            relative,
            layout,
            subtree_seconds,
            max_front,
            factor_entries,
            flops,
            stack_entries,
            memory: Reservation::default(),
        })
    }

    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.pattern.major_dim()
    }

    /// Number of entries of the matrix.
    pub fn nnz(&self) -> usize {
        self.pattern.nnz()
    }

    /// The elimination order, new to input.
    pub fn perm(&self) -> &[u32] {
        &self.perm
    }

    /// The fronts in postorder.
    pub fn fronts(&self) -> &[Front] {
        &self.fronts
    }

    /// Rows below the pivots of front `s`, ascending in elimination order.
    pub fn rows_below(&self, s: usize) -> &[u32] {
        &self.rows[self.fronts[s].row_range()]
    }

    /// Children of front `s`, ascending.
    pub fn children(&self, s: usize) -> &[u32] {
        &self.children[self.fronts[s].child_range()]
    }

    /// Number of fronts.
    pub fn num_supernodes(&self) -> usize {
        self.fronts.len()
    }

    /// Rows of the largest front.
    pub fn max_front(&self) -> usize {
        self.max_front as usize
    }

    /// Predicted entries of L and U, the diagonal counted once, explicit zeros included; delayed
    /// pivots add to it.
    pub fn factor_entries(&self) -> u64 {
        self.factor_entries
    }

    /// Predicted operations, those on explicit zeros included.
    pub fn flops(&self) -> f64 {
        self.flops
    }

    /// Predicted bytes of the factors with entries of `value_bytes` bytes.
    pub fn factor_bytes(&self, value_bytes: usize) -> u64 {
        self.layout.slots * value_bytes as u64 + 24 * self.fronts.len() as u64 + 8 * self.n() as u64
    }

    /// Predicted bytes at the peak of a factorization: factors, generated elements and working
    /// memory.
    pub fn peak_bytes(&self, value_bytes: usize, threads: usize) -> u64 {
        let elements = if threads > 1 {
            Schedule::new(self, threads).element_entries(threads)
        } else {
            self.stack_entries[0] + self.stack_entries[1]
        };
        let scratch = 8 * threads.max(1) as u64 * u64::from(self.max_front) + 4 * self.n() as u64;
        self.factor_bytes(value_bytes) + (elements + scratch) * value_bytes as u64
    }

    /// Bytes of the tree itself.
    pub fn bytes(&self) -> u64 {
        self.own_bytes() + (4 * self.pattern.nnz() + 8 * self.pattern.ptr().len()) as u64
    }

    /// Those without the pattern.
    fn own_bytes(&self) -> u64 {
        let indices = self.perm.len() + self.children.len() + self.rows.len() + self.relative.len();
        (indices * 4 + self.fronts.len() * (size_of::<Front>() + 8) + self.layout.bytes()) as u64
    }

    /// Predicted seconds of a factorization in f64 on one core of the machine that
    /// [`CostModel`] was fitted on. Meant to be compared with other predictions, not with a clock.
    pub fn seconds(&self) -> f64 {
        (0..self.fronts.len())
            .filter(|&s| self.fronts[s].parent == NONE)
            .map(|s| self.subtree_seconds[s])
            .sum()
    }
}

/// What is summed up over the fronts.
struct Totals {
    subtree_seconds: Vec<f64>,
    max_front: u32,
    factor_entries: u64,
    flops: f64,
    stack_entries: [u64; 2],
}

impl Totals {
    fn new(fronts: &[Front], children: &[u32], cost: &CostModel) -> Self {
        let mut subtree_seconds = vec![0.0; fronts.len()];
        let (mut factor_entries, mut flops, mut max_front) = (0, 0.0, 0);
        for (s, front) in fronts.iter().enumerate() {
            subtree_seconds[s] += cost.front_seconds(front.pivots, front.below);
            if front.parent != NONE {
                subtree_seconds[front.parent as usize] += subtree_seconds[s];
            }
            factor_entries += front_entries(front.pivots, front.below);
            flops += front_flops(front.pivots, front.below);
            max_front = max_front.max(front.size());
        }
        Self {
            subtree_seconds,
            max_front,
            factor_entries,
            flops,
            stack_entries: stack_entries(fronts, children),
        }
    }
}

/// The fronts without their rows.
struct Skeleton {
    perm: Vec<u32>,
    fronts: Vec<Front>,
    /// The front in which each column is eliminated.
    front_of: Vec<u32>,
    children: Vec<u32>,
    /// Rows below the pivots of all fronts.
    num_rows: u64,
}

impl Skeleton {
    /// `post`: the columns in the order of the forest, new to old, unless they stand in that order.
    fn new(
        forest: &EliminationForest,
        post: Option<&[u32]>,
        options: &TreeOptions,
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        let n = forest.parent.len();
        cancel.check()?;
        let supernodes = supernodes(&forest.parent, &forest.counts, options);
        cancel.check()?;
        let order = postorder(&supernodes);
        cancel.check()?;
        let mut perm = vec![0u32; n];
        let mut front_of = vec![0u32; n];
        let mut fronts: Vec<Front> = Vec::with_capacity(order.len());
        let mut children = Vec::with_capacity(order.len());
        // Fronts whose parents are yet to come.
        let mut orphans: Vec<u32> = Vec::new();
        let (mut start, mut num_rows) = (0, 0u64);
        for (s, ordered) in (0u32..).zip(&order) {
            let old = ordered.supernode as usize;
            let mut end = start;
            for column in supernodes.columns(old).flatten() {
                perm[end] = column;
                front_of[end] = s;
                end += 1;
            }
            let own = orphans.len() - ordered.num_children as usize;
            let own = orphans.drain(own..);
            let first_child = children.len() as u32;
            for child in own {
                fronts[child as usize].parent = s;
                children.push(child);
            }
            orphans.push(s);
            fronts.push(Front {
                start: start as u32,
                pivots: supernodes.pivots[old],
                below: supernodes.below[old],
                pivots_in_parent: 0,
                parent: NONE,
                children: first_child,
                num_children: ordered.num_children,
                depth: ordered.depth,
                rows: num_rows,
            });
            num_rows += u64::from(supernodes.below[old]);
            start = end;
        }
        if let Some(post) = post {
            perm.iter_mut().for_each(|c| *c = post[*c as usize]);
        }
        cancel.check()?;
        Ok(Self {
            perm,
            fronts,
            front_of,
            children,
            num_rows,
        })
    }
}

/// Whether a matrix can be analyzed.
fn check(cols: &CompressedPattern) -> Result<(), FrontalError> {
    if cols.minor_dim() != cols.major_dim() {
        return Err(FrontalError::NotSquare {
            rows: cols.minor_dim(),
            columns: cols.major_dim(),
        });
    }
    to_u32(cols.nnz(), "number of entries of the block")?;
    Ok(())
}

/// A supernode in postorder.
struct Ordered {
    supernode: u32,
    num_children: u32,
    /// Number of supernodes on the way to the root.
    depth: u32,
}

/// A supernode in a list of children.
#[derive(Clone, Copy)]
struct Sibling {
    num_children: u32,
    first_child: u32,
    next: u32,
    /// How many entries its subtree needs at most beyond its own generated element.
    excess: u64,
}

/// Postorder of the supernodes that keeps the stack of generated elements small: children that need
/// much beyond what they leave behind come first (J. W. H. Liu, "On the storage requirement in the
/// out-of-core multifrontal method for sparse factorization", ACM TOMS 12, 1986).
fn postorder(supernodes: &Supernodes) -> Vec<Ordered> {
    let ns = supernodes.parent.len();
    let element = |s: usize| u64::from(supernodes.below[s]).pow(2);
    let childless = Sibling {
        num_children: 0,
        first_child: NONE,
        next: NONE,
        excess: 0,
    };
    // `ns` stands for the parent of the roots.
    let mut siblings = vec![childless; ns + 1];
    let mut list: Vec<(Reverse<u64>, u32)> = Vec::new();
    for s in 0..=ns {
        let mut child = siblings[s].first_child;
        if child != NONE {
            list.clear();
            while child != NONE {
                let of = &siblings[child as usize];
                list.push((Reverse(of.excess), child));
                child = of.next;
            }
            if list.len() > 1 {
                list.sort_unstable();
                // Relink in the chosen order.
                let mut first = NONE;
                for &(_, c) in list.iter().rev() {
                    siblings[c as usize].next = std::mem::replace(&mut first, c);
                }
                siblings[s].first_child = first;
            }
            siblings[s].num_children = list.len() as u32;
        }
        if s == ns {
            break;
        }
        if siblings[s].num_children > 0 {
            let (mut live, mut highest) = (0, 0);
            for &(Reverse(excess), c) in &list {
                let element = element(c as usize);
                highest = highest.max(live + element + excess);
                live += element;
            }
            siblings[s].excess = highest.max(live + element(s)) - element(s);
        }
        let parent = match supernodes.parent[s] {
            NONE => ns,
            p => p as usize,
        };
        siblings[s].next = std::mem::replace(&mut siblings[parent].first_child, s as u32);
    }
    let mut order = Vec::with_capacity(ns);
    let mut path = Vec::new();
    let mut next = siblings[ns].first_child;
    loop {
        while next != NONE {
            path.push(next);
            next = siblings[next as usize].first_child;
        }
        let Some(supernode) = path.pop() else { break };
        let of = &siblings[supernode as usize];
        order.push(Ordered {
            supernode,
            num_children: of.num_children,
            depth: path.len() as u32,
        });
        next = of.next;
    }
    order
}

/// Entries that a front hands to its parent: the generated element and two check vectors.
pub(crate) fn element_entries(below: usize) -> usize {
    below * below + 2 * below
}

/// Peaks of the two stacks (fronts of even and of odd depth) in postorder.
fn stack_entries(fronts: &[Front], children: &[u32]) -> [u64; 2] {
    let entries = |f: &Front| element_entries(f.below as usize) as u64;
    let mut live = [0u64; 2];
    let mut peak = [0u64; 2];
    for front in fronts {
        let own = (front.depth % 2) as usize;
        live[own] += entries(front);
        peak[own] = peak[own].max(live[own]);
        for &c in &children[front.child_range()] {
            live[1 - own] -= entries(&fronts[c as usize]);
        }
    }
    debug_assert!(fronts.is_empty() || live == [0, 0]);
    peak
}
