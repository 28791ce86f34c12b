//! The analysis of a pattern.

use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use luge_numeric::cpu::blocks::{self, BlockPlan, Engine};
use luge_sparse::{CompressedPattern, Limits};

use crate::call::{Control, Outcome};
use crate::input::Columns;
use crate::layout::{Integer, ORDER_AMD, Symbolic};
use crate::ordering::{self, Order};
use crate::shown::Shown;

/// The analysis of a pattern. Factors share it, so it may be freed before them.
pub(crate) struct Analysis<I> {
    /// The pattern as the caller stores it.
    col_ptr: Vec<I>,
    row_idx: Vec<I>,
    is_sorted: bool,
    /// Where the entries go. Sources are places in the caller's arrays.
    pub(crate) plan: Arc<BlockPlan>,
    /// The row in A of each entry of the plan.
    pub(crate) entry_rows: Vec<u32>,
    /// New to old, before pivots are searched.
    pub(crate) rows: Vec<u32>,
    pub(crate) cols: Vec<u32>,
    pub(crate) block_ptr: Vec<usize>,
    /// Order of the largest block.
    pub(crate) largest_block: usize,
    /// Entries above the blocks.
    pub(crate) num_above: usize,
    shown: Arrays<I>,
}

/// What the caller sees of it.
struct Arrays<I> {
    p: Shown<I>,
    q: Shown<I>,
    r: Shown<I>,
    lnz: Shown<f64>,
}

impl<I: Integer> Analysis<I> {
    /// Plans the permuted matrix. `source` are the places of its entries in the caller's arrays.
    fn new(
        columns: Columns<'_, I>,
        (permuted, source): (&CompressedPattern, &[u32]),
        order: Order,
    ) -> Outcome<Self> {
        let predicted = |number: usize| {
            let known = order.predicted[number]?;
            let block = order.block_ptr[number + 1] - order.block_ptr[number];
            Some(blocks::Predicted {
                entries: ((known.lnz + known.unz) as u64).saturating_sub(block as u64),
                flops: known.flops.unwrap_or(0.0),
                forest: None,
            })
        };
        let limits = Limits::none();
        let mut plan = BlockPlan::new(
            permuted,
            &order.block_ptr,
            Engine::Columns,
            predicted,
            1,
            &limits,
        )?;
        plan.compose(|p| source[p as usize]);
        let rows_of = plan.source().iter();
        let entry_rows = rows_of
            .map(|&p| columns.idx[p as usize].to_i64() as u32)
            .collect();
        let n = columns.n();
        let integers = |of: &[u32]| -> Vec<I> { of.iter().map(|&i| I::of(i as usize)).collect() };
        let mut starts: Vec<I> = order.block_ptr.iter().map(|&k| I::of(k)).collect();
        starts.resize(n + 1, I::of(n));
        let unknown = I::EMPTY.to_i64() as f64;
        let lnz = order.predicted.iter();
        let mut lnz: Vec<f64> = lnz
            .map(|known| known.map_or(unknown, |known| known.lnz))
            .collect();
        lnz.resize(n, unknown);
        let num_above = above(permuted, &order);
        Ok(Self {
            col_ptr: columns.ptr.to_vec(),
            row_idx: columns.idx.to_vec(),
            is_sorted: columns.is_sorted,
            plan: Arc::new(plan),
            entry_rows,
            shown: Arrays {
                p: Shown::new(integers(&order.rows)),
                q: Shown::new(integers(&order.cols)),
                r: Shown::new(starts),
                lnz: Shown::new(lnz),
            },
            num_above,
            largest_block: order.blocks().map(|block| block.len()).max().unwrap_or(0),
            rows: order.rows,
            cols: order.cols,
            block_ptr: order.block_ptr,
        })
    }

    /// The analysis of another pattern in the same order: blocks between which there are entries on the wrong side are one.
    pub(crate) fn of_other(&self, columns: Columns<'_, I>) -> Outcome<Self> {
        let (cols, places) = columns.sorted()?;
        let mut order = Order {
            rows: self.rows.clone(),
            cols: self.cols.clone(),
            block_ptr: self.block_ptr.clone(),
            predicted: Vec::new(),
            structural_rank: None,
        };
        let (permuted, source) = permuted(&cols, places.as_deref(), &order);
        order.block_ptr = merged(&permuted, &order);
        order.predicted = vec![None; order.block_ptr.len() - 1];
        Self::new(columns, (&permuted, &source), order)
    }

    /// Order of the matrix.
    pub(crate) fn n(&self) -> usize {
        self.col_ptr.len() - 1
    }

    /// The matrix that was analyzed.
    pub(crate) fn columns(&self) -> Columns<'_, I> {
        Columns {
            ptr: &self.col_ptr,
            idx: &self.row_idx,
            is_sorted: self.is_sorted,
        }
    }

    /// Blocks with their columns.
    pub(crate) fn blocks(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + '_ {
        self.block_ptr.windows(2).map(|ends| ends[0]..ends[1])
    }

    /// Whether both give rows and columns the same places, so that factors of one go with the other.
    pub(crate) fn is_same_order(&self, other: &Self) -> bool {
        ptr::eq(self, other) || (self.rows == other.rows && self.cols == other.cols)
    }

    pub(crate) fn bytes(&self) -> usize {
        let own = size_of_val(&*self.col_ptr)
            + size_of_val(&*self.row_idx)
            + size_of_val(&*self.entry_rows)
            + size_of_val(&*self.rows)
            + size_of_val(&*self.cols)
            + size_of_val(&*self.block_ptr);
        let Arrays { p, q, r, lnz } = &self.shown;
        own + p.bytes() + q.bytes() + r.bytes() + lnz.bytes() + self.plan.bytes() as usize
    }
}

