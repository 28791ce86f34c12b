//! Which rows and columns are where: the block triangular form and the order within the blocks.

use std::sync::Arc;

use luge_ordering::{
    Matching, Method, OrderingError, OrderingOptions, block_triangular, maximum_cardinality, order,
};
use luge_sparse::CompressedPattern;

use crate::call::{Control, Failure, Outcome};
use crate::layout::{Integer, ORDER_AMD, ORDER_COLAMD, ORDER_GIVEN, ORDER_USER};

/// Blocks of no more columns than this stay as they come, whatever the method: there is hardly anything to choose. Nor are they handed
/// to the function of a caller, as KLU does not either.
const UNORDERED: usize = 3;

/// What is predicted of the factors of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Predicted {
    pub lnz: f64,
    pub unz: f64,
    /// None: not known.
    pub flops: Option<f64>,
}

/// The permutations, new to old, and the blocks.
pub(crate) struct Order {
    pub rows: Vec<u32>,
    pub cols: Vec<u32>,
    pub block_ptr: Vec<usize>,
    /// By block; None: not known.
    pub predicted: Vec<Option<Predicted>>,
    /// None: not looked for.
    pub structural_rank: Option<usize>,
}

impl Order {
    /// Blocks with their columns.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.block_ptr.windows(2).map(|ends| ends[0]..ends[1])
    }

    /// The sums over all blocks, if all are known.
    pub(crate) fn total(&self, of: impl Fn(&Predicted) -> Option<f64>) -> Option<f64> {
        let of_blocks = self.predicted.iter();
        of_blocks.map(|known| known.as_ref().and_then(&of)).sum()
    }
}

/// A block of one column.
const SINGLE: Predicted = Predicted {
    lnz: 1.0,
    unz: 1.0,
    flops: Some(0.0),
};

/// Orders the matrix whose columns these are, by the options of `control`.
pub(crate) fn by_options<I: Integer>(
    cols: &CompressedPattern,
    control: Control<I>,
) -> Outcome<Order> {
    let common = control.get();
    let btf = common.btf.to_i64() != 0;
    match common.ordering.to_i64() {
        ORDER_AMD => by_method(cols, Method::Amd, btf),
        ORDER_COLAMD => by_method(cols, Method::Colamd, btf),
        ORDER_GIVEN => given(cols, None, None, btf),
        ORDER_USER => by_user(cols, btf, control),
        _ => Err(Failure::Invalid),
    }
}

fn by_method(cols: &CompressedPattern, method: Method, btf: bool) -> Outcome<Order> {
    let rows = cols.transpose();
    let n = rows.major_dim();
    let options = OrderingOptions::default()
        .method(method)
        .matching(Matching::Never)
        .scaling(false)
        .block_triangular(btf);
    let ordered = if btf {
        order(&rows, None, &options)
    } else {
        // Nobody looks for a matching then, and the diagonal may have holes.
        let missing = (0..n as u32).filter(|&i| rows.line(i as usize).binary_search(&i).is_err());
        let full = with_entries(&rows, missing.map(|i| (i, i)));
        order(full.as_ref().unwrap_or(&rows), None, &options)
    };
    let (ordered, rank) = match ordered {
        Err(OrderingError::StructurallySingular { rank, .. }) => {
            let matching =
                maximum_cardinality(&rows, &options.cancel).map_err(|_| Failure::Invalid)?;
            // Rows without a column get one that is without a row. The entry there is for the order alone.
            let pairs = matching.unmatched_rows().into_iter();
            let full = with_entries(&rows, pairs.zip(matching.unmatched_cols()));
            (order(full.as_ref().unwrap_or(&rows), None, &options)?, rank)
        }
        ordered => (ordered?, n),
    };
    let structural_rank = btf.then_some(rank);
    let mut predicted: Vec<Option<Predicted>> = ordered
        .block_ptr
        .windows(2)
        .map(|ends| (ends[1] - ends[0] == 1).then_some(SINGLE))
        .collect();
    for block in &ordered.blocks {
        predicted[block.block] = Some(Predicted {
            lnz: block.predicted.lnz as f64,
            unz: block.predicted.unz as f64,
            flops: Some(block.predicted.flops),
        });
    }
    let mut order = Order {
        rows: ordered.row_perm.as_slice().to_vec(),
        cols: ordered.col_perm.as_slice().to_vec(),
        block_ptr: ordered.block_ptr,
        predicted,
        structural_rank,
    };
    order.unorder_small_blocks();
    Ok(order)
}

