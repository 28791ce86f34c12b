//! What `#[kernel]` generates.

use luge_kernel::host::{
    ElementKind, KernelModule, LaunchConfig, ParamDesc, ParamKind, RecordBuffer,
};
use luge_kernel::prelude::*;
use luge_kernel::sim::{Buffer, FaultKind, Simulator};

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

/// Real and complex numbers in one kernel.
#[kernel(T = [f32, Complex<f32>, Complex<f64>])]
pub unsafe fn scaled<T: Field>(factor: T::Real, x: Global<T::Real>, out: GlobalMut<T>) {
    let tile = shared_array![T; TILE];
    let reals = shared_array![T::Real; 3];
    let t = thread::thread_idx_x() as usize;
    reals.set(0, factor);
    tile.set(t, T::from_real(x.get(t)));
    out.set(t, tile.get(t).scale(reals.get(0)));
}

#[test]
fn instances_of_a_field_name_its_real_type() {
    type Double = Complex<f64>;
    let names: Vec<_> = scaled::DESCS.iter().map(|desc| desc.name).collect();
    assert_eq!(
        names,
        ["scaled_f32", "scaled_complex_f32", "scaled_complex_f64"]
    );
    let desc = scaled::desc::<Double>();
    let kinds: Vec<_> = desc.params.iter().map(|param| param.kind).collect();
    let expected = [
        ParamKind::Scalar(ElementKind::F64),
        buffer(ElementKind::F64, false),
        buffer(ElementKind::ComplexF64, true),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(desc.static_shared_bytes(), TILE * 16 + 2 * 16);
    let desc = scaled::desc::<Complex<f32>>();
    assert_eq!(desc.static_shared_bytes(), TILE * 8 + 16);

    let x = Buffer::from_slice("x", &[3.0]);
    let mut out = Buffer::uninitialized("out", 1);
    let (target, config) = (Simulator::default(), LaunchConfig::linear(1, 1));
    // SAFETY: a block of one thread, and buffers of one element.
    unsafe { scaled::launch::<Double, _>(&target, &config, -0.5, &x, &mut out) }.unwrap();
    assert_eq!(out.to_vec(), [Complex::new(-1.5, -0.0)]);
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

/// Where the terms of a sum are.
#[derive(Clone, Copy, Debug, PartialEq, Record)]
#[repr(C, packed(4))]
pub struct Terms {
    /// How many there are.
    pub len: u32,
    /// The first of them.
    pub first: u64,
    /// Each is multiplied with one of these, in turn.
    pub factors: [u32; 3],
}

/// What is summed, and how.
#[derive(Clone, Copy, KernelArgs)]
pub struct Sums<T: Real> {
    /// Every sum is multiplied with it.
    pub scale: T,
    /// The sums.
    pub terms: Records<Terms>,
    /// The numbers that they are of.
    pub numbers: Global<T>,
    /// Where they go.
    pub out: GlobalMut<T>,
}

/// How the words of a record come to the thread that sums.
#[derive(Clone, Copy, KernelArgs)]
pub struct Way {
    /// From global memory, by shared memory, from the lanes of the warp.
    pub number: u32,
}

/// The sum that `terms` describes.
#[inline(always)]
fn sum<T: Real, W: Words>(sums: Sums<T>, terms: TermsIn<W>) -> T {
    let (len, first) = (terms.len(), terms.first());
    let mut total = T::ZERO;
    let mut i = 0;
    while i < len {
        let factor = T::from_f64(f64::from(terms.factors(i % 3)));
        total = factor.mul_add(sums.numbers.get((first + u64::from(i)) as usize), total);
        i += 1;
    }
    total * sums.scale
}

/// Each sum of `sums`, by a warp.
#[kernel(T = [f32, f64], max_threads(32), require(sums.terms.len() == sums.out.len(), way.number < 3))]
pub unsafe fn described_sums<T: Real>(sums: Sums<T>, way: Way, counts: GlobalMut<u32>) {
    let words = shared_array![u32; Terms::WORDS];
    let lane = thread::lane_id();
    let warp = thread::block_idx_x();
    let mut word = 0;
    if lane < Terms::WORDS as u32 {
        word = sums.terms.word(warp, lane);
        words.set(lane as usize, word);
    }
    warp::sync_warp(warp::FULL_MASK);
    let total = if way.number == 0 {
        sum(sums, sums.terms.get(warp as usize))
    } else if way.number == 1 {
        sum(sums, Terms::within(words))
    } else {
        sum(sums, Terms::within(OfLanes { word, first: 0 }))
    };
    if lane == 0 {
        sums.out.set(warp as usize, total);
        counts.set(warp as usize, sums.terms.get(warp as usize).len());
    }
}

#[test]
fn a_struct_is_described_by_its_fields() {
    let desc = described_sums::desc::<f32>();
    assert_eq!(desc.params.len(), 3);
    let fields = [
        ("scale", ParamKind::Scalar(ElementKind::F32)),
        ("terms", buffer(ElementKind::U32, false)),
        ("numbers", buffer(ElementKind::F32, false)),
        ("out", buffer(ElementKind::F32, true)),
    ];
    let fields = fields.map(|(name, kind)| ParamDesc { name, kind });
    let ParamKind::Struct(found) = desc.params[0].kind else {
        panic!("a struct");
    };
    assert_eq!(found, fields);
    let names: Vec<_> = desc.arguments().map(|a| a.to_string()).collect();
    assert_eq!(
        names,
        [
            "sums.scale",
            "sums.terms",
            "sums.numbers",
            "sums.out",
            "way.number",
            "counts"
        ]
    );
}

fn buffer(element: ElementKind, writable: bool) -> ParamKind {
    ParamKind::Buffer { element, writable }
}

const TERMS: [Terms; 2] = [
    Terms {
        len: 4,
        first: 2,
        factors: [1, 10, 100],
    },
    Terms {
        len: 1,
        first: 0,
        factors: [3, 0, 0],
    },
];

#[test]
fn a_record_is_its_words() {
    assert_eq!(Terms::WORDS, 6);
    let wide = Terms {
        first: 7 << 32 | 5,
        ..TERMS[0]
    };
    let words = [4, 5, 7, 1, 10, 100, 1, 0, 0, 3, 0, 0];
    assert_eq!(Terms::as_words(&[wide, TERMS[1]]), words);
}

/// The sums of `TERMS` in each way that a kernel may read records.
fn run(numbers: &[f64], number: u32) -> Result<Vec<f64>, Box<luge_kernel::sim::Fault>> {
    let terms = RecordBuffer::new(Buffer::from_slice("terms", Terms::as_words(&TERMS)));
    let numbers = Buffer::from_slice("numbers", numbers);
    let mut out = Buffer::uninitialized("out", 2);
    let mut counts = Buffer::uninitialized("counts", 2);
    let config = LaunchConfig::linear(2, 32);
    let sums = SumsBuffers {
        scale: 2.0,
        terms: &terms,
        numbers: &numbers,
        out: &mut out,
    };
    let way = WayBuffers { number };
    let simulator = Simulator::default();
    // SAFETY: there are the numbers that the terms name, or the simulator finds that there are not.
    unsafe { described_sums::launch::<f64, _>(&simulator, &config, sums, way, &mut counts) }?;
    assert_eq!(counts.to_vec(), [4, 1]);
    Ok(out.to_vec())
}

#[test]
fn fields_arrive_by_name_however_they_are_read() {
    let numbers = [5.0, 0.0, 1.0, 2.0, 3.0, 4.0];
    for way in 0..3 {
        assert_eq!(
            run(&numbers, way).unwrap(),
            [2.0 * 325.0, 30.0],
            "way {way}"
        );
    }
}

#[test]
fn a_fault_names_the_field() {
    let fault = run(&[5.0, 0.0, 1.0, 2.0, 3.0], 0).unwrap_err();
    assert_eq!(fault.kind, FaultKind::OutOfBounds { len: 5 });
    assert!(fault.to_string().contains("sums.numbers"), "{fault}");
}

#[test]
#[should_panic(expected = "its precondition does not hold: way.number < 3")]
fn a_broken_requirement_of_a_field_panics() {
    let _ = run(&[0.0; 6], 3);
}

#[test]
#[should_panic(expected = "7 words are not records of 6")]
fn words_that_are_no_records_are_refused() {
    let _ = RecordBuffer::<_, Terms>::new(Buffer::from_slice("words", &[0u32; 7]));
}
