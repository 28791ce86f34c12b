//! Entries that changed: which columns follow from them, and what is kept of the others.
//!
//! Column k depends on its own entries of B and on the columns that it subtracts, which its pattern of U names. So what
//! changes is found along the rows of U: from the columns with changed entries to those that subtract them, and so on.
//! All other columns keep their bits; so do the numbers that were measured of them, and a maximum over all columns is that of
//! a refactorization of everything.
//!
//! Cost: time by the entries of U in the rows that are passed, once for each set of entries; the last set is remembered. Memory of
//! 28 bytes for each column, 4 for each entry of U.

use luge_sparse::{CancelFlag, Cancelled, CompressedPattern, Scalar, bytes_of};

use super::Columns;
use super::check::ColumnCheck;
use super::plan::Layout;

/// Columns between two looks at the cancel flag.
const STRIDE: usize = 1 << 12;

/// What is measured of a column beside the size of |L|·|U|.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    /// ‖B·e_k‖₁.
    pub(super) norm: f64,
    /// |wᵀ·(B − L·U)·e_k|.
    pub(super) residual: f64,
}

impl Measured {
    #[inline(always)]
    pub(super) fn of<W: Scalar<Real = f64>>(check: &ColumnCheck<W>) -> Self {
        Self {
            norm: check.norm,
            residual: check.residual.magnitude(),
        }
    }
}

/// What is kept so that a part of the columns can be computed again.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    measured: Vec<Measured>,
    /// Whether it is of the factors, and so are the values of B and the sums that the plan has.
    is_current: bool,
    /// Where the step of each column is.
    step_of: Vec<u32>,
    /// The columns that subtract each column.
    ptr: Vec<usize>,
    idx: Vec<u32>,
    /// All steps.
    all: Steps,
    /// The entries that changed last, if any did, and the steps that follow.
    entries: Option<Vec<u32>>,
    some: Steps,
    /// Multiplications of the last refactorization.
    pub(super) work: u64,
}

/// Steps to do.
#[derive(Debug, Clone, Default)]
struct Steps {
    /// In ascending order.
    steps: Vec<u32>,
    /// Where each task starts among these, and where the steps above the tasks do.
    task_ptr: Vec<usize>,
    /// By column, whether it is among them.
    is_in: Vec<bool>,
    work: u64,
}

/// [`Steps`] of a plan.
pub(super) struct Part<'a> {
    pub(super) layout: &'a Layout,
    pub(super) steps: &'a [u32],
    pub(super) task_ptr: &'a [usize],
    is_in: &'a [bool],
}

impl Part<'_> {
    #[inline(always)]
    pub(super) fn is_in(&self, j: u32) -> bool {
        self.is_in[j as usize]
    }
}

/// What a refactorization does that keeps what it measures.
pub(super) struct Changed<'a> {
    pub(super) part: Part<'a>,
    /// The entries of B that changed; `None`: maybe all.
    pub(super) entries: Option<&'a [u32]>,
    pub(super) work: u64,
    pub(super) measured: *mut Measured,
}

impl Kept {
    /// Bytes for a matrix of order `n` with so many entries, whose U has `unz` above the diagonal, and to find them.
    pub(super) fn bytes_for(n: usize, entries: usize, unz: usize) -> u64 {
        // Two lists of steps with their marks; bits by step, a list of columns, and the ends of rows of U.
        let lists = 2 * (bytes_of::<u32>(n) + n as u64) + (n / 8) as u64 + bytes_of::<u32>(3 * n);
        lists
            + bytes_of::<Measured>(n)
            + bytes_of::<usize>(2 * n + 256)
            + bytes_of::<u32>(unz + entries)
    }

    pub(super) fn bytes(&self) -> u64 {
        let steps = [&self.all, &self.some].map(|steps| {
            size_of_val(&*steps.steps) + size_of_val(&*steps.task_ptr) + steps.is_in.len()
        });
        let entries = self
            .entries
            .as_ref()
            .map_or(0, |entries| size_of_val(&**entries));
        (size_of_val(&*self.measured)
            + size_of_val(&*self.step_of)
            + size_of_val(&*self.ptr)
            + size_of_val(&*self.idx)
            + steps.into_iter().sum::<usize>()
            + entries) as u64
    }