impl Order {
    /// Puts the rows of small blocks, and their columns with them, in increasing order.
    fn unorder_small_blocks(&mut self) {
        for number in 0..self.predicted.len() {
            let block = self.block_ptr[number]..self.block_ptr[number + 1];
            let n = block.len();
            if !(2..=UNORDERED).contains(&n) {
                continue;
            }
            let (rows, cols) = (&mut self.rows[block.clone()], &mut self.cols[block]);
            let mut pairs: Vec<(u32, u32)> =
                rows.iter().copied().zip(cols.iter().copied()).collect();
            pairs.sort_unstable();
            for (k, (row, col)) in pairs.into_iter().enumerate() {
                (rows[k], cols[k]) = (row, col);
            }
            // As if they were full.
            let entries = (n * (n + 1) / 2) as f64;
            let products = (n - 1) * n * (2 * n - 1) / 6;
            self.predicted[number] = Some(Predicted {
                lnz: entries,
                unz: entries,
                flops: Some((n * (n - 1) / 2 + 2 * products) as f64),
            });
        }
    }
}

/// The pattern with more entries, each in a row and a column that it has none in together; None if there are none.
fn with_entries(
    rows: &CompressedPattern,
    entries: impl Iterator<Item = (u32, u32)>,
) -> Option<CompressedPattern> {
    let mut added: Vec<(u32, u32)> = entries.collect();
    if added.is_empty() {
        return None;
    }
    added.sort_unstable();
    let mut added = added.into_iter().peekable();
    let mut ptr = Vec::with_capacity(rows.ptr().len());
    ptr.push(0);
    let mut idx = Vec::with_capacity(rows.nnz());
    for (i, line) in rows.lines().enumerate() {
        let first = idx.len();
        idx.extend_from_slice(line);
        while let Some((_, column)) = added.next_if(|&(row, _)| row as usize == i) {
            idx.push(column);
        }
        idx[first..].sort_unstable();
        ptr.push(idx.len() as u64);
    }
    let full = CompressedPattern::new(rows.minor_dim(), ptr, idx);
    Some(full.unwrap_or_else(|e| unreachable!("entries are added where there are none: {e}")))
}

/// Permutations of the caller; None: rows, or columns, as they come.
pub(crate) fn given(
    cols: &CompressedPattern,
    p: Option<&[u32]>,
    q: Option<&[u32]>,
    btf: bool,
) -> Outcome<Order> {
    let n = cols.major_dim();
    let identity = || (0..n as u32).collect::<Vec<_>>();
    let p = p.map_or_else(identity, <[u32]>::to_vec);
    let q = q.map_or_else(identity, <[u32]>::to_vec);
    let (rows, cols, block_ptr) = if btf {
        // Row p[k] goes with column q[k]; the blocks are those that no permutation of these pairs makes smaller.
        let pairs: Vec<u32> = (0..n as u32).collect();
        let renumbered = renumbered(cols, &p, &q);
        let form = block_triangular(&renumbered.transpose(), &pairs);
        let of_pairs = |of: &[u32]| {
            form.perm
                .as_slice()
                .iter()
                .map(|&k| of[k as usize])
                .collect()
        };
        (of_pairs(&p), of_pairs(&q), form.block_ptr)
    } else {
        (p, q, vec![0, n])
    };
    let single = |ends: &[usize]| (ends[1] - ends[0] == 1).then_some(SINGLE);
    Ok(Order {
        predicted: block_ptr.windows(2).map(single).collect(),
        rows,
        cols,
        block_ptr,
        structural_rank: None,
    })
}

