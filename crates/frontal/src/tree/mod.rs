//! The assembly tree of a symmetrised pattern: which columns are eliminated together, in which
//! front, and which rows each front has. Nothing here knows values, pivots or the kind of
//! factorization.

mod cost;
#[cfg(feature = "gpu")]
mod gathering;
#[cfg(feature = "gpu")]
mod moved;
mod pairs;
mod parts;
mod path;
mod structure;
mod supernodes;

pub use cost::CostModel;
pub(crate) use cost::{front_entries, front_flops, lower_entries, lower_flops};
#[cfg(feature = "gpu")]
pub use gathering::Gathering;
#[cfg(feature = "gpu")]
pub(crate) use gathering::gathered;
#[cfg(feature = "gpu")]
pub(crate) use moved::{Move, moved};
pub use pairs::Pairs;
pub(crate) use pairs::keep_in_tiles;
pub use path::PathCosts;
#[cfg(feature = "gpu")]
pub(crate) use path::{End, Ends};
#[cfg(feature = "gpu")]
pub(crate) use supernodes::Supernode;
pub(crate) use supernodes::{Supernodes, supernodes};

use std::cmp::Reverse;
use std::sync::Arc;

use luge_sparse::etree::{self, EliminationForest, NONE, inverse};
use luge_sparse::{CancelFlag, Cancelled, CompressedPattern, to_u32};

use crate::error::FrontalError;
use crate::shares::both;
use parts::Parts;
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
    /// A front with more pivots is not merged into its parent, even where that costs no explicit zero: it saves little beside
    /// what the front takes, and siblings could no longer be eliminated side by side.
    pub merged_pivots: u32,
    /// Decides, within these limits, whether merging pays.
    pub cost: CostModel,
    /// Where as many fronts are worked on side by side as there are: what must not make the longest path longer.
    pub path: Option<PathCosts>,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            zero_fraction: 0.12,
            tiny_zero_fraction: 0.25,
            tiny_pivots: 8,
            merged_pivots: 1024,
            cost: CostModel::default(),
            path: None,
        }
    }
}

/// A front: `pivots` columns and rows that are eliminated here, and `below` later ones that are
/// updated. It has a pivot, unless it adds up some children of another front.
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
    /// Number of fronts on the path to the root.
    pub depth: u32,
    /// Where its rows start among all rows.
    pub(crate) rows: u64,
    /// Whether somebody else eliminates its pivots, and its element is there before work on the tree begins. Such a
    /// front is a leaf.
    pub(crate) is_given: bool,
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

/// The assembly tree of one irreducible diagonal block (or any square matrix): elimination order, fronts, their rows and
/// where these are in their parents. Fronts stand in postorder.
///
/// It serves every kind of factorization; what a kind stores of a front and what that costs is a
/// [`Symbolic`](crate::Symbolic).
#[derive(Debug, Clone)]
pub struct AssemblyTree {
    /// The pattern that was analyzed.
    pub(crate) pattern: Arc<CompressedPattern>,
    /// Elimination order: new to input.
    pub(crate) perm: Arc<Vec<u32>>,
    pub(crate) fronts: Vec<Front>,
    /// Children of all fronts, in the order in which they are added up.
    pub(crate) children: Vec<u32>,
    /// Rows below the pivots of all fronts, ascending in each.
    pub(crate) rows: Vec<u32>,
    /// Position of each of `rows` in the parent's front.
    pub(crate) relative: Vec<u32>,
    max_front: u32,
}

/// Bytes that the elimination tree of a column, its postorder and counts, and its front take at most, at once.
const ANALYSIS_PER_COLUMN: u64 = 200;

/// What is known of a matrix before the rows of its fronts are found.
pub(crate) struct Analysis {
    cols: Arc<CompressedPattern>,
    rows_of: Transposed,
    skeleton: Skeleton,
}

/// A tree without relative indices, for what is made beside them.
#[derive(Clone, Copy)]
pub(crate) struct Structure<'a> {
    pub fronts: &'a [Front],
    pub children: &'a [u32],
    /// Rows below the pivots of all fronts.
    pub rows: &'a [u32],
    pub cols: &'a CompressedPattern,
    pub rows_of: &'a Transposed,
    /// Elimination order: new to old, and old to new.
    pub perm: &'a [u32],
    pub inv_perm: &'a [u32],
}

impl Analysis {
    /// Bytes that [`new`](Self::new) works in, for a matrix with this many columns and entries.
    pub fn bytes(order: usize, nnz: usize) -> u64 {
        // The rows, with their places while they are found; the elimination tree, its postorder and the counts; fronts.
        ANALYSIS_PER_COLUMN * order as u64 + 16 * nnz as u64
    }

    /// Of a square matrix given by columns, whose order is a good elimination order.
    pub fn new(
        cols: Arc<CompressedPattern>,
        options: &TreeOptions,
        cancel: &CancelFlag,
    ) -> Result<Self, FrontalError> {
        check(&cols)?;
        cancel.check()?;
        let rows_of = Transposed::new(&cols, 1);
        cancel.check()?;
        let graph = Symmetrized::new(&cols, &rows_of);
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
        let skeleton = Skeleton::new(&forest, Some(&post), None, options, (1, cancel))?;
        Ok(Self {
            cols,
            rows_of,
            skeleton,
        })
    }

