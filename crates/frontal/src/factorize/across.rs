//! One factorization by several ranks.
//!
//! ```text
//!   each rank        its subtrees
//!   all              the first front that failed on any of them
//!   ranks 1, 2, …    the elements of the roots of their subtrees, to rank 0
//!   rank 0           what is above
//!   all              the first failure; reports; then pivots, labels and D of all fronts
//! ```
//!
//! Of another rank's front a rank has all but the panels, which stay where they were made. An element goes with the delayed
//! columns' labels. Fronts before the first that failed go on, so the error is that of one rank alone.

use luge_comm::{Collectives, Comm};
use luge_dense::FrontalScalar;
use luge_sparse::etree::NONE;
use luge_sparse::num_traits::Zero;
use luge_sparse::{Reservation, Scalar, bytes_of};

use super::element::{Element, Owned};
use super::store::{DelayedPanels, FrontState, FrontStore};
use super::traverse::{Extent, traverse};
use super::work::{Context, FrontWork, Report};
use crate::deal::{
    Failure, Ranks, Share, as_bytes, copy_from_bytes, first_failure, from_bytes, told,
};
use crate::error::FrontalError;
use crate::tree::AssemblyTree;

/// Words before the labels of an element that is sent: order, delayed columns, and the front's state.
const HEAD: usize = 5;

/// What of the factors is on other ranks.
#[derive(Debug, Clone)]
pub(crate) struct Spread<F> {
    pub ranks: Ranks,
    /// For each pivot in elimination order its entry on the diagonal, and the one above it in its column.
    pub diagonal: Vec<[F; 2]>,
    /// The first pivot of each front in elimination order.
    pub first_pivot: Vec<u32>,
}

impl<F> Spread<F> {
    pub fn new(ranks: Ranks) -> Self {
        Self {
            ranks,
            diagonal: Vec::new(),
            first_pivot: Vec::new(),
        }
    }

    pub fn share(&self) -> &Share {
        &self.ranks.share
    }

    pub fn bytes(&self) -> u64 {
        size_of_val(&self.diagonal[..]) as u64 + 4 * self.first_pivot.len() as u64
    }
}

/// The fronts of this rank, and with all ranks what is above their subtrees. What all ranks measured.
pub(super) fn factorize<W: FrontWork>(
    context: &Context<'_, W>,
    ranks: &Ranks,
) -> Result<W::Report, FrontalError> {
    let Ranks { team, share } = ranks;
    let (mut report, failed) = traverse(context, &Extent::Dealt(share));
    let first = first_failure(team, failed.map(as_failure))?;
    let limit = first.as_ref().map_or(usize::MAX, |failure| failure.front);
    let mut failed = None;
    if team.rank() > 0 {
        let own = &share.roots()[team.rank()];
        for &root in own.iter().filter(|&&root| (root as usize) < limit) {
            // SAFETY: all fronts of this rank before the first that failed are complete.
            unsafe { send_element(context, ranks, root)? };
        }
    } else {
        // SAFETY: nobody works on the fronts of others.
        failed = unsafe { receive_elements(context, ranks, limit)? };
        let limit = failed.as_ref().map_or(limit, |failure| failure.front);
        let (above, later) = traverse(context, &Extent::Above(share, limit));
        report.merge_fronts(&above);
        failed = later.map(as_failure).or(failed);
    }
    let later = first_failure(team, failed)?;
    let failures = [first, later].into_iter().flatten();
    if let Some(failure) = failures.min_by_key(|failure| failure.front) {
        return Err(failure.error);
    }
    let mut all = W::Report::default();
    for words in told(team.all_gather(&report.encode()))? {
        let part = W::Report::decode(&words);
        all.merge_fronts(&part.unwrap_or_else(|| unreachable!("a report of another kind")));
    }
    Ok(all)
}

fn as_failure((front, error): (usize, FrontalError)) -> Failure {
    Failure { front, error }
}

/// Sends the element of a front that belongs to rank 0, and what it takes to continue from it.
///
/// # Safety
///
/// The front is complete, and nobody works on it.
unsafe fn send_element<W: FrontWork>(
    context: &Context<'_, W>,
    ranks: &Ranks,
    root: u32,
) -> Result<(), FrontalError> {
    let s = root as usize;
    // A root of the whole tree leaves nothing.
    if context.symbolic.tree.fronts[s].parent == NONE {
        return Ok(());
    }
    // SAFETY: the caller's contract.
    let (element, state, (rows, cols)) = unsafe {
        let element = &mut *context.elements.add(s);
        let element = std::mem::replace(element, Element::none());
        (
            element,
            *context.records.add(s),
            context.delayed_labels(root),
        )
    };
    let mut words = vec![
        element.order,
        element.delayed,
        state.k,
        state.pivots,
        u32::from(state.moved),
    ];
    words.extend(rows);
    words.extend(cols);
    told(ranks.team.send_slice(0, &words))?;
    // They have a value each, for the memory was cleared.
    let values = element
        .owned
        .as_ref()
        .map_or(&[][..], |owned| &owned.values);
    Ok(told(ranks.team.send(0, as_bytes(values)))?)
}

