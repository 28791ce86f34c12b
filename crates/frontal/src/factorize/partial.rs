//! What is kept of a factorization so that only some fronts are factorized again.
//!
//! When entries of the matrix change, their fronts and those on the paths to the roots are others. To assemble such a front
//! takes the elements of all of its children, also of those that stay, and elements are gone once their parent has them. To
//! keep all of them would take more memory than the factors, where fronts are small; to compute one again takes its whole
//! subtree. So the tree is cut: elements are kept of the fronts above the cut and of the subtrees' roots right below it. A change within
//! such a subtree costs that subtree and the path above it, and the cut is as far down as the memory for elements allows, which is
//! half of that of the factors, but no further than subtrees of 1/4096 of the work.
//!
//! What is measured is kept for each front: what is told of the whole matrix is put together from all, as threads put it
//! together, so it is what a factorization of everything tells.

use luge_sparse::etree::NONE;
use luge_sparse::{CancelFlag, Cancelled, MemoryBudget, Reservation, bytes_of};

use super::element::Element;
use super::work::{FrontWork, Report};
use crate::storage::Storage;
use crate::symbolic::Symbolic;
use crate::tree::Front;

/// The least and the greatest part of the work, as powers of ½, that is done for a change below the cut.
const FINEST: i32 = 12;
const COARSEST: i32 = 3;

/// Bytes of the factors over those of the elements that are kept, unless the cut is as far up as it goes.
const FACTORS_PER_ELEMENT: u64 = 2;

/// What is kept.
pub(crate) struct Kept<W: FrontWork> {
    cut: Cut,
    pub(super) elements: Vec<Element<W::Scalar>>,
    pub(super) reports: Vec<W::Report>,
    /// Whether all that is kept is of the factors that are there.
    is_current: bool,
    /// The entries that changed last, if any did, and the fronts that are factorized for them.
    changed: Option<Vec<u32>>,
    is_in: Vec<bool>,
    /// Operations of the last factorization, and of one of all fronts.
    flops: [f64; 2],
    _memory: Reservation,
}

// SAFETY: pointers lead to memory that the elements themselves own; others are removed when a factorization ends.
unsafe impl<W: FrontWork> Send for Kept<W> {}
// SAFETY: as above.
unsafe impl<W: FrontWork> Sync for Kept<W> {}

/// Whether something is kept of factors.
pub(crate) enum Keeping<W: FrontWork> {
    /// Nobody told what changes.
    Not,
    Some(Box<Kept<W>>),
    /// There is no memory for it.
    Never,
}

impl<W: FrontWork> Keeping<W> {
    pub fn kept(&mut self) -> Option<&mut Kept<W>> {
        match self {
            Self::Some(kept) => Some(kept),
            Self::Not | Self::Never => None,
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Self::Some(kept) => kept.bytes(),
            Self::Not | Self::Never => 0,
        }
    }

    /// The operations of the last factorization of this tree, and of one of all fronts.
    pub fn flops(&self, symbolic: &Symbolic<W::Storage>) -> [f64; 2] {
        match self {
            Self::Some(kept) => kept.flops,
            Self::Not | Self::Never => [symbolic.flops(); 2],
        }
    }

    /// Keeps nothing any more; whether there was something.
    pub fn give_up(&mut self) -> bool {
        match self {
            Self::Some(_) => {
                *self = Self::Never;
                true
            }
            Self::Not | Self::Never => false,
        }
    }

    /// Keeps something from now on, where there is memory for it.
    pub fn start(
        &mut self,
        symbolic: &Symbolic<W::Storage>,
        memory: &MemoryBudget,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        if let Self::Not = self {
            *self = match Kept::new(symbolic, memory, cancel)? {
                Some(kept) => Self::Some(Box::new(kept)),
                None => Self::Never,
            };
        }
        Ok(())
    }
}

impl<W: FrontWork> Clone for Keeping<W> {
    /// A copy of factors has nothing yet.
    fn clone(&self) -> Self {
        Self::Not
    }
}

impl<W: FrontWork> std::fmt::Debug for Keeping<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Not => "Not",
            Self::Some(_) => "Some",
            Self::Never => "Never",
        })
    }
}

