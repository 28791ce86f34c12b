//! The solution that factors are probed with.

use luge_sparse::Scalar;

/// Entry `i` of the known solution that factors are probed with: pseudo-random, its components of either sign, with a
/// [magnitude](Scalar::magnitude) in [1, 2). The kernel `set_known_solution` has the same entries.
#[inline]
pub fn known_solution<W: Scalar<Real = f64>>(i: u64) -> W {
    let count = W::COMPONENTS as u64;
    W::from_components(|at| {
        let component = known_component(count.wrapping_mul(i).wrapping_add(at as u64));
        component / count as f64
    })
}

/// A number of either sign with a magnitude in [1, 2) (the finalizer of SplitMix64: Steele, Lea and Flood 2014).
#[inline]
fn known_component(i: u64) -> f64 {
    const ONE: u64 = 0x3ff0_0000_0000_0000;
    let mut bits = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    f64::from_bits((bits << 63) | ONE | (bits >> 12))
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;

    #[test]
    fn entries_have_a_magnitude_from_one_to_two_and_either_sign() {
        let entries: Vec<f64> = (0..1000).map(known_solution::<f64>).collect();
        assert!(entries.iter().all(|x| (1.0..2.0).contains(&x.abs())));
        let negative = entries.iter().filter(|x| **x < 0.0).count();
        assert!((400..600).contains(&negative), "{negative}");
        let entries: Vec<Complex<f64>> = (0..1000).map(known_solution).collect();
        let sizes = || entries.iter().map(|z| z.magnitude());
        assert!(sizes().all(|size| (1.0..2.0).contains(&size)));
        for part in [|z: &Complex<f64>| z.re, |z: &Complex<f64>| z.im] {
            let negative = entries.iter().filter(|z| part(z) < 0.0).count();
            assert!((400..600).contains(&negative), "{negative}");
        }
    }

    #[cfg(feature = "gpu")]
    #[test]
    fn entries_are_those_of_the_device() {
        for i in (0..10_000).chain([u64::from(u32::MAX), u64::MAX - 1, u64::MAX]) {
            let on_device: f64 = luge_gpu_kernels::refine::known_solution(i);
            assert_eq!(
                known_solution::<f64>(i).to_bits(),
                on_device.to_bits(),
                "{i}"
            );
            let on_device: Complex<f64> = luge_gpu_kernels::refine::known_solution(i);
            assert_eq!(known_solution::<Complex<f64>>(i), on_device, "{i}");
        }
    }
}
