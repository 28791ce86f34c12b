//! In which steps a symmetric front is eliminated, and the room that they take.

use luge_dense::BLOCK_COLUMNS;

/// Pivots whose columns of L·D update what is below a front at a time: a product with more of them reads and writes the
/// rest less often.
pub(crate) const SCALED_PIVOTS: usize = 256;
/// Widths of the blocks of columns that a symmetric front is eliminated by, outermost first; the innermost is what a kernel
/// takes.
pub(crate) const WIDTHS: [usize; 2] = [128, BLOCK_COLUMNS];
/// Columns that are updated at a time within a symmetric front, by one thread, and that threads share.
pub(crate) const UPDATE_COLUMNS: usize = 64;
pub(crate) const SHARED_COLUMNS: usize = 1024;

/// Entries of the columns of L·D, or of a block, that are needed at a time for a symmetric front with k candidates and c
/// rows below them.
pub(crate) fn scaled_entries(k: usize, c: usize) -> usize {
    let of_block = (k + c) * k.min(BLOCK_COLUMNS);
    let within = k.min(UPDATE_COLUMNS) * k.min(WIDTHS[0]);
    of_block.max(within).max(c * k.min(SCALED_PIVOTS))
}

/// Those that are needed where threads share the front.
pub(crate) fn shared_entries(k: usize, c: usize) -> usize {
    scaled_entries(k, c).max(k.min(SHARED_COLUMNS) * k.min(WIDTHS[0]))
}
