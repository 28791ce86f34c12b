//! The factors of all fronts, and which rows and columns they have.

use luge_sparse::{Scalar, in_large_pages};

use crate::tree::AssemblyTree;

/// The fully summed part of a factorized front.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct FrontState {
    /// Fully summed rows and columns, those received from children included.
    pub k: u32,
    /// Pivots among them; the others went to the parent.
    pub pivots: u32,
    /// Whether rows or columns moved during the elimination.
    pub moved: bool,
}

/// Factors of a front that received delayed columns, which therefore does not fit its slot.
#[derive(Debug, Clone)]
pub(crate) struct DelayedPanels<F> {
    /// The panels, laid out as in a slot.
    pub values: Vec<F>,
    /// Fully summed rows and columns, pivots first: labels in elimination order. Without rows where these are permuted as
    /// the columns are.
    pub rows: Vec<u32>,
    pub cols: Vec<u32>,
    /// Where they stood before the elimination.
    pub row_from: Vec<u32>,
    pub col_from: Vec<u32>,
}

impl<F: Scalar> DelayedPanels<F> {
    /// For `k` fully summed rows and columns, and this many entries of the panels; `None` if the machine has no memory for
    /// them: delays may add up to more than any prediction.
    pub fn new(entries: usize, k: usize, symmetric: bool) -> Option<Self> {
        let rows = if symmetric { 0 } else { k };
        let mut values = Vec::new();
        values.try_reserve_exact(entries).ok()?;
        values.resize(entries, F::zero());
        Some(Self {
            values,
            rows: vec![0; rows],
            cols: vec![0; k],
            row_from: vec![0; rows],
            col_from: vec![0; k],
        })
    }

    pub fn bytes(entries: usize, k: usize) -> u64 {
        (entries * size_of::<F>() + 16 * k + size_of::<Self>()) as u64
    }
}

/// The factors of all fronts of a tree.
#[derive(Debug, Clone)]
pub(crate) struct FrontStore<F> {
    /// Slots of the fronts that are factorized here.
    pub values: Vec<F>,
    pub records: Vec<FrontState>,
    /// Labels of the fully summed rows and columns of the fronts without delayed panels, pivots first. Without rows where
    /// these are permuted as the columns are.
    pub rows: Vec<u32>,
    pub cols: Vec<u32>,
    /// Empty if no pivot was delayed.
    pub delayed: Vec<Option<Box<DelayedPanels<F>>>>,
}

impl<F: Scalar> FrontStore<F> {
    /// With room for the `slots` entries of the fronts that are factorized here.
    pub fn new(tree: &AssemblyTree, slots: u64, symmetric: bool) -> Self {
        let rows = if symmetric { 0 } else { tree.n() };
        Self {
            values: in_large_pages(vec![F::zero(); slots as usize]),
            records: vec![FrontState::default(); tree.num_supernodes()],
            rows: vec![0; rows],
            cols: vec![0; tree.n()],
            delayed: Vec::new(),
        }
    }

    pub fn bytes(&self) -> u64 {
        let delayed = self.delayed.iter().flatten();
        let delayed =
            delayed.map(|d| size_of_val(&d.values[..]) + 8 * (d.rows.len() + d.cols.len()));
        let labels = 4 * (self.rows.len() + self.cols.len());
        (size_of_val(&self.values[..])
            + size_of_val(&self.records[..])
            + size_of_val(&self.delayed[..])
            + labels
            + delayed.sum::<usize>()) as u64
    }

    /// Rows of the largest front, delayed columns included.
    pub fn largest(&self, tree: &AssemblyTree) -> usize {
        let fronts = self.records.iter().zip(&tree.fronts);
        let rows = fronts.map(|(record, front)| (record.k + front.below) as usize);
        rows.max().unwrap_or(0)
    }

    /// Number of columns that were eliminated in a later front than planned, counted once for every
    /// front they were put off.
    pub fn num_delayed(&self) -> usize {
        self.records.iter().map(|r| (r.k - r.pivots) as usize).sum()
    }
}