/// Takes the elements of all ranks' subtrees before front `limit`. The failure, if memory is short: what else comes is then
/// taken and left.
///
/// # Safety
///
/// Nobody works on fronts above the subtrees, or of others.
unsafe fn receive_elements<W: FrontWork>(
    context: &Context<'_, W>,
    ranks: &Ranks,
    limit: usize,
) -> Result<Option<Failure>, FrontalError> {
    let tree = &context.symbolic.tree;
    let mut failed: Option<Failure> = None;
    for (rank, roots) in ranks.share.roots().iter().enumerate().skip(1) {
        for &root in roots {
            let front = &tree.fronts[root as usize];
            if root as usize >= limit || front.parent == NONE {
                continue;
            }
            let words: Vec<u32> = told(ranks.team.receive_vec(rank))?;
            let bytes = told(ranks.team.receive(rank))?;
            // SAFETY: the caller's contract.
            let taken = unsafe { take_element(context, root, &words, &bytes) };
            if let Err(error) = taken {
                let front = front.parent as usize;
                if failed.as_ref().is_none_or(|first| front < first.front) {
                    failed = Some(Failure { front, error });
                }
            }
        }
    }
    Ok(failed)
}

/// Puts an element in its place.
///
/// # Safety
///
/// Nobody works on the front.
unsafe fn take_element<W: FrontWork>(
    context: &Context<'_, W>,
    root: u32,
    words: &[u32],
    bytes: &[u8],
) -> Result<(), FrontalError> {
    let (head, labels) = words.split_at(HEAD);
    let state = FrontState {
        k: head[2],
        pivots: head[3],
        moved: head[4] != 0,
    };
    let mut element = Element::none();
    (element.order, element.delayed) = (head[0], head[1]);
    let len = bytes.len() / size_of::<W::Scalar>();
    let memory = context.options.memory.reserve_for::<W::Scalar>(len)?;
    let mut values = vec![W::Scalar::zero(); len];
    copy_from_bytes(&mut values, bytes);
    element.values = values.as_mut_ptr();
    element.owned = Some(Box::new(Owned {
        values,
        _memory: memory,
    }));
    let s = root as usize;
    let (rows, cols) = labels.split_at(labels.len() - head[1] as usize);
    // SAFETY: the caller's contract; a front without delayed panels has as many labels as pivots.
    unsafe {
        *context.elements.add(s) = element;
        if !context.search {
            // They are known, with those of the pivots.
            return Ok(());
        }
        *context.records.add(s) = state;
        let places = LabelPlaces {
            rows: context.rows,
            cols: context.cols,
            delayed: &mut *context.delayed.add(s),
        };
        places.write(
            &context.symbolic.tree,
            s,
            state.pivots as usize,
            (rows, cols),
        );
    }
    Ok(())
}

/// Where the labels of a front are.
struct LabelPlaces<'a, F> {
    rows: *mut u32,
    cols: *mut u32,
    delayed: &'a mut Option<Box<DelayedPanels<F>>>,
}

impl<F> LabelPlaces<'_, F> {
    /// Writes the labels of the fully summed rows and columns of front `s` from position `first` on; no rows where these are
    /// permuted as the columns are. A front that received columns has lists of its own, and on other ranks than its own
    /// nothing else.
    ///
    /// # Safety
    ///
    /// The arrays have a place for each pivot of the tree, and nobody else uses those of the front.
    unsafe fn write(self, tree: &AssemblyTree, s: usize, first: usize, labels: (&[u32], &[u32])) {
        let (rows, cols) = labels;
        let front = &tree.fronts[s];
        let k = first + cols.len();
        let has_rows = rows.len() == cols.len();
        if k == front.pivots as usize {
            let start = front.start as usize + first;
            // SAFETY: the labels of the front, which has as many.
            unsafe {
                for (i, &row) in rows.iter().enumerate() {
                    *self.rows.add(start + i) = row;
                }
                for (i, &col) in cols.iter().enumerate() {
                    *self.cols.add(start + i) = col;
                }
            }
            return;
        }
        let list = |labels: &[u32]| {
            let mut list = vec![0; first];
            list.extend(labels);
            list
        };
        *self.delayed = Some(Box::new(DelayedPanels {
            values: Vec::new(),
            rows: if has_rows { list(rows) } else { Vec::new() },
            cols: list(cols),
            row_from: Vec::new(),
            col_from: Vec::new(),
        }));
    }
}

impl<F: FrontalScalar> FrontStore<F> {
    /// Labels of the fully summed rows and columns of a front; no rows where these are permuted as the columns are.
    pub fn labels(&self, tree: &AssemblyTree, s: usize) -> (&[u32], &[u32]) {
        if let Some(panels) = self.delayed.get(s).and_then(Option::as_deref) {
            return (&panels.rows, &panels.cols);
        }
        let own = tree.fronts[s].pivot_range();
        (
            self.rows.get(own.clone()).unwrap_or_default(),
            &self.cols[own],
        )
    }

