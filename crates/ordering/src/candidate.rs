//! An order of all columns for one choice of the rows on the diagonal: the block triangular form, and each of its blocks.

use luge_sparse::etree::{EliminationForest, NONE};
use luge_sparse::{ColPerm, CompressedPattern, RowPerm};
use rayon::prelude::*;
use smallvec::SmallVec;

use crate::block_order::{Clock, order_block};
use crate::btf::{BlockTriangular, connected_components, find_blocks};
use crate::cost::Prediction;
use crate::error::OrderingError;
use crate::graph::BlockPattern;
use crate::options::{BlockReport, Method, MethodUsed, OrderingOptions, OrderingSeconds};
use crate::parts::{WORTH_SHARING, join_if};

/// Diagonal blocks are ordered side by side if those beside the largest have at least so many columns together. Few in
/// tests, so that small matrices are shared.
const MIN_SHARED: usize = if cfg!(test) { 8 } else { 200 };

/// Blocks of at least so many columns are shared out. In smaller ones there is little to choose.
const SMALLEST_SHARED: usize = 3;

/// Columns of the blocks that a thread orders one after another, on average and at least.
const LEAST_PART: usize = if cfg!(test) { 4 } else { 200 };

/// Diagonal blocks between two looks at the cancel flag.
const STRIDE: usize = 1 << 10;

/// Where the one block of a matrix that is not cut into more begins and ends.
pub(crate) fn one_block(n: usize) -> Vec<usize> {
    if n == 0 { vec![0] } else { vec![0, n] }
}

/// One choice of the rows on the diagonal, with the columns ordered.
pub(crate) struct Candidate {
    pub row_perm: RowPerm,
    pub col_perm: ColPerm,
    pub block_ptr: Vec<usize>,
    pub method_used: MethodUsed,
    pub predicted: Prediction,
    pub blocks: Vec<BlockReport>,
    pub forest: Option<EliminationForest>,
    pub block_forests: Vec<(usize, EliminationForest)>,
    pub seconds: OrderingSeconds,
}

