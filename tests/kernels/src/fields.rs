//! Kernels over a field, for tests of what complex numbers need of the DSL: elements of two words.
//!
//! As in [`dsl`](crate::dsl) they compute nothing of use, and a thread writes only cells indexed by its own number where a
//! kernel's documentation does not say otherwise. `tests/tests/simulator/dsl/fields.rs` launches them.

use luge_kernel::prelude::*;

/// Values that [`field_arithmetic`](fn@field_arithmetic) writes for each element.
pub const FIELD_VALUES: usize = 13;

/// The operations of `Field` on (x, y, z): `out[k · n + i]`, k as listed in the body, and `magnitudes[i]`.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    require(
        y.len() == x.len(),
        z.len() == x.len(),
        out.len() == FIELD_VALUES * x.len(),
        magnitudes.len() == x.len()
    )
)]
pub unsafe fn field_arithmetic<T: Field>(
    factor: T::Real,
    x: Global<T>,
    y: Global<T>,
    z: Global<T>,
    out: GlobalMut<T>,
    magnitudes: GlobalMut<T::Real>,
) {
    let n = x.len();
    for i in thread::grid_stride(n) {
        let (x, y, z) = (x.get(i), y.get(i), z.get(i));
        out.set(i, x.mul_add(y, z));
        out.set(n + i, x * y + z);
        out.set(2 * n + i, x - y);
        out.set(3 * n + i, x / y);
        out.set(4 * n + i, -x);
        out.set(5 * n + i, x.conjugate());
        out.set(6 * n + i, x.scale(factor));
        out.set(7 * n + i, x.quotient(y));
        out.set(8 * n + i, x.with_magnitude(factor));
        out.set(9 * n + i, T::narrow(x.widen() * y.widen()));
        out.set(10 * n + i, if x.is_number() { T::ONE } else { T::ZERO });
        let mut sum = T::from_real(factor);
        sum += y;
        sum -= z;
        sum *= y;
        sum /= z;
        out.set(11 * n + i, sum);
        out.set(12 * n + i, x.reciprocal());
        magnitudes.set(i, x.magnitude());
    }
}

/// Rows and columns of a tile of [`conjugate_transpose`](fn@conjugate_transpose).
pub const TILE: usize = 32;

/// The conjugate transpose of A, `rows` × `columns` by rows, into `out`, `columns` × `rows` by rows.
///
/// Launch: blocks of 32 × 8 threads, `columns.div_ceil(32)` × `rows.div_ceil(32)` of them; each has a tile. Shared memory:
/// the tile with a column to spare, so that neither rows nor columns fall on one bank. The barrier hands element (i, j) from
/// thread (j, i mod 8) to thread (i, j mod 8).
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(256),
    require(a.len() == rows as usize * columns as usize, out.len() == a.len())
)]
pub unsafe fn conjugate_transpose<T: Field>(
    rows: u32,
    columns: u32,
    a: Global<T>,
    out: GlobalMut<T>,
) {
    let tile = shared_array![T; TILE * (TILE + 1)];
    let (rows, columns) = (rows as usize, columns as usize);
    let first_row = thread::block_idx_y() as usize * TILE;
    let first_column = thread::block_idx_x() as usize * TILE;
    let x = thread::thread_idx_x() as usize;
    let step = thread::block_dim_y() as usize;
    let mut y = thread::thread_idx_y() as usize;
    while y < TILE {
        let (row, column) = (first_row + y, first_column + x);
        if row < rows && column < columns {
            tile.set(y * (TILE + 1) + x, a.get(row * columns + column));
        }
        y += step;
    }
    thread::sync_threads();
    y = thread::thread_idx_y() as usize;
    while y < TILE {
        let (row, column) = (first_row + x, first_column + y);
        if row < rows && column < columns {
            let entry = tile.get(x * (TILE + 1) + y);
            out.set(column * rows + row, entry.conjugate());
        }
        y += step;
    }
}

/// A sum of products, and for which entries it is formed.
#[derive(Clone, Copy, KernelArgs)]
pub struct Update<T: Field> {
    /// What every product is multiplied with.
    pub factor: T,
    /// The least magnitude of an entry of `x` that counts.
    pub bound: T::Real,
    /// The vector.
    pub x: Global<T>,
    /// What each of its entries is scaled with.
    pub weights: Global<T::Real>,
    /// What is added to.
    pub y: GlobalMut<T>,
}

/// A struct of arguments with complex numbers and the real ones that belong to them: yᵢ := factor·(wᵢ·xᵢ) + yᵢ + `shift`
/// for all i with |xᵢ| ≥ bound.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    require(update.x.len() == update.y.len(), update.weights.len() == update.y.len())
)]
pub unsafe fn weighted_update<T: Field>(shift: T, update: Update<T>) {
    for i in thread::grid_stride(update.y.len()) {
        let x = update.x.get(i);
        if x.magnitude() >= update.bound {
            let y = update.y.get(i) + shift;
            let weighted = x.scale(update.weights.get(i));
            update.y.set(i, update.factor.mul_add(weighted, y));
        }
    }
}

/// Complex numbers as parameters of a kernel without a type parameter, between others: `bits[0..6]` receives the bits of all
/// numbers and components in their order, `bits[6..9]` the length of `x` and the bits of its last element.
///
/// One thread writes; `x` is not empty, and `bits.len()` is at least 9.
#[kernel]
pub unsafe fn complex_parameters(
    a: u32,
    b: Complex<f32>,
    x: Global<Complex<f32>>,
    c: Complex<f64>,
    d: f32,
    bits: GlobalMut<u64>,
) {
    if thread::index_1d() == 0 {
        bits.set(0, u64::from(a));
        bits.set(1, u64::from(b.re.to_bits()));
        bits.set(2, u64::from(b.im.to_bits()));
        bits.set(3, c.re.to_bits());
        bits.set(4, c.im.to_bits());
        bits.set(5, u64::from(d.to_bits()));
        bits.set(6, x.len() as u64);
        let last = x.get(x.len() - 1);
        bits.set(7, u64::from(last.re.to_bits()));
        bits.set(8, u64::from(last.im.to_bits()));
    }
}

/// Arrays of complex numbers in dynamic shared memory beside one of words: `x` reversed, and `x` rotated by one in `f32`.
///
/// One block of n threads with 28·n bytes of dynamic shared memory: n numbers of 16 bytes, of 8, and n words.
#[kernel(
    max_threads(256),
    require(wide.len() == x.len(), narrow.len() == x.len())
)]
pub unsafe fn dynamic_shared_complex(
    x: Global<Complex<f64>>,
    wide: GlobalMut<Complex<f64>>,
    narrow: GlobalMut<Complex<f32>>,
) {
    let n = x.len();
    let wides = dynamic_shared::<Complex<f64>>(0, n);
    let narrows = dynamic_shared::<Complex<f32>>(16 * n, n);
    let words = dynamic_shared::<u32>(24 * n, n);
    let t = thread::thread_idx_x() as usize;
    words.set(t, t as u32);
    wides.set(t, x.get(t));
    narrows.set(t, Field::narrow(x.get(t)));
    thread::sync_threads();
    if words.get(t) == t as u32 {
        wide.set(t, wides.get(n - 1 - t));
        narrow.set(t, narrows.get(if t + 1 == n { 0 } else { t + 1 }));
    }
}