    /// Tells all ranks the pivots and labels of the fronts of each; `memory` is what is reserved for the factors.
    pub fn share_labels(
        &mut self,
        tree: &AssemblyTree,
        ranks: &Ranks,
        memory: &mut Reservation,
    ) -> Result<(), FrontalError> {
        let Ranks { team, share } = ranks;
        let mut words: Vec<u32> = Vec::new();
        for s in (0..tree.fronts.len()).filter(|&s| share.is_own(s)) {
            let state = &self.records[s];
            words.extend([state.k, state.pivots, u32::from(state.moved)]);
            let (rows, cols) = self.labels(tree, s);
            words.extend(rows);
            words.extend(cols);
        }
        let all = told(team.all_gather(&words))?;
        let has_rows = !self.rows.is_empty();
        let mut rest: Vec<&[u32]> = all.iter().map(|words| &words[..]).collect();
        let (mut states, mut lists) = (Vec::new(), 0);
        for (s, front) in tree.fronts.iter().enumerate() {
            let words = &mut rest[share.owner(s)];
            let (state, others) = words.split_at(3);
            let k = state[0] as usize;
            let (rows, others) = others.split_at(if has_rows { k } else { 0 });
            let (cols, others) = others.split_at(k);
            *words = others;
            if share.is_own(s) {
                continue;
            }
            if k != front.pivots as usize {
                lists += DelayedPanels::<F>::bytes(0, k);
            }
            states.push((s, [state[0], state[1], state[2]], rows, cols));
        }
        let no_lists = self.delayed.is_empty();
        if no_lists && lists > 0 {
            lists += bytes_of::<Option<Box<DelayedPanels<F>>>>(tree.fronts.len());
        }
        Ranks::agreed(Some(ranks), memory.grow(lists).map_err(FrontalError::from))?;
        if lists > 0 && no_lists {
            self.delayed.resize_with(tree.fronts.len(), || None);
        }
        for (s, [k, pivots, moved], rows, cols) in states {
            self.records[s] = FrontState {
                k,
                pivots,
                moved: moved != 0,
            };
            let mut none = None;
            let places = LabelPlaces {
                rows: self.rows.as_mut_ptr(),
                cols: self.cols.as_mut_ptr(),
                delayed: self.delayed.get_mut(s).unwrap_or(&mut none),
            };
            // SAFETY: the arrays are those of the tree, and borrowed.
            unsafe { places.write(tree, s, 0, (rows, cols)) };
        }
        Ok(())
    }
}

impl<F: FrontalScalar> Spread<F> {
    /// Tells all ranks the entries of D, or of the diagonal of U, that each has: `own` are those of the fronts of this rank, two
    /// for each pivot.
    pub fn share_diagonal(
        &mut self,
        records: &[FrontState],
        own: &[F],
    ) -> Result<(), FrontalError> {
        let Ranks { team, share } = &self.ranks;
        let all = told(team.all_gather(as_bytes(own)))?;
        let all: Vec<Vec<F>> = all.iter().map(|bytes| from_bytes(bytes)).collect();
        let mut rest: Vec<_> = all.iter().map(|of_rank| of_rank.chunks_exact(2)).collect();
        self.diagonal.clear();
        self.first_pivot.clear();
        for (s, record) in records.iter().enumerate() {
            self.first_pivot.push(self.diagonal.len() as u32);
            let pairs = rest[share.owner(s)].by_ref().take(record.pivots as usize);
            self.diagonal.extend(pairs.map(|pair| [pair[0], pair[1]]));
        }
        Ok(())
    }

    /// The entries of the diagonal for the pivots of a front.
    pub fn diagonal_of(&self, s: usize, pivots: usize) -> &[[F; 2]] {
        let first = self.first_pivot[s] as usize;
        &self.diagonal[first..first + pivots]
    }
}

/// Tells all ranks the values that each has for the columns of its pivots: overwrites those of others in `values`, which are by
/// column of the pattern.
pub(crate) fn told_by_all<F: FrontalScalar, T: Scalar>(
    store: &FrontStore<F>,
    tree: &AssemblyTree,
    ranks: &Ranks,
    values: &mut [T],
) -> Result<(), FrontalError> {
    let Ranks { team, share } = ranks;
    let columns = |s: usize| {
        let (_, cols) = store.labels(tree, s);
        let pivots = &cols[..store.records[s].pivots as usize];
        pivots
            .iter()
            .map(|&label| tree.perm[label as usize] as usize)
    };
    let own = (0..tree.fronts.len()).filter(|&s| share.is_own(s));
    let own: Vec<T> = own.flat_map(columns).map(|column| values[column]).collect();
    let all = told(team.all_gather(as_bytes(&own)))?;
    let all: Vec<Vec<T>> = all.iter().map(|bytes| from_bytes(bytes)).collect();
    let mut rest: Vec<_> = all.iter().map(|of_rank| of_rank.iter()).collect();
    for s in 0..tree.fronts.len() {
        let of_rank = &mut rest[share.owner(s)];
        for (column, &value) in columns(s).zip(of_rank) {
            values[column] = value;
        }
    }
    Ok(())
}
