//! The verbs of the work on one front, which a kind of factorization implements.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use luge_dense::FrontalScalar;
use luge_sparse::Reservation;

use super::element::{Children, Element};
use super::front::{ActiveFront, Positions};
use super::progress::Progress;
use super::store::{DelayedPanels, FrontState};
use crate::deal::Share;
use crate::error::FrontalError;
use crate::options::Options;
use crate::storage::Storage;
use crate::symbolic::Symbolic;

/// What all fronts of one factorization share. Front s owns its slot, its record, its labels, its
/// delayed panels and its element; it reads the records, labels, delayed panels and elements of its children, which
/// are complete before it starts.
pub(crate) struct Context<'a, W: FrontWork> {
    pub symbolic: &'a Symbolic<W::Storage>,
    /// Where the slot of each front that is factorized here begins among the values.
    pub slot: &'a [u64],
    /// Who works on which front, if there are other ranks.
    pub share: Option<&'a Share>,
    /// Values of the matrix.
    pub input: &'a [W::Scalar],
    pub options: &'a Options,
    /// Whether pivots are searched; otherwise those of the records are kept.
    pub search: bool,
    /// What the kind of factorization has beside.
    pub shared: W::Shared<'a>,
    pub(super) values: *mut W::Scalar,
    pub(super) records: *mut FrontState,
    pub(super) rows: *mut u32,
    pub(super) cols: *mut u32,
    pub(super) delayed: *mut Option<Box<DelayedPanels<W::Scalar>>>,
    pub(super) elements: *mut Element<W::Scalar>,
    /// By front, whether its element is kept when the parent has it, if any is.
    pub(super) is_kept: Option<&'a [bool]>,
    /// Where the report of each front goes by itself, if something is kept.
    pub(super) reports: *mut W::Report,
    pub(super) progress: Progress,
    /// Bytes beyond the prediction so far.
    pub(super) excess: AtomicU64,
    /// The prediction if there is a limit, else 0.
    pub(super) predicted: u64,
    /// What is reserved for the factors; delayed panels are added.
    pub(super) of_factors: Mutex<Reservation>,
}

// SAFETY: the pointers are used as the documentation of the type says, and the order of a front
// after its children is made by the one thread, or by the counters of the traversal.
unsafe impl<W: FrontWork> Sync for Context<'_, W> {}

impl<W: FrontWork> Context<'_, W> {
    /// Whether a front hands its element from one part of the work to another, maybe that of another rank.
    pub(super) fn hands_on(&self, s: usize) -> bool {
        self.share.is_some_and(|share| share.hands_on(s))
    }

    /// Where what is measured of a front goes: a report of its own, as if nothing had been measured yet, if something is kept; else
    /// that of the thread.
    ///
    /// # Safety
    ///
    /// Nobody else works on the front.
    pub(super) unsafe fn report_of<'r>(
        &self,
        s: usize,
        of_thread: &'r mut W::Report,
    ) -> &'r mut W::Report {
        if self.is_kept.is_none() {
            return of_thread;
        }
        // SAFETY: this front's, which outlives the thread's work.
        let report = unsafe { &mut *self.reports.add(s) };
        *report = W::Report::default();
        report
    }

    /// Whether the element of a front is kept.
    pub(super) fn keeps(&self, s: usize) -> bool {
        self.is_kept.is_some_and(|is_kept| is_kept[s])
    }

    /// Notes bytes beyond the prediction.
    pub(super) fn charge(&self, bytes: u64) -> Result<(), FrontalError> {
        if bytes == 0 {
            return Ok(());
        }
        let asked = self.predicted + bytes + self.excess.fetch_add(bytes, Ordering::Relaxed);
        match self.options.max_bytes {
            Some(available) if asked > available => {
                Err(FrontalError::OutOfMemory { asked, available })
            }
            _ => Ok(()),
        }
    }
}

/// How far an elimination came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Eliminated {
    /// Pivots, which stand first; the other fully summed columns are delayed.
    pub pivots: usize,
    /// Whether rows or columns moved.
    pub moved: bool,
}

