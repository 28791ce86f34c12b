//! What `#[kernel]` generates.

use luge_kernel::host::{ElementKind, KernelModule, LaunchConfig, ParamKind};
use luge_kernel::prelude::*;
use luge_kernel::sim::{Buffer, Simulator};

/// This crate.
pub static MODULE: KernelModule = KernelModule {
    name: "macros",
    images: &[],
};

const TILE: usize = 32;

/// Sums blocks of 32.
#[kernel(T = [f32, f64], require(out.len() >= x.len().div_ceil(TILE)), max_threads(32))]
pub unsafe fn tile_sums<T: Real>(scale: T, x: Global<T>, out: GlobalMut<T>) {
    let tile = shared_array![T; TILE];
    let flags = shared_array![u32; 2 * TILE];
    let t = thread::thread_idx_x() as usize;
    let i = thread::index_1d() as usize;
    tile.set(t, if i < x.len() { x.get(i) } else { T::ZERO });
    flags.set(t, 1);
    thread::sync_threads();
    if t == 0 {
        let mut sum = T::ZERO;
        for k in 0..TILE {
            sum += tile.get(k) * scale;
        }
        out.set(thread::block_idx_x() as usize, sum);
    }
}

/// Not generic.
#[kernel]
pub unsafe fn store_index(n: u32, out: GlobalMut<u32>) {
    for i in thread::grid_stride(n as usize) {
        out.set(i, i as u32);
    }
}

#[test]
fn descriptions_name_entry_parameters_and_shared_arrays() {
    assert_eq!(tile_sums::DESCS.len(), 2);
    let desc = tile_sums::desc::<f64>();
    assert_eq!(desc.name, "tile_sums_f64");
    assert_eq!(desc.module.name, "macros");
    assert_eq!(desc.max_threads, 32);
    assert_eq!(desc.params[0].name, "scale");
    assert_eq!(desc.params[0].kind, ParamKind::Scalar(ElementKind::F64));
    assert_eq!(
        desc.params[2].kind,
        ParamKind::Buffer {
            element: ElementKind::F64,
            writable: true
        }
    );
    assert_eq!(desc.shared[0].name, "tile");
    assert_eq!(desc.shared[0].element, ElementKind::F64);
    assert_eq!(desc.shared[1].name, "flags");
    assert_eq!(desc.shared[1].len, 64);
    assert_eq!(desc.static_shared_bytes(), 32 * 8 + 64 * 4);
    assert_eq!(
        tile_sums::desc::<f32>().static_shared_bytes(),
        32 * 4 + 64 * 4
    );
    assert_eq!(store_index::desc().name, "store_index");
    assert!(store_index::desc().shared.is_empty());
}

#[test]
fn both_instances_run_on_the_simulator() {
    for seed in 0..5 {
        let simulator = Simulator::with_seed(seed);
        let x: Vec<f64> = (0..1025).map(|i| i as f64).collect();
        let blocks = x.len().div_ceil(TILE);
        let config = LaunchConfig::for_elements(x.len(), TILE as u32);
        let expected: Vec<f64> = x
            .chunks(TILE)
            .map(|c| c.iter().sum::<f64>() * 0.5)
            .collect();

        let input = Buffer::from_slice("x", &x);
        let mut sums = Buffer::<f64>::uninitialized("out", blocks);
        // SAFETY: the lengths fit.
        unsafe { tile_sums::launch(&simulator, &config, 0.5, &input, &mut sums) }.unwrap();
        assert_eq!(sums.to_vec(), expected);

        let x: Vec<f32> = x.iter().map(|&v| v as f32).collect();
        let expected: Vec<f32> = expected.iter().map(|&v| v as f32).collect();
        let input = Buffer::from_slice("x", &x);
        let mut sums = Buffer::<f32>::uninitialized("out", blocks);
        // SAFETY: the lengths fit.
        unsafe { tile_sums::launch(&simulator, &config, 0.5, &input, &mut sums) }.unwrap();
        assert_eq!(sums.to_vec(), expected);
    }
}

#[test]
#[should_panic(expected = "launch of `tile_sums`: its precondition does not hold")]
fn a_broken_requirement_panics() {
    let input = Buffer::from_slice("x", &[0.0f64; 33]);
    let mut sums = Buffer::<f64>::uninitialized("out", 1);
    let config = LaunchConfig::linear(2, 32);
    // SAFETY: never launched.
    unsafe { tile_sums::launch(&Simulator::default(), &config, 1.0, &input, &mut sums) }.unwrap();
}

#[test]
#[should_panic(expected = "a block of 64 threads, where at most 32 fit")]
fn a_block_above_max_threads_panics() {
    let input = Buffer::from_slice("x", &[0.0f64; 32]);
    let mut sums = Buffer::<f64>::uninitialized("out", 1);
    let config = LaunchConfig::linear(1, 64);
    // SAFETY: never launched.
    unsafe { tile_sums::launch(&Simulator::default(), &config, 1.0, &input, &mut sums) }.unwrap();
}