/// What a factorization works on that keeps something.
pub(crate) struct Partial<'a, W: FrontWork> {
    pub(super) is_kept: &'a [bool],
    pub(super) elements: &'a mut [Element<W::Scalar>],
    pub(super) reports: &'a mut [W::Report],
    /// The fronts that are factorized; `None`: all.
    pub(super) is_in: Option<&'a [bool]>,
}

impl<W: FrontWork> Partial<'_, W> {
    /// Whether all fronts are factorized.
    pub fn is_whole(&self) -> bool {
        self.is_in.is_none()
    }

    /// What is told of all fronts.
    pub(super) fn report(&mut self) -> W::Report {
        let mut all = W::Report::default();
        for (s, report) in self.reports.iter_mut().enumerate() {
            if self.is_in.is_some_and(|is_in| !is_in[s]) {
                report.keep();
            }
            all.merge_fronts(report);
        }
        all
    }

    /// Takes away the elements of other memory than their own, which are left after an error.
    pub(super) fn clear(&mut self) {
        for (element, &is_kept) in self.elements.iter_mut().zip(self.is_kept) {
            if !is_kept {
                *element = Element::none();
            }
        }
    }
}

impl<W: FrontWork> Kept<W> {
    /// For factors of this tree; nothing is factorized yet. None if there is no memory.
    fn new(
        symbolic: &Symbolic<W::Storage>,
        memory: &MemoryBudget,
        cancel: &CancelFlag,
    ) -> Result<Option<Self>, Cancelled> {
        let fronts = &symbolic.tree.fronts;
        let per_front = size_of::<Element<W::Scalar>>() + size_of::<W::Report>() + 7;
        // With a list of entries, and marks to find their fronts by.
        let of_fronts = bytes_of::<u8>(fronts.len() * per_front + 5 * symbolic.nnz());
        let cut = Cut::new(symbolic, cancel)?;
        let bytes = of_fronts + bytes_of::<W::Scalar>(cut.entries as usize);
        // Work that is to come needs memory, too.
        if bytes > memory.available() / 2 {
            return Ok(None);
        }
        let Ok(memory) = memory.reserve(bytes) else {
            return Ok(None);
        };
        let mut elements = Vec::with_capacity(fronts.len());
        elements.resize_with(fronts.len(), Element::none);
        let mut reports = Vec::with_capacity(fronts.len());
        reports.resize_with(fronts.len(), W::Report::default);
        let flops = symbolic.flops();
        Ok(Some(Self {
            cut,
            elements,
            reports,
            is_current: false,
            changed: None,
            is_in: Vec::new(),
            flops: [flops, flops],
            _memory: memory,
        }))
    }

    fn bytes(&self) -> u64 {
        let owned = self.elements.iter().flat_map(|element| &element.owned);
        let elements = owned.map(|owned| owned.values.capacity());
        let changed = self.changed.as_ref().map_or(0, Vec::len);
        bytes_of::<W::Scalar>(elements.sum())
            + bytes_of::<Element<W::Scalar>>(self.elements.len())
            + bytes_of::<W::Report>(self.reports.len())
            + bytes_of::<u32>(changed)
            + self.cut.bytes()
            + self.is_in.len() as u64
    }

    /// What a factorization works on in which only the entries `changed` have other values, in ascending order, or maybe all.
    /// Nothing that is kept is of the factors until that is [accepted](Self::accept).
    pub fn begin(
        &mut self,
        symbolic: &Symbolic<W::Storage>,
        changed: Option<&[u32]>,
    ) -> Partial<'_, W> {
        let is_current = std::mem::replace(&mut self.is_current, false);
        let changed = changed.filter(|_| is_current);
        if let Some(changed) = changed
            && self.changed.as_deref() != Some(changed)
        {
            self.follow(symbolic, changed);
            self.changed = Some(changed.to_vec());
        }
        let is_in = changed.map(|_| &*self.is_in);
        self.flops[0] = match is_in {
            Some(is_in) => {
                let fronts = symbolic.tree.fronts.iter().zip(is_in);
                fronts
                    .filter(|&(_, &is_in)| is_in)
                    .map(|(front, _)| flops::<W>(front))
                    .sum()
            }
            None => self.flops[1],
        };
        Partial {
            is_kept: &self.cut.is_kept,
            elements: &mut self.elements,
            reports: &mut self.reports,
            is_in,
        }
    }

    /// The factorization that was begun is done.
    pub fn accept(&mut self) {
        self.is_current = true;
    }

    /// Finds the fronts that are factorized where these entries change.
    fn follow(&mut self, symbolic: &Symbolic<W::Storage>, changed: &[u32]) {
        let (tree, layout) = (&symbolic.tree, &symbolic.layout);
        let mut is_changed = vec![false; tree.nnz()];
        changed.iter().for_each(|&p| is_changed[p as usize] = true);
        let has_changed = |s: &usize| {
            let range = layout.entry_ptr[*s] as usize..layout.entry_ptr[s + 1] as usize;
            let mut entries = layout.source[range].iter();
            entries.any(|&p| is_changed[p as usize])
        };
        let fronts = (0..tree.fronts.len()).filter(has_changed);
        self.cut.follow(&tree.fronts, fronts, &mut self.is_in);
    }
}