    /// For factors with this U; nothing is measured yet.
    pub(super) fn new<F: Scalar>(
        layout: &Layout,
        upper: &Columns<F>,
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        let n = layout.steps.len();
        let mut step_of = vec![0; n];
        for (at, step) in layout.steps.iter().enumerate() {
            step_of[step.column as usize] = at as u32;
        }
        cancel.check()?;
        let mut ptr = vec![0usize; n + 1];
        for &j in &upper.idx {
            ptr[j as usize + 1] += 1;
        }
        for j in 0..n {
            ptr[j + 1] += ptr[j];
        }
        cancel.check()?;
        let mut next = ptr.clone();
        let mut idx = vec![0; upper.idx.len()];
        for k in 0..n {
            if k.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            for &j in upper.column(k).0 {
                let at = &mut next[j as usize];
                idx[*at] = k as u32;
                *at += 1;
            }
        }
        Ok(Self {
            measured: vec![Measured::default(); n],
            is_current: false,
            step_of,
            ptr,
            idx,
            all: Steps {
                steps: (0..n as u32).collect(),
                task_ptr: layout.task_ptr.clone(),
                is_in: vec![true; n],
                work: layout.work,
            },
            entries: None,
            some: Steps::default(),
            work: layout.work,
        })
    }

    /// What is to be done where only the entries `changed` of B may have other values than before, or all of them; what was
    /// measured is not that of the factors until it is [accepted](Self::accept). `upper` has the rows of U by columns.
    pub(super) fn changes<'a>(
        &'a mut self,
        layout: &'a Layout,
        cols: &CompressedPattern,
        upper: &[u32],
        changed: Option<&[u32]>,
        cancel: &CancelFlag,
    ) -> Result<Changed<'a>, Cancelled> {
        let changed = changed.filter(|_| std::mem::take(&mut self.is_current));
        self.is_current = false;
        if let Some(changed) = changed
            && self.entries.as_deref() != Some(changed)
        {
            self.entries = None;
            self.follow(layout, cols, upper, changed, cancel)?;
            self.entries = Some(changed.to_vec());
        }
        let steps = if changed.is_some() {
            &self.some
        } else {
            &self.all
        };
        self.work = steps.work;
        Ok(Changed {
            part: Part {
                layout,
                steps: &steps.steps,
                task_ptr: &steps.task_ptr,
                is_in: &steps.is_in,
            },
            entries: changed.and(self.entries.as_deref()),
            work: steps.work,
            measured: self.measured.as_mut_ptr(),
        })
    }

    /// All columns were computed that were to be; gives what was measured of all.
    pub(super) fn accept(&mut self) -> &[Measured] {
        self.is_current = true;
        &self.measured
    }

    /// What was measured is not that of the factors.
    pub(super) fn forget(&mut self) {
        self.is_current = false;
    }

    /// Finds the steps that follow from entries of B.
    fn follow(
        &mut self,
        layout: &Layout,
        cols: &CompressedPattern,
        upper: &[u32],
        changed: &[u32],
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let n = self.step_of.len();
        let some = &mut self.some;
        some.is_in.clear();
        some.is_in.resize(n, false);
        // By step.
        let mut bits = vec![0u64; n.div_ceil(64)];
        let mut reached = Vec::new();
        let mut reach = |k: u32, reached: &mut Vec<u32>| {
            if !std::mem::replace(&mut some.is_in[k as usize], true) {
                let step = self.step_of[k as usize];
                bits[step as usize / 64] |= 1 << (step % 64);
                reached.push(k);
            }
        };
        let mut rest = changed;
        while let Some(&first) = rest.first() {
            let k = cols
                .ptr()
                .partition_point(|&start| start <= u64::from(first))
                - 1;
            reach(k as u32, &mut reached);
            let end = cols.range(k).end;
            rest = &rest[rest.partition_point(|&entry| (entry as usize) < end)..];
        }
        let mut done = 0;
        while let Some(&j) = reached.get(done) {
            if done.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            done += 1;
            for &k in &self.idx[self.ptr[j as usize]..self.ptr[j as usize + 1]] {
                reach(k, &mut reached);
            }
        }
        some.steps.clear();
        for (word, &bits) in bits.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                some.steps.push((64 * word) as u32 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
        let steps = &some.steps;
        some.work = steps
            .iter()
            .map(|&step| layout.work_of(step as usize, upper))
            .sum();
        let starts = layout.task_ptr.iter();
        let starts = starts.map(|&start| steps.partition_point(|&step| (step as usize) < start));
        some.task_ptr = starts.collect();
        Ok(())
    }
}