pub(crate) fn candidate(
    a: &CompressedPattern,
    row_of_col: &[u32],
    form: Option<&BlockTriangular>,
    options: &OrderingOptions,
) -> Result<Candidate, OrderingError> {
    options.cancel.check()?;
    let n = a.major_dim();
    let mut seconds = OrderingSeconds::default();
    let mut clock = Clock::start(n);
    let (mut perm, new_col, block_ptr) = if options.block_triangular {
        let form = match form {
            Some(form) => form.clone(),
            None if options.is_symmetric => {
                connected_components(a, options.threads > 1, &options.cancel)?
            }
            None => find_blocks(a, row_of_col, options.threads > 1, &options.cancel)?,
        };
        let new_col = form.perm.inverse();
        (form.perm.into_vec(), new_col, form.block_ptr)
    } else {
        let identity: Vec<u32> = (0..n as u32).collect();
        (identity.clone(), identity, one_block(n))
    };
    seconds.block_triangular = clock.lap();

    let mut predicted = Prediction::default();
    let mut block_nnz = 0;
    let mut blocks = Vec::new();
    let mut forest = options.wants_forest().then(|| EliminationForest {
        parent: Vec::with_capacity(n),
        counts: Vec::with_capacity(n),
    });
    let mut block_forests = Vec::new();
    let order_columns = |start: usize, cols: &[u32], clock: &mut Clock| {
        options.cancel.check()?;
        let mut seconds = OrderingSeconds::default();
        let (parallel, cancel) = (options.threads > 1, &options.cancel);
        let mut block = if options.is_symmetric {
            BlockPattern::of_symmetric(a, cols, &new_col, start, parallel)
        } else {
            BlockPattern::new(a, row_of_col, cols, &new_col, start, parallel, cancel)?
        };
        if let Some(waits) = &options.waits {
            block.waits = Some(cols.iter().map(|&col| waits[col as usize]).collect());
        }
        cancel.check()?;
        let ordered = order_block(&block, options, &mut seconds, clock)?;
        Ok::<_, OrderingError>((ordered, block.nnz(), seconds))
    };
    let mut shared = Vec::new();
    let sizes = block_ptr.windows(2).map(|ends| ends[1] - ends[0]);
    if options.threads > 1 && sizes.max().is_some_and(|largest| n - largest >= MIN_SHARED) {
        let is_shared = |ends: &&[usize]| ends[1] - ends[0] >= SMALLEST_SHARED;
        let blocks: Vec<&[usize]> = block_ptr.windows(2).filter(is_shared).collect();
        let least = LEAST_PART.div_ceil(n.div_ceil(blocks.len().max(1)));
        let by_task = blocks.into_par_iter().with_min_len(least).map(|ends| {
            let cols = &perm[ends[0]..ends[1]];
            order_columns(ends[0], cols, &mut Clock::start(n))
        });
        shared = by_task.collect();
    }
    let mut shared = shared.into_iter();
    clock.lap();
    for (number, ends) in block_ptr.windows(2).enumerate() {
        let (start, size) = (ends[0], ends[1] - ends[0]);
        if number.is_multiple_of(STRIDE) {
            options.cancel.check()?;
        }
        if size == 1 {
            predicted.add_front(1, 0);
            block_nnz += 1;
            if let Some(forest) = &mut forest {
                forest.parent.push(NONE);
                forest.counts.push(1);
            }
            continue;
        }
        if size == 2 && is_full_pair(a, row_of_col, &perm[start..start + 2]) {
            let mut of_pair = Prediction::default();
            of_pair.add_front(2, 0);
            predicted += of_pair;
            block_nnz += 4;
            if let Some(forest) = &mut forest {
                forest.parent.extend([start as u32 + 1, NONE]);
                forest.counts.extend([2, 1]);
            }
            blocks.push(BlockReport {
                block: number,
                method: match options.method {
                    Method::Colamd => MethodUsed::Colamd,
                    Method::NestedDissection => MethodUsed::NestedDissection,
                    Method::Metis => MethodUsed::Metis,
                    Method::Natural => MethodUsed::Natural,
                    _ => MethodUsed::Amd,
                },
                predicted: of_pair,
            });
            continue;
        }
        let cols = &mut perm[start..start + size];
        let found = if size >= SMALLEST_SHARED {
            shared.next()
        } else {
            None
        };
        let (ordered, nnz, of_block) = match found {
            Some(found) => found,
            None => order_columns(start, cols, &mut clock),
        }?;
        seconds.add(&of_block);
        let old: SmallVec<[u32; 64]> = SmallVec::from_slice(cols);
        for (slot, &v) in cols.iter_mut().zip(&ordered.order) {
            *slot = old[v as usize];
        }
        predicted += ordered.predicted;
        block_nnz += nnz;
        let (of_all, of_block) = if options.wants_forest() {
            (ordered.forest, None)
        } else {
            (None, ordered.forest)
        };
        block_forests.extend(of_block.map(|of_block| (number, of_block)));
        forest = forest.zip(of_all).map(|(mut all, of_block)| {
            if start == 0 {
                return of_block;
            }
            let parents = of_block.parent.iter();
            all.parent.extend(parents.map(|&p| match p {
                NONE => NONE,
                p => p + start as u32,
            }));
            all.counts.extend(&of_block.counts);
            all
        });
        blocks.push(BlockReport {
            block: number,
            method: ordered.method,
            predicted: ordered.predicted,
        });
    }
    // A symmetric matrix may have blocks of one column without an entry.
    predicted.off_diagonal_nnz = a.nnz().saturating_sub(block_nnz) as u64;
    let of_larger = |method| {
        // What orders a tiny block says nothing about the method.
        let is_large = |block: &&BlockReport| block.predicted.lnz > 3;
        blocks
            .iter()
            .filter(is_large)
            .any(|block| block.method == method)
    };
    let method_used = match options.method {
        Method::Amd => MethodUsed::Amd,
        Method::NestedDissection => MethodUsed::NestedDissection,
        Method::Metis => MethodUsed::Metis,
        Method::Colamd => MethodUsed::Colamd,
        Method::Natural => MethodUsed::Natural,
        Method::Auto | Method::User { .. } => {
            match (
                of_larger(MethodUsed::NestedDissection),
                of_larger(MethodUsed::Amd),
            ) {
                (true, true) => MethodUsed::AmdAndNestedDissection,
                (true, false) => MethodUsed::NestedDissection,
                (false, _) => MethodUsed::Amd,
            }
        }
    };
    let valid = "blocks are reordered within themselves";
    let rows: Vec<u32> = perm.iter().map(|&col| row_of_col[col as usize]).collect();
    let (row_perm, col_perm) = join_if(
        options.threads > 1 && n >= WORTH_SHARING,
        || RowPerm::new(rows).expect(valid),
        || ColPerm::new(perm).expect(valid),
    );
    Ok(Candidate {
        row_perm,
        col_perm,
        block_ptr,
        method_used,
        predicted,
        blocks,
        forest,
        block_forests,
        seconds,
    })
}

/// Whether all four entries of the block of these two columns are there, so that there is nothing to choose.
fn is_full_pair(a: &CompressedPattern, row_of_col: &[u32], cols: &[u32]) -> bool {
    cols.iter().all(|&col| {
        let line = a.line(row_of_col[col as usize] as usize);
        cols.iter().all(|col| line.binary_search(col).is_ok())
    })
}