/// The columns of A with rows and columns permuted.
fn renumbered(cols: &CompressedPattern, p: &[u32], q: &[u32]) -> CompressedPattern {
    let mut place = vec![0; p.len()];
    p.iter()
        .enumerate()
        .for_each(|(k, &row)| place[row as usize] = k as u32);
    let mut ptr = Vec::with_capacity(q.len() + 1);
    ptr.push(0);
    let mut idx = Vec::with_capacity(cols.nnz());
    for &column in q {
        let first = idx.len();
        let rows = cols.line(column as usize).iter();
        idx.extend(rows.map(|&row| place[row as usize]));
        idx[first..].sort_unstable();
        ptr.push(idx.len() as u64);
    }
    CompressedPattern::new(p.len(), ptr, idx)
        .unwrap_or_else(|e| unreachable!("a permuted pattern stays valid: {e}"))
}

/// Blocks in the order that a function of the caller finds for each.
fn by_user<I: Integer>(cols: &CompressedPattern, btf: bool, control: Control<I>) -> Outcome<Order> {
    let Some(order_block) = control.get().user_order else {
        return Err(Failure::Invalid);
    };
    let mut order = by_method(cols, Method::Natural, btf)?;
    let permuted = renumbered(cols, &order.rows, &order.cols);
    let blocks: Vec<_> = order.blocks().collect();
    for (number, block) in blocks.into_iter().enumerate() {
        let count = block.len();
        if count <= UNORDERED {
            continue;
        }
        let mut ptr = vec![I::of(0)];
        let mut idx = Vec::new();
        for j in block.clone() {
            let rows = permuted.line(j).iter().map(|&i| i as usize);
            let inside = rows.filter(|i| *i >= block.start);
            idx.extend(inside.map(|i| I::of(i - block.start)));
            ptr.push(I::of(idx.len()));
        }
        let mut found = vec![I::EMPTY; count];
        // SAFETY: the caller's function gets what its type says, and room for as many numbers as it is told.
        let lnz = unsafe {
            order_block(
                I::of(count),
                ptr.as_mut_ptr(),
                idx.as_mut_ptr(),
                found.as_mut_ptr(),
                control.pointer(),
            )
        };
        let found = permutation(&found)?;
        if lnz.to_i64() == 0 {
            return Err(Failure::Invalid);
        }
        for list in [&mut order.rows, &mut order.cols] {
            let before: Arc<[u32]> = list[block.clone()].into();
            let after = found.iter().map(|&k| before[k as usize]);
            list[block.clone()]
                .iter_mut()
                .zip(after)
                .for_each(|(to, from)| *to = from);
        }
        order.predicted[number] = lnz.to_usize().map(|lnz| Predicted {
            lnz: lnz as f64,
            unz: lnz as f64,
            flops: None,
        });
    }
    Ok(order)
}

/// The caller's numbers, if each from 0 on is there once.
pub(crate) fn permutation<I: Integer>(numbers: &[I]) -> Outcome<Vec<u32>> {
    let mut is_there = vec![false; numbers.len()];
    let checked = numbers.iter().map(|number| {
        let number = number.to_usize().ok_or(Failure::Invalid)?;
        let seen = is_there.get_mut(number).ok_or(Failure::Invalid)?;
        if std::mem::replace(seen, true) {
            return Err(Failure::Invalid);
        }
        Ok(number as u32)
    });
    checked.collect()
}

/// Which share of the entries off the diagonal of a block has a counterpart across it; 1 if there are none.
pub(crate) fn symmetry(cols: &CompressedPattern, block: std::ops::Range<usize>) -> f64 {
    let is_inside = |i: &&u32| block.contains(&(**i as usize));
    let (mut pairs, mut entries) = (0usize, 0usize);
    // For each column of the block, how many of its entries have been passed: counterparts come in the order of columns.
    let mut next: Vec<usize> = block.clone().map(|j| cols.range(j).start).collect();
    for j in block.clone() {
        for &i in cols.line(j).iter().filter(is_inside) {
            let i = i as usize;
            if i == j {
                continue;
            }
            entries += 1;
            let at = &mut next[i - block.start];
            let end = cols.range(i).end;
            while *at < end && (cols.idx()[*at] as usize) < j {
                *at += 1;
            }
            pairs += usize::from(*at < end && cols.idx()[*at] as usize == j);
        }
    }
    if entries == 0 {
        1.0
    } else {
        pairs as f64 / entries as f64
    }
}
