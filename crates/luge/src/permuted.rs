//! The pattern of B = P·A·Q, and where its entries come from.

use luge_frontal::{Grouped, grouped};
use luge_sparse::{CancelFlag, Cancelled, CompressedPattern, Limits, MemoryBudget, Reservation};

use crate::engine::Transform;

/// The rows of B and the place in A of each of their entries.
pub(crate) fn permuted_rows(
    a_rows: &CompressedPattern,
    transform: &Transform,
) -> (CompressedPattern, Vec<u64>) {
    let n = a_rows.major_dim();
    let new_col = transform.col_perm.inverse();
    let mut ptr = Vec::with_capacity(n + 1);
    ptr.push(0u64);
    let mut idx = Vec::with_capacity(a_rows.nnz());
    let mut source = Vec::with_capacity(a_rows.nnz());
    let mut row: Vec<(u32, u64)> = Vec::new();
    for &old in transform.row_perm.as_slice() {
        row.clear();
        row.extend(
            a_rows
                .range(old as usize)
                .map(|p| (new_col[a_rows.idx()[p] as usize], p as u64)),
        );
        row.sort_unstable();
        idx.extend(row.iter().map(|&(col, _)| col));
        source.extend(row.iter().map(|&(_, p)| p));
        ptr.push(idx.len() as u64);
    }
    let rows = CompressedPattern::new(n, ptr, idx)
        .unwrap_or_else(|e| unreachable!("a permuted pattern stays valid: {e}"));
    (rows, source)
}

/// The columns of B, and the place of each of its entries among those of A by rows.
pub(crate) fn permuted_columns(
    a_rows: &CompressedPattern,
    transform: &Transform,
) -> (CompressedPattern, Vec<u32>) {
    permuted_columns_within(a_rows, transform, &CancelFlag::new())
        .unwrap_or_else(|_| unreachable!("nobody raises the flag"))
}

/// As [`permuted_columns`], unless `cancel` is raised.
pub(crate) fn permuted_columns_within(
    a_rows: &CompressedPattern,
    transform: &Transform,
    cancel: &CancelFlag,
) -> Result<(CompressedPattern, Vec<u32>), Cancelled> {
    let n = a_rows.major_dim();
    let new_col = transform.col_perm.inverse();
    // Counts are shifted by two, so that after the sums ptr[j + 1] is where column j starts and, once
    // it is filled, where it ends.
    let mut ptr = vec![0u64; n + 2];
    for &col in a_rows.idx() {
        ptr[new_col[col as usize] as usize + 2] += 1;
    }
    for j in 2..n + 2 {
        ptr[j] += ptr[j - 1];
    }
    cancel.check()?;
    let mut idx = vec![0u32; a_rows.nnz()];
    let mut source = vec![0u32; a_rows.nnz()];
    // Rows in the order of B, so that every column comes out sorted.
    for (new_row, &row) in transform.row_perm.as_slice().iter().enumerate() {
        if new_row.is_multiple_of(STRIDE) {
            cancel.check()?;
        }
        for p in a_rows.range(row as usize) {
            let at = &mut ptr[new_col[a_rows.idx()[p] as usize] as usize + 1];
            idx[*at as usize] = new_row as u32;
            source[*at as usize] = p as u32;
            *at += 1;
        }
    }
    ptr.pop();
    // SAFETY: a transposed pattern whose rows came in increasing order, and permutations are in range.
    let cols = unsafe { CompressedPattern::new_unchecked(n, ptr, idx) };
    Ok((cols, source))
}

/// Rows between two looks at the cancel flag.
const STRIDE: usize = 1 << 12;

/// Entries from which on it is worth it to share their permutation.
const WORTH_SHARING: usize = 1 << 14;

/// Shares of rows for each thread that permutes them, so that one whose share is small helps with others.
const SHARES_PER_THREAD: usize = 4;

/// Entries of a share, at least.
const SHARE: usize = 1 << 12;

/// In how many shares so many entries are permuted: one if not by several threads.
pub(crate) fn num_shares(entries: usize, threads: usize) -> usize {
    if threads == 1 || entries < WORTH_SHARING {
        return 1;
    }
    (entries / SHARE).clamp(1, SHARES_PER_THREAD * threads)
}

/// In how many shares so many entries are grouped, and the room for them: threads hold every entry twice, the first time as a triple. One
/// where there is no memory for that.
fn shares_within(
    entries: usize,
    threads: usize,
    memory: &MemoryBudget,
) -> (usize, Option<Reservation>) {
    let num_shares = num_shares(entries, threads);
    if num_shares == 1 {
        return (1, None);
    }
    let room = memory.reserve_for::<[u32; 3]>(entries).ok();
    (room.as_ref().map_or(1, |_| num_shares), room)
}

