//! The two sweeps of a solve through a tree whose fronts are on several ranks.
//!
//! Values travel in vectors by label, of which every rank has one of full length. Forward a front adds to the values of the rows
//! below it, and the bits of such a sum depend on the order. So a rank keeps what each front of its subtrees adds to rows above
//! these apart, and rank 0 adds it up between what its own fronts do, in postorder, as one rank alone would:
//!
//! ```text
//!   each rank        forward through its subtrees
//!   ranks 1, 2, …    the values of columns that were delayed, and what their fronts add to rows above, to rank 0
//!   rank 0           forward and backward through what is above; the values of the pivots there, to all
//!   each rank        backward through its subtrees
//!   all              the values of the pivots of all
//! ```
//!
//! After the backward sweep all ranks have the whole vector.

use luge_comm::{Collectives, Comm, Operation};
use luge_sparse::{Cancelled, Scalar};

use crate::deal::{Ranks, as_bytes, from_bytes, told};
use crate::factorize::FrontState;
use crate::tree::AssemblyTree;

/// A path through the fronts of a tree, and back.
#[derive(Clone, Copy)]
pub(crate) struct Sweep<'a> {
    pub tree: &'a AssemblyTree,
    pub records: &'a [FrontState],
    /// `None`: all fronts are here.
    pub ranks: Option<&'a Ranks>,
    /// Values by label.
    pub width: usize,
}