/// Checks the numbers of the entries that changed, of so many.
#[track_caller]
pub(crate) fn check_changed(changed: &[u32], entries: usize) {
    assert!(changed.is_sorted_by(|a, b| a < b), "entries that ascend");
    let last = changed.last().map(|&last| last as usize);
    assert!(last < Some(entries), "entries of the matrix");
}

/// Operations of a front.
fn flops<W: FrontWork>(front: &Front) -> f64 {
    W::Storage::flops(front.pivots, front.below)
}

/// Fronts above a cut and right below it.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// By front, whether it is above.
    is_above: Vec<bool>,
    /// By front, whether its element is kept: those above, and the roots of the subtrees below.
    pub is_kept: Vec<bool>,
    /// The first front of the subtree of each.
    first: Vec<u32>,
    /// Of the elements that are kept.
    pub entries: u64,
}

impl Cut {
    /// As far down as the elements that are kept are few beside the factors.
    pub fn new<S: Storage>(symbolic: &Symbolic<S>, cancel: &CancelFlag) -> Result<Self, Cancelled> {
        let fronts = &symbolic.tree.fronts;
        let limit = symbolic.factor_entries() / FACTORS_PER_ELEMENT;
        let seconds = symbolic.totals.seconds(fronts);
        let mut cut = Self::default();
        for exponent in (COARSEST..=FINEST).rev() {
            cancel.check()?;
            cut = Self::above(symbolic, seconds * 0.5f64.powi(exponent));
            if cut.entries <= limit {
                break;
            }
        }
        cut.first = (0..fronts.len() as u32).collect();
        for (s, front) in fronts.iter().enumerate() {
            if front.parent != NONE {
                let parent = front.parent as usize;
                cut.first[parent] = cut.first[parent].min(cut.first[s]);
            }
        }
        Ok(cut)
    }

    /// Above subtrees that take so many seconds at most.
    fn above<S: Storage>(symbolic: &Symbolic<S>, seconds: f64) -> Self {
        let fronts = &symbolic.tree.fronts;
        let subtrees = symbolic.totals.subtree_seconds.iter();
        let is_above: Vec<bool> = subtrees.map(|&subtree| subtree > seconds).collect();
        let is_kept = |front: &Front| is_above.get(front.parent as usize) == Some(&true);
        let kept = fronts.iter().filter(|front| is_kept(front));
        Self {
            entries: kept
                .map(|front| S::element_entries(front.below as usize) as u64)
                .sum(),
            is_kept: fronts.iter().map(is_kept).collect(),
            is_above,
            first: Vec::new(),
        }
    }

    pub fn bytes(&self) -> u64 {
        let marks = self.is_kept.len() + self.is_above.len();
        bytes_of::<u32>(self.first.len()) + marks as u64
    }

    /// Marks the fronts that are factorized where entries of these `changed`.
    pub fn follow(
        &self,
        fronts: &[Front],
        changed: impl Iterator<Item = usize>,
        is_in: &mut Vec<bool>,
    ) {
        is_in.clear();
        is_in.resize(fronts.len(), false);
        for s in changed {
            let mut top = s;
            if !self.is_above[s] {
                while let Some(&false) = self.is_above.get(fronts[top].parent as usize) {
                    top = fronts[top].parent as usize;
                }
                is_in[self.first[top] as usize..=top].fill(true);
            }
            is_in[top] = true;
            let mut up = fronts[top].parent;
            while up != NONE && !std::mem::replace(&mut is_in[up as usize], true) {
                up = fronts[up as usize].parent;
            }
        }
    }
}
