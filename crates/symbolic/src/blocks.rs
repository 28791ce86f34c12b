//! Diagonal blocks of a pattern in block triangular form.

use luge_sparse::CompressedPattern;

/// For each row of a square CSR pattern with increasing columns the number of its diagonal block: the finest cut of
/// 0..n into ranges such that no entry lies below the diagonal blocks.
///
/// Elimination stays within diagonal blocks: a fill path i → j has no vertex above min(i, j) inside, and no edge
/// leads back to an earlier block.
pub fn diagonal_blocks(pattern: &CompressedPattern) -> Vec<u32> {
    let n = pattern.major_dim();
    let mut block_of = vec![0; n];
    // Rows from k on have no column before k: a block starts at k.
    let mut first = n as u32;
    for k in (0..n).rev() {
        if let Some(&j) = pattern.line(k).first() {
            first = first.min(j);
        }
        block_of[k] = u32::from(first >= k as u32);
    }
    let mut block = 0u32;
    for start in &mut block_of {
        block += *start;
        *start = block - 1;
    }
    block_of
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks_of(n: usize, rows: &[&[u32]]) -> Vec<u32> {
        let mut ptr = vec![0];
        for row in rows {
            ptr.push(ptr[ptr.len() - 1] + row.len() as u64);
        }
        diagonal_blocks(&CompressedPattern::new(n, ptr, rows.concat()).unwrap())
    }

    #[test]
    fn blocks_end_where_nothing_lies_below() {
        assert_eq!(blocks_of(0, &[]), []);
        assert_eq!(blocks_of(1, &[&[]]), [0]);
        assert_eq!(blocks_of(3, &[&[1, 2], &[2], &[]]), [0, 1, 2]);
        assert_eq!(blocks_of(3, &[&[], &[0], &[2]]), [0, 0, 1]);
        assert_eq!(blocks_of(4, &[&[0, 3], &[1], &[1, 2], &[3]]), [0, 1, 1, 2]);
        // An entry far below joins all between.
        assert_eq!(blocks_of(4, &[&[0], &[1], &[2], &[0, 3]]), [0, 0, 0, 0]);
    }
}
