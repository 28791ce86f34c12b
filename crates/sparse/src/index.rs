//! Checked conversions to the 32-bit indices of the device.

/// Largest number of rows or columns: indices are `u32`, and `u32::MAX` marks "none" in kernels.
pub const MAX_DIMENSION: usize = u32::MAX as usize - 1;

/// A size or index does not fit the 32-bit indices of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {value}, more than the {MAX_DIMENSION} that 32-bit indices hold")]
pub struct IndexOverflow {
    /// Which quantity overflowed, e.g. `"number of rows"`.
    pub what: &'static str,
    /// Its value.
    pub value: usize,
}

/// Converts a dimension or index to `u32`.
///
/// # Errors
///
/// [`IndexOverflow`] if `value` exceeds [`MAX_DIMENSION`].
pub fn to_u32(value: usize, what: &'static str) -> Result<u32, IndexOverflow> {
    if value > MAX_DIMENSION {
        return Err(IndexOverflow { what, value });
    }
    Ok(value as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_index_fits_and_the_next_does_not() {
        assert_eq!(to_u32(MAX_DIMENSION, "n"), Ok(u32::MAX - 1));
        let error = to_u32(MAX_DIMENSION + 1, "n").unwrap_err();
        assert_eq!(error.value, u32::MAX as usize);
        assert!(error.to_string().starts_with("n is 4294967295"));
    }
}
