//! Powers of two between right-hand sides of A and those of B, over the whole range of exponents.

use luge_kernel::prelude::*;

/// Added to the exponents of right-hand sides where they are compared, so that none is negative; zero means none.
pub(super) const BIAS: i32 = 1 << 13;

/// `value` · 2^`exponent`, in steps that leave the range only if the product does.
#[inlined]
pub(in crate::frontal) fn shifted<W: Field<Real = f64>>(value: W, exponent: i32) -> W {
    let exponent = exponent.clamp(-4000, 4000);
    let step = exponent >> 2;
    value
        .scale(power_of_two(step))
        .scale(power_of_two(step))
        .scale(power_of_two(step))
        .scale(power_of_two(exponent - 3 * step))
}

/// 2^`exponent` for exponents of normal numbers.
#[inlined]
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + i64::from(exponent)) as u64) << 52)
}

/// e where |`value`| is in [2^(e−1), 2^e), plus [`BIAS`]; zero for zero and what is not finite.
#[inlined]
pub(super) fn biased_exponent(value: f64) -> i32 {
    let stored = |v: f64| ((v.to_bits() >> 52) & 0x7ff) as i32;
    if value == 0.0 || stored(value) == 0x7ff {
        0
    } else if stored(value) == 0 {
        // A subnormal number.
        stored(value * power_of_two(64)) - 64 - 1022 + BIAS
    } else {
        stored(value) - 1022 + BIAS
    }
}

/// The largest entry of a right-hand side is brought near 2 to this power, a quarter of the range: entries that are
/// smaller by hundreds of orders of magnitude keep their accuracy, and a solution may still grow.
#[inlined]
pub(super) fn headroom<T: Field>() -> i32 {
    if size_of::<T::Real>() == size_of::<f32>() {
        32
    } else {
        256
    }
}