/// The columns of the permuted matrix, and where each of its entries is in the caller's arrays, given the places there of those of
/// `cols`; None: they are the same.
fn permuted(
    cols: &CompressedPattern,
    places: Option<&[u32]>,
    order: &Order,
) -> (CompressedPattern, Vec<u32>) {
    let n = cols.major_dim();
    let mut place = vec![0u32; n];
    for (k, &row) in order.rows.iter().enumerate() {
        place[row as usize] = k as u32;
    }
    let mut ptr = Vec::with_capacity(n + 1);
    ptr.push(0);
    let mut source = Vec::with_capacity(cols.nnz());
    let new_row = |p: &u32| place[cols.idx()[*p as usize] as usize];
    for &column in &order.cols {
        let range = cols.range(column as usize);
        let first = source.len();
        source.extend(range.start as u32..range.end as u32);
        source[first..].sort_unstable_by_key(new_row);
        ptr.push(source.len() as u64);
    }
    let idx = source.iter().map(new_row).collect();
    let permuted = CompressedPattern::new(n, ptr, idx)
        .unwrap_or_else(|e| unreachable!("a permuted pattern stays valid: {e}"));
    if let Some(places) = places {
        source.iter_mut().for_each(|p| *p = places[*p as usize]);
    }
    (permuted, source)
}

/// The blocks that no entry lies below: those of the order, as many of them together as it takes.
fn merged(permuted: &CompressedPattern, order: &Order) -> Vec<usize> {
    let mut starts = vec![0];
    // One past the last row that a column of the block so far leads to.
    let mut end = 0;
    for block in order.blocks() {
        if block.start >= end && block.start > 0 {
            starts.push(block.start);
        }
        let last_rows = block.clone().filter_map(|j| permuted.line(j).last());
        let last = last_rows.fold(0, |last, &i| last.max(i as usize + 1));
        end = end.max(block.end).max(last);
    }
    starts.push(permuted.major_dim());
    starts
}

/// Entries above the diagonal blocks.
fn above(permuted: &CompressedPattern, order: &Order) -> usize {
    let of_block = |block: Range<usize>| -> usize {
        let is_above = |i: &u32| (*i as usize) < block.start;
        let counts = block
            .clone()
            .map(|j| permuted.line(j).partition_point(is_above));
        counts.sum()
    };
    order.blocks().map(of_block).sum()
}

/// Analyzes, with the structure for the caller, by the order that `find` finds for the sorted columns.
///
/// # Safety
///
/// As [`Columns::new`].
pub(crate) unsafe fn analyze_by<I: Integer>(
    (n, ap, ai): (I, *const I, *const I),
    control: Control<I>,
    ordering: i64,
    find: impl FnOnce(&CompressedPattern) -> Outcome<Order>,
) -> Outcome<(Symbolic<I>, Analysis<I>)> {
    control.set(|common| common.structural_rank = I::EMPTY);
    // SAFETY: as the caller says.
    let columns = unsafe { Columns::new(n, ap, ai)? };
    let common = control.get();
    let (cols, places) = columns.sorted()?;
    let order = find(&cols)?;
    let largest = order
        .blocks()
        .max_by_key(|block| block.len())
        .unwrap_or(0..0);
    let unknown = I::EMPTY.to_i64() as f64;
    let total = |of: fn(&ordering::Predicted) -> Option<f64>| order.total(of).unwrap_or(unknown);
    let rank = order.structural_rank.map_or(I::EMPTY, I::of);
    let mut public = Symbolic {
        symmetry: unknown,
        est_flops: total(|known| known.flops),
        lnz: total(|known| Some(known.lnz)),
        unz: total(|known| Some(known.unz)),
        lnz_of_block: ptr::null_mut(),
        n,
        nz: I::of(columns.idx.len()),
        p: ptr::null_mut(),
        q: ptr::null_mut(),
        r: ptr::null_mut(),
        nzoff: I::of(0),
        nblocks: I::of(order.block_ptr.len() - 1),
        maxblock: I::of(largest.len()),
        ordering: I::of_code(ordering),
        do_btf: I::of_code(i64::from(common.btf.to_i64() != 0)),
        structural_rank: rank,
    };
    let (permuted, source) = permuted(&cols, places.as_deref(), &order);
    if ordering == ORDER_AMD {
        public.symmetry = ordering::symmetry(&permuted, largest);
    }
    let analysis = Analysis::new(columns, (&permuted, &source), order)?;
    public.lnz_of_block = analysis.shown.lnz.pointer();
    public.p = analysis.shown.p.pointer();
    public.q = analysis.shown.q.pointer();
    public.r = analysis.shown.r.pointer();
    public.nzoff = I::of(analysis.num_above);
    control.set(|common| {
        common.structural_rank = rank;
        common.work = 0.0;
        common.nrealloc = I::of(0);
    });
    Ok((public, analysis))
}