impl Sweep<'_> {
    /// Calls `visit` with each front from the leaves to the roots. It adds to the values of the rows below the front that `sums`
    /// has, and writes those of its fully summed rows, whose `labels` are in the same order.
    pub fn forward<'l, V, F: Scalar>(
        &self,
        vectors: &mut V,
        sums: impl Fn(&mut V) -> &mut [F],
        labels: impl Fn(usize) -> &'l [u32],
        mut visit: impl FnMut(&mut V, usize) -> Result<(), Cancelled>,
    ) -> Result<(), Cancelled> {
        let num_fronts = self.records.len();
        let Some(Ranks { team, share }) = self.ranks else {
            return (0..num_fronts).try_for_each(|s| visit(vectors, s));
        };
        team.enter(Operation::Solve);
        let width = self.width;
        let place = |label: u32| label as usize * width..(label as usize + 1) * width;
        let root_of = self.roots();
        // What was in the rows above.
        let above: Vec<F> = if team.rank() == 0 {
            sums(vectors).to_vec()
        } else {
            Vec::new()
        };
        let mut added: Vec<F> = Vec::new();
        for s in (0..num_fronts).filter(|&s| share.is_dealt_here(s)) {
            let rows = self.rows_above(s, root_of[s]);
            for &label in rows {
                // Whatever is added to this zero is the sum, with its sign.
                sums(vectors)[place(label)].fill(-F::zero());
            }
            visit(vectors, s)?;
            for &label in rows {
                added.extend_from_slice(&sums(vectors)[place(label)]);
            }
        }
        let delayed = |root: u32| {
            let record = &self.records[root as usize];
            &labels(root as usize)[record.pivots as usize..record.k as usize]
        };
        let delayed_by = |rank: usize| share.roots()[rank].iter().flat_map(|&root| delayed(root));
        if team.rank() > 0 {
            let mut values = Vec::new();
            for &label in delayed_by(team.rank()) {
                values.extend_from_slice(&sums(vectors)[place(label)]);
            }
            told(team.send(0, as_bytes(&values)))?;
            return told(team.send(0, as_bytes(&added)));
        }
        let mut all = vec![added];
        for rank in 1..team.size() {
            let values: Vec<F> = from_bytes(&told(team.receive(rank))?);
            for (&label, of_label) in delayed_by(rank).zip(values.chunks_exact(width)) {
                sums(vectors)[place(label)].copy_from_slice(of_label);
            }
            all.push(from_bytes(&told(team.receive(rank))?));
        }
        let mut rest: Vec<&[F]> = all.iter().map(|added| &added[..]).collect();
        for s in (0..num_fronts).filter(|&s| share.is_above(s)) {
            for label in self.tree.fronts[s].pivot_range() {
                let place = place(label as u32);
                sums(vectors)[place.clone()].copy_from_slice(&above[place]);
            }
        }
        for s in 0..num_fronts {
            if share.is_above(s) {
                visit(vectors, s)?;
                continue;
            }
            let values = &mut rest[share.owner(s)];
            for &label in self.rows_above(s, root_of[s]) {
                let (now, others) = values.split_at(width);
                *values = others;
                let sums = &mut sums(vectors)[place(label)];
                sums.iter_mut().zip(now).for_each(|(sum, &v)| *sum += v);
            }
        }
        Ok(())
    }

    /// Calls `visit` with each front from the roots to the leaves. It writes the `values` of the front's pivots, which are the
    /// first of its `labels`; all ranks have them afterwards.
    pub fn backward<'l, V, F: Scalar>(
        &self,
        vectors: &mut V,
        values: impl Fn(&mut V) -> &mut [F],
        labels: impl Fn(usize) -> &'l [u32],
        mut visit: impl FnMut(&mut V, usize) -> Result<(), Cancelled>,
    ) -> Result<(), Cancelled> {
        let num_fronts = self.records.len();
        let Some(Ranks { team, share }) = self.ranks else {
            return (0..num_fronts).rev().try_for_each(|s| visit(vectors, s));
        };
        team.enter(Operation::Solve);
        let width = self.width;
        let pivots = |s: usize| &labels(s)[..self.records[s].pivots as usize];
        let collect = |vectors: &mut V, chosen: &dyn Fn(usize) -> bool| {
            let fronts = (0..num_fronts).filter(|&s| chosen(s));
            let mut found = Vec::new();
            for label in fronts.flat_map(pivots).map(|&label| label as usize) {
                found.extend_from_slice(&values(vectors)[label * width..(label + 1) * width]);
            }
            found
        };
        let spread = |vectors: &mut V, chosen: &dyn Fn(usize) -> bool, bytes: &[u8]| {
            let found: Vec<F> = from_bytes(bytes);
            let fronts = (0..num_fronts).filter(|&s| chosen(s));
            let places = fronts.flat_map(pivots).map(|&label| label as usize);
            for (label, of_label) in places.zip(found.chunks_exact(width)) {
                values(vectors)[label * width..(label + 1) * width].copy_from_slice(of_label);
            }
        };
        let is_above = |s: usize| share.is_above(s);
        let mut bytes = Vec::new();
        if team.rank() == 0 {
            for s in (0..num_fronts).rev().filter(|&s| is_above(s)) {
                visit(vectors, s)?;
            }
            bytes = as_bytes(&collect(vectors, &is_above)).to_vec();
        }
        told(team.broadcast(0, &mut bytes))?;
        spread(vectors, &is_above, &bytes);
        for s in (0..num_fronts).rev().filter(|&s| share.is_dealt_here(s)) {
            visit(vectors, s)?;
        }
        let own = collect(vectors, &|s| share.is_dealt_here(s));
        for (rank, bytes) in told(team.all_gather(as_bytes(&own)))?.iter().enumerate() {
            let is_of_rank = |s: usize| !is_above(s) && share.owner(s) == rank;
            spread(vectors, &is_of_rank, bytes);
        }
        Ok(())
    }

    /// For each front in a subtree that was dealt out the root of that.
    fn roots(&self) -> Vec<u32> {
        let fronts = &self.tree.fronts;
        let mut root_of: Vec<u32> = (0..fronts.len() as u32).collect();
        let Some(Ranks { share, .. }) = self.ranks else {
            return root_of;
        };
        for s in (0..fronts.len()).rev() {
            if !share.is_above(s) && !share.hands_on(s) {
                root_of[s] = root_of[fronts[s].parent as usize];
            }
        }
        root_of
    }

    /// The rows below a front that are not pivots of its subtree, as planned.
    fn rows_above(&self, s: usize, root: u32) -> &[u32] {
        let rows = self.tree.rows_below(s);
        let end = self.tree.fronts[root as usize].pivot_range().end;
        &rows[rows.partition_point(|&label| (label as usize) < end)..]
    }
}
