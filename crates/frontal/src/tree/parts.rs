//! A tree put together from what is known of its fronts.

use std::sync::Arc;

use luge_sparse::CompressedPattern;
#[cfg(feature = "gpu")]
use luge_sparse::etree::{NONE, inverse};

use super::structure::{self, Transposed};
use super::{AssemblyTree, Front, Structure};
use crate::error::FrontalError;
use crate::shares::both;

/// What a tree is made of, but for relative indices.
pub(super) struct Parts {
    /// Elimination order: new to input.
    pub perm: Vec<u32>,
    /// In postorder, each with its parent, depth, children and rows.
    pub fronts: Vec<Front>,
    /// Children of all fronts.
    pub children: Vec<u32>,
    /// Rows below the pivots of all fronts, ascending in each.
    pub rows: Vec<u32>,
}

impl Parts {
    /// The tree, with what `beside` makes while its relative indices are found. With `threads` above 1, those of the current
    /// rayon pool share the work.
    pub fn put_together<R: Send>(
        self,
        cols: Arc<CompressedPattern>,
        (rows_of, inv_perm): (&Transposed, &[u32]),
        threads: usize,
        beside: impl FnOnce(Structure<'_>) -> Result<R, FrontalError> + Send,
    ) -> Result<(AssemblyTree, R), FrontalError> {
        let Self {
            perm,
            mut fronts,
            children,
            rows,
        } = self;
        let structure = Structure {
            fronts: &fronts,
            children: &children,
            rows: &rows,
            cols: &cols,
            rows_of,
            perm: &perm,
            inv_perm,
        };
        let ((relative, pivots_in_parent), beside) = both(
            threads,
            || structure::relative_indices(&fronts, &rows, threads),
            || beside(structure),
        );
        let beside = beside?;
        for (front, count) in fronts.iter_mut().zip(pivots_in_parent) {
            front.pivots_in_parent = count;
        }
        let tree = AssemblyTree {
            max_front: fronts.iter().map(Front::size).max().unwrap_or(0),
            pattern: cols,
            perm: Arc::new(perm),
            fronts,
            children,
            rows,
            relative,
        };
        Ok((tree, beside))
    }

    /// The tree, for the pattern of another one.
    #[cfg(feature = "gpu")]
    pub fn for_pattern_of<R: Send>(
        self,
        before: &AssemblyTree,
        threads: usize,
        beside: impl FnOnce(Structure<'_>) -> Result<R, FrontalError> + Send,
    ) -> Result<(AssemblyTree, R), FrontalError> {
        let rows_of = Transposed::new(&before.pattern, threads);
        let inv_perm = inverse(&self.perm);
        let pattern = Arc::clone(&before.pattern);
        self.put_together(pattern, (&rows_of, &inv_perm), threads, beside)
    }
}

/// Tells fronts, which know their parents, of their depths and children; returns the list of children.
#[cfg(feature = "gpu")]
pub(super) fn list_children(fronts: &mut [Front]) -> Vec<u32> {
    for front in &mut *fronts {
        front.num_children = 0;
    }
    for s in (0..fronts.len()).rev() {
        let parent = fronts[s].parent;
        if parent != NONE {
            // Parents come behind their children, so theirs is known.
            fronts[s].depth = fronts[parent as usize].depth + 1;
            fronts[parent as usize].num_children += 1;
        }
    }
    let mut next = 0;
    for front in &mut *fronts {
        front.children = next;
        next += front.num_children;
    }
    let mut children = vec![0; next as usize];
    let mut at: Vec<u32> = fronts.iter().map(|front| front.children).collect();
    for (s, front) in fronts.iter().enumerate() {
        if front.parent != NONE {
            let at = &mut at[front.parent as usize];
            children[*at as usize] = s as u32;
            *at += 1;
        }
    }
    children
}