/// The triples of `n` lines, grouped by their first number, each group in the order of the lines; there are about so many `entries`.
/// `line` lists those of each line whenever it is asked. The threads of the current rayon pool share that, as far as there is memory.
pub(crate) fn grouped_within<I: Iterator<Item = [u32; 3]>>(
    (n, entries): (usize, usize),
    threads: usize,
    limits: &Limits,
    line: impl Fn(usize) -> I + Sync,
) -> Result<Grouped, Cancelled> {
    // Once raised it stays so, or more would be listed than was counted.
    let cancel = &limits.cancel.child();
    let (num_shares, _room) = shares_within(entries, threads, &limits.memory);
    let grouped = grouped(n, num_shares, |share| {
        let lines = n * share / num_shares..n * (share + 1) / num_shares;
        lines.take_while(|_| !cancel.is_cancelled()).map(&line)
    });
    cancel.check()?;
    Ok(grouped)
}

/// As [`permuted_columns`], shared by the threads of the current rayon pool, with places among the `entries` if those
/// are given: the place of each entry by rows in another order.
pub(crate) fn permuted_columns_shared(
    a_rows: &CompressedPattern,
    entries: Option<&[u64]>,
    transform: &Transform,
    threads: usize,
) -> (CompressedPattern, Vec<u32>) {
    let place = |p: u32| entries.map_or(p, |entries| entries[p as usize] as u32);
    let num_shares = num_shares(a_rows.nnz(), threads);
    if num_shares == 1 {
        let (columns, mut source) = permuted_columns(a_rows, transform);
        if entries.is_some() {
            source.iter_mut().for_each(|p| *p = place(*p));
        }
        return (columns, source);
    }
    let n = a_rows.major_dim();
    let new_col = &transform.col_perm.inverse();
    let place = &place;
    let row_perm = transform.row_perm.as_slice();
    let (ptr, idx) = (a_rows.ptr(), a_rows.idx());
    let rows_of = |share: usize| n * share / num_shares..n * (share + 1) / num_shares;
    // Rows in the order of B, so that every column comes out sorted.
    let Grouped { ptr, first, second } = grouped(n, num_shares, |share| {
        let range = rows_of(share);
        let rows = row_perm[range.clone()].iter().zip(range);
        rows.map(move |(&row, new_row)| {
            let range = ptr[row as usize] as usize..ptr[row as usize + 1] as usize;
            let cols = idx[range.clone()].iter().zip(range);
            cols.map(move |(&col, p)| [new_col[col as usize], new_row as u32, place(p as u32)])
        })
    });
    // SAFETY: as above.
    let cols = unsafe { CompressedPattern::new_unchecked(n, ptr, first) };
    (cols, second)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use luge_sparse::{ColPerm, RowPerm, Scaling};

    use super::*;

    #[test]
    fn entries_are_shared_where_there_is_memory_for_triples() {
        const ENTRIES: usize = WORTH_SHARING;
        let shares = |entries, threads, bytes| {
            let memory = MemoryBudget::new(bytes);
            let (num_shares, room) = shares_within(entries, threads, &memory);
            (num_shares, room.map_or(0, |_| bytes - memory.available()))
        };
        let bytes = 12 * ENTRIES as u64;
        assert_eq!(shares(ENTRIES, 2, bytes), (4, bytes));
        assert_eq!(shares(ENTRIES, 2, bytes - 1), (1, 0));
        assert_eq!(shares(ENTRIES, 1, bytes), (1, 0));
        assert_eq!(shares(ENTRIES - 1, 2, bytes), (1, 0));
    }

    #[test]
    fn columns_are_permuted_alike_by_any_number_of_threads() {
        let (n, each) = (5000, 9);
        // Rows of different lengths. 3 and 11 have no divisor in common with n.
        let (mut ptr, mut idx) = (vec![0], Vec::new());
        for i in 0..n {
            let count = (i % 5) * each / 2;
            let mut cols: Vec<u32> = (0..count)
                .map(|k| ((i * 7 + k * k * 31) % n) as u32)
                .collect();
            cols.sort_unstable();
            cols.dedup();
            idx.extend(cols);
            ptr.push(idx.len() as u64);
        }
        let a = CompressedPattern::new(n, ptr, idx).unwrap();
        assert!(a.nnz() > WORTH_SHARING);
        let perm = |step: usize| (0..n).map(|i| (i * step % n) as u32).collect::<Vec<_>>();
        let transform = Transform {
            row_perm: RowPerm::new(perm(3)).unwrap(),
            col_perm: ColPerm::new(perm(11)).unwrap(),
            scaling: Arc::new(Scaling::identity(n, n)),
        };
        let (columns, source) = permuted_columns(&a, &transform);
        let entries: Vec<u64> = (0..a.nnz() as u64).rev().collect();
        let places: Vec<u32> = source.iter().map(|&p| entries[p as usize] as u32).collect();
        for threads in [1, 2, 3, 16] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build().unwrap().install(|| {
                let shared = permuted_columns_shared(&a, None, &transform, threads);
                assert!(shared == (columns.clone(), source.clone()));
                let shared = permuted_columns_shared(&a, Some(&entries), &transform, threads);
                assert!(shared == (columns.clone(), places.clone()));
            });
        }
    }
}