    /// Of columns whose order is a postorder of `forest`, which `make` makes with something else, while the part of
    /// the analysis goes on that needs the forest alone. Within fronts, `pairs` stay in one tile.
    #[track_caller]
    pub fn posted<R: Send>(
        make: impl FnOnce() -> (Arc<CompressedPattern>, R) + Send,
        forest: &EliminationForest,
        pairs: Option<Pairs<'_>>,
        options: &TreeOptions,
        threads: usize,
    ) -> Result<(Self, R), FrontalError> {
        let columns = || {
            let (cols, rest) = make();
            check(&cols)?;
            let rows_of = Transposed::new(&cols, threads);
            Ok::<_, FrontalError>((cols, rows_of, rest))
        };
        let never = CancelFlag::new();
        let skeleton = || Skeleton::new(forest, None, pairs, options, (threads, &never));
        let (columns, skeleton) = both(threads, columns, skeleton);
        let (cols, rows_of, rest) = columns?;
        let lengths = (forest.parent.len(), forest.counts.len());
        let n = cols.major_dim();
        assert_eq!(lengths, (n, n), "a forest of as many columns as B");
        let analysis = Self {
            cols,
            rows_of,
            skeleton: skeleton?,
        };
        Ok((analysis, rest))
    }

    /// Bytes that [`tree`](Self::tree) works in and makes.
    pub fn tree_bytes(&self) -> u64 {
        8 * self.skeleton.num_rows + 16 * self.cols.major_dim() as u64
    }

    /// The tree, and what `beside` makes while its relative indices are found.
    pub fn tree<R: Send>(
        self,
        threads: usize,
        cancel: &CancelFlag,
        beside: impl FnOnce(Structure<'_>) -> Result<R, FrontalError> + Send,
    ) -> Result<(AssemblyTree, R), FrontalError> {
        let Self {
            cols,
            rows_of,
            skeleton,
        } = self;
        let Skeleton {
            perm,
            fronts,
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
        let rows = structure::row_structure(columns, num_rows, threads, cancel)?;
        cancel.check()?;
        let parts = Parts {
            perm,
            fronts,
            children,
            rows,
        };
        parts.put_together(cols, (&rows_of, &inv_perm), threads, beside)
    }
}

impl AssemblyTree {
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

    /// Which of the subtrees with these roots each front is in, by number; of two of which one is part of the other, that is the
    /// larger one, and of two equal ones the last.
    #[cfg(feature = "gpu")]
    pub(crate) fn subtrees(&self, roots: impl Iterator<Item = u32>) -> Vec<Option<u32>> {
        let mut subtrees = vec![None; self.fronts.len()];
        for (number, root) in (0..).zip(roots) {
            subtrees[root as usize] = Some(number);
        }
        for s in (0..self.fronts.len()).rev() {
            if let Some(&Some(number)) = subtrees.get(self.fronts[s].parent as usize) {
                subtrees[s] = Some(number);
            }
        }
        subtrees
    }

    /// A part of the tree: fronts in the order of this one, which know their parents among themselves, with their rows and the
    /// positions of these in the parents' fronts.
    #[cfg(feature = "gpu")]
    pub(crate) fn part(&self, mut fronts: Vec<Front>, rows: Vec<u32>, relative: Vec<u32>) -> Self {
        for front in &mut fronts {
            // Those of the others are counted from the roots.
            front.depth = 1;
        }
        Self {
            children: parts::list_children(&mut fronts),
            max_front: fronts.iter().map(Front::size).max().unwrap_or(0),
            pattern: Arc::clone(&self.pattern),
            perm: Arc::clone(&self.perm),
            fronts,
            rows,
            relative,
        }
    }

    /// Bytes of the tree without the pattern.
    pub(crate) fn bytes(&self) -> u64 {
        let indices = self.perm.len() + self.children.len() + self.rows.len() + self.relative.len();
        (indices * 4 + self.fronts.len() * size_of::<Front>()) as u64
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
        pairs: Option<Pairs<'_>>,
        options: &TreeOptions,
        (threads, cancel): (usize, &CancelFlag),
    ) -> Result<Self, Cancelled> {
        let n = forest.parent.len();
        cancel.check()?;
        let supernodes = supernodes(&forest.parent, &forest.counts, options, threads);
        cancel.check()?;
        let order = postorder(&supernodes);
        cancel.check()?;
        let mut perm = vec![0u32; n];
        let mut front_of = vec![0u32; n];
        let mut fronts: Vec<Front> = Vec::with_capacity(order.len());
        let mut children = Vec::with_capacity(order.len());
        let pairs = pairs.map(|pairs| (pairs.tile, pairs.among(n)));
        // Fronts whose parents are yet to come.
        let mut orphans: Vec<u32> = Vec::new();
        let (mut start, mut num_rows) = (0, 0u64);
        for (s, ordered) in (0u32..).zip(&order) {
            let old = ordered.supernode as usize;
            let group = &supernodes.groups[old];
            let mut end = start;
            for column in supernodes.columns(old).flatten() {
                perm[end] = column;
                front_of[end] = s;
                end += 1;
            }
            if let Some((tile, is_pair)) = &pairs {
                keep_in_tiles(&mut perm[start..end], *tile, is_pair);
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
                pivots: group.pivots,
                below: group.below,
                pivots_in_parent: 0,
                parent: NONE,
                children: first_child,
                num_children: ordered.num_children,
                depth: ordered.depth,
                rows: num_rows,
                is_given: false,
            });
            num_rows += u64::from(group.below);
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
    /// Number of supernodes on the path to the root.
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
    let groups = &supernodes.groups;
    let ns = groups.len();
    let element = |s: usize| u64::from(groups[s].below).pow(2);
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
        let parent = match groups[s].parent {
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