/// The pivots of a front, and what stands where.
#[derive(Clone, Copy)]
pub(crate) struct Pivots<'a> {
    pub eliminated: Eliminated,
    /// Labels of the fully summed rows and columns, pivots first.
    pub rows: &'a [u32],
    pub cols: &'a [u32],
    pub positions: &'a Positions,
}

/// What a kind of factorization measures of itself. Each thread has one, which are merged at the end.
pub(crate) trait Report: Default + Send {
    /// What other ranks are told.
    fn encode(&self) -> Vec<u64>;

    /// What another rank told.
    fn decode(words: &[u64]) -> Option<Self>;

    /// Adds what was measured of other fronts of the same matrix. No order of merging changes the result.
    fn merge_fronts(&mut self, part: &Self);

    /// Becomes that of the same fronts in another refactorization, which leaves them as they are.
    fn keep(&mut self);

    /// Columns delayed, counted once for every front, and the growth.
    fn delays_and_growth(&self) -> (usize, f64);
}

/// One thread's work on one front after another. For each front the verbs are called in the order in which they stand
/// here.
///
/// # Safety
///
/// Of each verb: the front's panels are valid for its sizes and nobody else touches them, and its children are complete.
pub(crate) trait FrontWork: Sized {
    type Scalar: FrontalScalar;
    type Storage: Storage;
    type Report: Report;
    /// What all threads share.
    type Shared<'a>: Sync;

    /// For one thread. `is_parallel`: whether large products are shared among the threads of the current pool.
    fn new(context: &Context<'_, Self>, is_parallel: bool) -> Result<Self, FrontalError>;

    /// Whether [`whole`](Self::whole) serves fronts of k pivots with c rows below that receive no columns.
    fn takes_whole(_context: &Context<'_, Self>, _k: usize, _c: usize) -> bool {
        false
    }

    /// Makes room for fronts of `m` rows.
    fn reserve(&mut self, context: &Context<'_, Self>, m: usize) -> Result<(), FrontalError>;

    /// Puts the entries of the matrix and those of the children's elements that concern fully summed rows or columns
    /// into the panels.
    unsafe fn assemble(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, Self::Scalar>,
        children: &Children<'_, Self::Scalar>,
        kept: Option<FrontState>,
    ) -> Result<(), FrontalError>;

    /// Eliminates what can be eliminated; with a kept record, the pivots of that, which `positions` says. Updates all
    /// fully summed columns.
    unsafe fn eliminate(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, Self::Scalar>,
        positions: &mut Positions,
        kept: Option<FrontState>,
    ) -> Result<Eliminated, FrontalError>;

    /// Refuses a front that cannot be gone on with, and computes what else the panels hold.
    unsafe fn complete(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, Self::Scalar>,
        pivots: &Pivots<'_>,
    ) -> Result<(), FrontalError>;

    /// Measures the factors of the front.
    unsafe fn check(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, Self::Scalar>,
        children: &Children<'_, Self::Scalar>,
        pivots: &Pivots<'_>,
        report: &mut Self::Report,
    ) -> Result<(), FrontalError>;

    /// Writes the generated element: the delayed columns, and the update of what is below by the pivots.
    unsafe fn update(
        &mut self,
        context: &Context<'_, Self>,
        front: &ActiveFront<'_, Self::Scalar>,
        children: &Children<'_, Self::Scalar>,
        pivots: &Pivots<'_>,
        element: *mut Self::Scalar,
    ) -> Result<(), FrontalError>;

    /// All of these verbs at once, for a front that receives no columns and whose pivots are searched, with the same result: the work on
    /// a small front is less than the calls and loops of the verbs. `None`, with nothing done, where it takes a closer look: not all
    /// columns have pivots, say.
    unsafe fn whole(
        &mut self,
        _context: &Context<'_, Self>,
        _front: &ActiveFront<'_, Self::Scalar>,
        _children: &Children<'_, Self::Scalar>,
        _positions: &mut Positions,
        _element: *mut Self::Scalar,
        _report: &mut Self::Report,
    ) -> Result<Option<Eliminated>, FrontalError> {
        Ok(None)
    }
}
