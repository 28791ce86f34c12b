//! Numbers that are sent as they lie in memory.

use num_complex::Complex;

/// A number without padding of which every pattern of bits is a value.
///
/// # Safety
///
/// Both hold for the type.
pub unsafe trait Plain: Copy + Default + Send + Sync + 'static {}

macro_rules! plain {
    ($($type:ty),*) => {$(
        // SAFETY: integers and floating-point numbers have no padding, and all bits are values.
        unsafe impl Plain for $type {}
    )*};
}
plain!(u8, u16, u32, u64, i8, i16, i32, i64, usize, isize, f32, f64);

// SAFETY: two numbers one after the other, by `repr(C)`.
unsafe impl<T: Plain> Plain for Complex<T> {}

/// The bytes of numbers.
pub fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: there is no padding, so all bytes are initialised.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The numbers with these bytes; `None` if there is not a whole number of them.
pub fn from_bytes<T: Plain>(bytes: &[u8]) -> Option<Vec<T>> {
    let size = size_of::<T>();
    if !bytes.len().is_multiple_of(size) {
        return None;
    }
    let mut values = vec![T::default(); bytes.len() / size];
    // SAFETY: as many bytes as the values have, of which every pattern is a value; bytes need no alignment.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), values.as_mut_ptr().cast(), bytes.len());
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_their_bytes() {
        let values = [Complex::new(1.5, -0.0), Complex::new(f64::INFINITY, 3e-310)];
        let back: Vec<Complex<f64>> = from_bytes(bytes_of(&values)).unwrap();
        assert_eq!(bytes_of(&back), bytes_of(&values));
        assert_eq!(from_bytes::<u64>(&[0; 12]), None);
        assert_eq!(from_bytes::<u32>(&[]), Some(Vec::new()));
        // Bytes that begin anywhere.
        let bytes = [9, 1, 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(
            from_bytes::<u32>(&bytes[1..]),
            Some(vec![1u32.to_le(), 2u32.to_le()])
        );
    }
}
