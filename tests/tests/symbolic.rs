//! The symbolic kernels and the phase built on them against the reference, on every device.

use luge_device::{Buffer, LaunchConfig, Stream};
use luge_gpu_kernels::{scan, sort, symbolic::fill2 as fill2_kernels, transpose};
use luge_reference::{primitives as reference, symbolic as reference_symbolic};
use luge_sparse::{CancelFlag, CompressedPattern, FilledPattern};
use luge_symbolic::gpu::{DeviceFilled, Fill2Options, fill2, primitives, slot_bytes};
use luge_symbolic::{SymbolicError, cpu};
use luge_testkit::compare::assert_same_filled;
use luge_testkit::convert::pattern_of;
use luge_testkit::corpus::Corpus;
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};
use luge_testkit::strategies::patterns;

mod chain;
use chain::{SIZES, noise, on_each, ordered_corpus, seeded_streams, streams};

/// Runs `check` on generated patterns of order up to `max_n`, on every device.
fn on_patterns(max_n: usize, cases: u32, check: impl Fn(&Stream, &CompressedPattern)) {
    on_each(cases, &patterns(max_n), |stream, pattern| {
        check(stream, &pattern);
    });
}

/// Patterns with names that each test walks through: small sizes, extremes, and models of use.
fn named_patterns() -> Vec<(&'static str, CompressedPattern)> {
    let diagonal = |n: usize| {
        CompressedPattern::new(n, (0..=n as u64).collect(), (0..n as u32).collect()).unwrap()
    };
    let empty = |n: usize| CompressedPattern::new(n, vec![0; n + 1], Vec::new()).unwrap();
    vec![
        ("nothing", empty(0)),
        ("one empty row", empty(1)),
        ("one entry", diagonal(1)),
        ("33 empty rows", empty(33)),
        ("diagonal of 1025", diagonal(1025)),
        ("arrow that fills", pattern_of(&arrow(33, ArrowHead::First))),
        (
            "arrow that does not",
            pattern_of(&arrow(33, ArrowHead::Last)),
        ),
        ("circuit", pattern_of(&circuit(120, 1))),
        ("grid", pattern_of(&convection_diffusion_2d(12, 9, 1.0))),
    ]
}

fn counts_of(len: usize, seed: u64) -> Vec<u32> {
    (0..len)
        .map(|i| match noise(seed, i) % 4 {
            0 => 0,
            1 => u32::MAX,
            value => (noise(seed + 1, i) >> (20 * value)) as u32,
        })
        .collect()
}

fn tile_sums(tile: usize, counts: &[u64]) -> Vec<u64> {
    counts.chunks(tile).map(|tile| tile.iter().sum()).collect()
}

#[test]
fn scan_tile_sums_u32_matches_reference() {
    for stream in streams() {
        for len in SIZES.into_iter().filter(|&len| len > 0) {
            let counts = counts_of(len, len as u64);
            let tile = 96;
            let on_device = stream.upload(&counts).unwrap();
            let mut sums = stream.alloc::<u64>(len.div_ceil(tile)).unwrap();
            let config = LaunchConfig::linear(sums.len() as u32, 64);
            // SAFETY: one block a tile.
            unsafe {
                scan::scan_tile_sums_u32::launch(&stream, &config, 96, &on_device, &mut sums)
            }
            .unwrap();
            let wide: Vec<u64> = counts.iter().map(|&c| c.into()).collect();
            assert_eq!(stream.download(&sums).unwrap(), tile_sums(tile, &wide));
        }
    }
}

#[test]
fn scan_tile_sums_u64_matches_reference() {
    for stream in streams() {
        for len in SIZES.into_iter().filter(|&len| len > 0) {
            let counts: Vec<u64> = (0..len).map(|i| noise(3, i) >> 12).collect();
            let tile = 100;
            let on_device = stream.upload(&counts).unwrap();
            let mut sums = stream.alloc::<u64>(len.div_ceil(tile)).unwrap();
            let config = LaunchConfig::linear(sums.len() as u32, 96);
            // SAFETY: one block a tile.
            unsafe {
                scan::scan_tile_sums_u64::launch(&stream, &config, 100, &on_device, &mut sums)
            }
            .unwrap();
            assert_eq!(stream.download(&sums).unwrap(), tile_sums(tile, &counts));
        }
    }
}

#[test]
fn scan_tiles_u32_matches_reference() {
    for stream in streams() {
        // 300,000 counts are several tiles of sums on a simulator's small blocks.
        for len in SIZES.into_iter().chain([300_000]) {
            let counts = counts_of(len, len as u64);
            let on_device = stream.upload(&counts).unwrap();
            let offsets = primitives::exclusive_scan_u32(&stream, &on_device).unwrap();
            assert_eq!(
                stream.download(&offsets).unwrap(),
                reference::exclusive_prefix_sum(&counts),
                "{len} counts"
            );
        }
    }
}

#[test]
fn scan_tiles_u64_matches_reference() {
    for stream in streams() {
        for len in SIZES {
            let counts: Vec<u64> = (0..len).map(|i| noise(4, i) >> 12).collect();
            let on_device = stream.upload(&counts).unwrap();
            let offsets = primitives::exclusive_scan_u64(&stream, &on_device).unwrap();
            let mut expected = vec![0u64];
            for count in &counts {
                expected.push(expected[expected.len() - 1] + count);
            }
            assert_eq!(stream.download(&offsets).unwrap(), expected, "{len} counts");
        }
    }
}

#[test]
fn sort_rows_matches_reference() {
    for stream in streams() {
        let lens = SIZES.into_iter().chain([
            2,
            3,
            64,
            100,
            sort::SHARED_LANE - 1,
            sort::SHARED_LANE,
            sort::SHARED_LANE + 1,
            5000,
        ]);
        let counts: Vec<u32> = lens.map(|len| len as u32).collect();
        let ptr = reference::exclusive_prefix_sum(&counts);
        let total = ptr[counts.len()] as usize;
        for modulus in [u64::from(u32::MAX) + 1, 7] {
            let idx: Vec<u32> = (0..total).map(|i| (noise(5, i) % modulus) as u32).collect();
            let on_device = stream.upload(&ptr).unwrap();
            let mut sorted = stream.upload(&idx).unwrap();
            // SAFETY: the offsets end within the indices.
            unsafe { primitives::sort_rows(&stream, &on_device, &mut sorted) }.unwrap();
            let mut expected = idx;
            for ends in ptr.windows(2) {
                expected[ends[0] as usize..ends[1] as usize].sort_unstable();
            }
            assert_eq!(stream.download(&sorted).unwrap(), expected);
        }
    }
}

#[test]
fn sort_rows_takes_a_row_of_100000() {
    // One device: the network is the same whatever the schedule, and long.
    let stream = &streams()[0];
    let idx: Vec<u32> = (0..100_000).map(|i| noise(6, i) as u32).collect();
    let ptr = stream.upload(&[0, idx.len() as u64]).unwrap();
    let mut sorted = stream.upload(&idx).unwrap();
    // SAFETY: the offsets end within the indices.
    unsafe { primitives::sort_rows(stream, &ptr, &mut sorted) }.unwrap();
    let mut expected = idx;
    expected.sort_unstable();
    assert_eq!(stream.download(&sorted).unwrap(), expected);
}

#[test]
fn sort_distinct_rows_matches_reference() {
    for stream in streams() {
        // Long ones on both sides of short ones, and one that uses every bit of its range.
        let lens = [
            sort::SHARED_LANE + 1,
            0,
            1,
            33,
            5000,
            7,
            4096,
            sort::SHARED_LANE,
        ];
        let counts: Vec<u32> = lens.iter().map(|&len| len as u32).collect();
        let ptr = reference::exclusive_prefix_sum(&counts);
        let mut idx = Vec::new();
        for (lane, &len) in lens.iter().enumerate() {
            let stride = if len == 4096 { 1 } else { 3 };
            let mut keys: Vec<u32> = (0..len as u32).map(|i| stride * i + 5).collect();
            keys.sort_unstable_by_key(|&key| noise(lane as u64, key as usize));
            idx.extend(keys);
        }
        let on_device = stream.upload(&ptr).unwrap();
        let mut sorted = stream.upload(&idx).unwrap();
        // SAFETY: the offsets end within the indices, which are distinct and below the bound.
        unsafe { primitives::sort_distinct_rows(&stream, 15_001, &on_device, &mut sorted) }
            .unwrap();
        assert_eq!(
            stream.download(&sorted).unwrap(),
            reference::sort_segments(&ptr, &idx)
        );
    }
}

struct Rows {
    ptr: Buffer<u64>,
    idx: Buffer<u32>,
}

fn upload(stream: &Stream, pattern: &CompressedPattern) -> Rows {
    Rows {
        ptr: stream.upload(pattern.ptr()).unwrap(),
        idx: stream.upload(pattern.idx()).unwrap(),
    }
}

#[test]
fn count_columns_matches_reference() {
    let check = |stream: &Stream, pattern: &CompressedPattern| {
        let rows = upload(stream, pattern);
        let mut counts = stream.alloc_zeroed::<u32>(pattern.minor_dim()).unwrap();
        let config = LaunchConfig::linear(2, 64);
        // SAFETY: `counts` is zero and has an element a column.
        unsafe { transpose::count_columns::launch(stream, &config, &rows.idx, &mut counts) }
            .unwrap();
        let columns = reference::transpose(pattern);
        let expected: Vec<u32> = columns.lanes().map(|lane| lane.len() as u32).collect();
        assert_eq!(stream.download(&counts).unwrap(), expected);
    };
    on_patterns(40, 20, check);
}

#[test]
fn place_rows_matches_reference() {
    let check = |stream: &Stream, pattern: &CompressedPattern| {
        let rows = upload(stream, pattern);
        let columns = reference::transpose(pattern);
        let col_ptr = stream.upload(columns.ptr()).unwrap();
        let mut taken = stream.alloc_zeroed::<u32>(pattern.minor_dim()).unwrap();
        let mut row_idx = stream.alloc::<u32>(pattern.nnz()).unwrap();
        let config = LaunchConfig::linear(2, 64);
        // SAFETY: `taken` is zero and the offsets are those of the columns.
        unsafe {
            transpose::place_rows::launch(
                stream,
                &config,
                &rows.ptr,
                &rows.idx,
                &col_ptr,
                &mut taken,
                &mut row_idx,
            )
        }
        .unwrap();
        // The order within a column is free.
        let placed = stream.download(&row_idx).unwrap();
        let placed = reference::sort_segments(columns.ptr(), &placed);
        assert_eq!(placed, columns.idx());
    };
    on_patterns(40, 20, check);
}

#[test]
fn map_entries_matches_reference() {
    let check = |stream: &Stream, pattern: &CompressedPattern| {
        let rows = upload(stream, pattern);
        // SAFETY: the pattern is valid and square.
        let (col_ptr, row_idx) = unsafe {
            primitives::transpose(stream, pattern.minor_dim(), &rows.ptr, &rows.idx).unwrap()
        };
        let (columns, csc_to_csr) = reference::transpose_with_map(pattern);
        assert_eq!(stream.download(&col_ptr).unwrap(), columns.ptr());
        assert_eq!(stream.download(&row_idx).unwrap(), columns.idx());
        // SAFETY: both patterns are valid, the columns sorted.
        let map = unsafe {
            primitives::map_entries(stream, &rows.ptr, &rows.idx, &col_ptr, &row_idx).unwrap()
        };
        let map = stream.download(&map).unwrap();
        let mut expected = vec![u64::MAX; map.len()];
        for (q, &p) in csc_to_csr.iter().enumerate() {
            expected[p as usize] = q as u64;
        }
        assert_eq!(map, expected);
    };
    on_patterns(40, 20, check);
    for stream in streams() {
        for (_, pattern) in named_patterns() {
            check(&stream, &pattern);
        }
    }
}

#[test]
fn map_entries_marks_what_is_missing() {
    for stream in streams() {
        // (0, 1) and (1, 0) looked up in a diagonal.
        let ptr = stream.upload(&[0u64, 1, 2]).unwrap();
        let idx = stream.upload(&[1u32, 0]).unwrap();
        let diagonal = stream.upload(&[0u32, 1]).unwrap();
        // SAFETY: both patterns are valid, the columns sorted.
        let map = unsafe { primitives::map_entries(&stream, &ptr, &idx, &ptr, &diagonal) }.unwrap();
        assert_eq!(stream.download(&map).unwrap(), [u64::MAX; 2]);
    }
}

#[test]
fn diagonal_positions_matches_reference() {
    let check = |stream: &Stream, pattern: &CompressedPattern| {
        let rows = upload(stream, pattern);
        // SAFETY: the rows are sorted.
        let found =
            unsafe { primitives::diagonal_positions(stream, &rows.ptr, &rows.idx) }.unwrap();
        let expected: Vec<u64> = (0..pattern.major_dim())
            .map(|i| {
                pattern
                    .range(i)
                    .find(|&p| pattern.idx()[p] as usize == i)
                    .map_or(u64::MAX, |p| p as u64)
            })
            .collect();
        assert_eq!(stream.download(&found).unwrap(), expected);
    };
    on_patterns(40, 20, check);
}

/// How the traversal kernels are launched in a test.
#[derive(Clone, Copy)]
struct Shape {
    slots: u32,
    threads: u32,
    lanes_log2: u32,
    /// Windows of `max_id` between two clears.
    windows: u32,
}

/// One slot that is cleared for each source; lanes and windows in between; as many windows as fit.
fn shapes(n: u32) -> [Shape; 3] {
    let shape = |slots, threads, lanes_log2, windows| Shape {
        slots,
        threads,
        lanes_log2,
        windows,
    };
    let most = fill2_kernels::max_windows(n);
    [
        shape(1, 32, 5, 1),
        shape(2, 64, 2, 2.min(most)),
        shape(3, 32, 0, most),
    ]
}

/// The filled rows by the two kernels, stage by stage: counts, then each row in increasing order.
fn traverse(stream: &Stream, pattern: &CompressedPattern, shape: Shape) -> (Vec<u32>, Vec<u32>) {
    let n = pattern.major_dim();
    let rows = upload(stream, pattern);
    let vertices = shape.slots as usize * n;
    let words = shape.slots as usize * 2 * fill2_kernels::queued_words(n);
    // What is in the slots must not matter.
    let mut max_id = stream.upload(&vec![0u32; vertices]).unwrap();
    let mut fill = stream.upload(&vec![u32::MAX; vertices]).unwrap();
    let mut queues = stream.alloc::<u32>(2 * vertices).unwrap();
    let mut queued = stream.upload(&vec![u32::MAX; words]).unwrap();
    let mut next_source = stream.alloc_zeroed::<u64>(1).unwrap();
    let mut counts = stream.alloc::<u32>(n).unwrap();
    let config = LaunchConfig::linear(shape.slots, shape.threads);
    // SAFETY: there is a slot a block; the pattern is valid; the counter holds the first source.
    unsafe {
        fill2_kernels::fill2_count::launch(
            stream,
            &config,
            n as u32,
            n as u64,
            shape.lanes_log2,
            shape.windows,
            &rows.ptr,
            &rows.idx,
            &mut next_source,
            &mut max_id,
            &mut fill,
            &mut queues,
            &mut queued,
            &mut counts,
        )
    }
    .unwrap();
    let counts = stream.download(&counts).unwrap();
    let filled_ptr = reference::exclusive_prefix_sum(&counts);
    let on_device = stream.upload(&filled_ptr).unwrap();
    let mut filled_idx = stream.alloc::<u32>(filled_ptr[n] as usize).unwrap();
    stream.fill_zero(&mut next_source).unwrap();
    // SAFETY: as above, and the offsets are those of the counts.
    unsafe {
        fill2_kernels::fill2_positions::launch(
            stream,
            &config,
            n as u32,
            n as u64,
            shape.lanes_log2,
            shape.windows,
            &rows.ptr,
            &rows.idx,
            &on_device,
            &mut next_source,
            &mut max_id,
            &mut fill,
            &mut queues,
            &mut queued,
            &mut filled_idx,
        )
    }
    .unwrap();
    let filled_idx = stream.download(&filled_idx).unwrap();
    let filled_idx = reference::sort_segments(&filled_ptr, &filled_idx);
    (counts, filled_idx)
}

#[test]
fn fill2_count_matches_reference() {
    on_patterns(24, 24, |stream, pattern| {
        if pattern.major_dim() > 0 {
            let expected = reference_symbolic::fill2_count(pattern);
            for shape in shapes(pattern.major_dim() as u32) {
                assert_eq!(traverse(stream, pattern, shape).0, expected);
            }
        }
    });
}

#[test]
fn fill2_positions_matches_reference() {
    let check = |stream: &Stream, pattern: &CompressedPattern, expected: &FilledPattern| {
        for shape in shapes(pattern.major_dim() as u32) {
            let (_, columns) = traverse(stream, pattern, shape);
            assert_eq!(columns, expected.rows().idx());
        }
    };
    on_patterns(24, 24, |stream, pattern| {
        if pattern.major_dim() > 0 {
            let expected = reference_symbolic::fill_by_path_theorem(pattern);
            check(stream, pattern, &expected);
        }
    });
    for stream in streams() {
        for (_, pattern) in named_patterns() {
            if (1..200).contains(&pattern.major_dim()) {
                let expected = reference_symbolic::fill2_max_id(&pattern);
                check(&stream, &pattern, &expected);
            }
        }
    }
}

#[test]
fn windows_fit_below_the_cleared_value() {
    assert_eq!(fill2_kernels::max_windows(0), 0);
    for n in [1, 2, 3, 1_585_478, u32::MAX - 1] {
        let windows = fill2_kernels::max_windows(n);
        assert!(windows >= 1);
        let largest = u64::from(windows - 1) * u64::from(n) + u64::from(n - 1);
        assert!(largest < u64::from(u32::MAX));
    }
    assert_eq!(fill2_kernels::max_windows(1_585_478), 2708);
}

#[test]
#[should_panic(expected = "windows <= max_windows")]
fn too_many_windows_are_a_broken_call() {
    let stream = &streams()[0];
    let pattern = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 1]).unwrap();
    let shape = Shape {
        slots: 1,
        threads: 32,
        lanes_log2: 0,
        windows: fill2_kernels::max_windows(2) + 1,
    };
    traverse(stream, &pattern, shape);
}

/// Everything that the phase leaves on the device, against the host's reading of the pattern.
fn assert_phase(stream: &Stream, device: &DeviceFilled, expected: &FilledPattern) {
    assert_same_filled(&device.download(stream).unwrap(), expected);
    assert_eq!(
        stream.download(device.diag_pos()).unwrap(),
        expected.diag_pos()
    );
    let (columns, csc_to_csr) = reference::transpose_with_map(expected.rows());
    assert_eq!(stream.download(device.col_ptr()).unwrap(), columns.ptr());
    assert_eq!(stream.download(device.row_idx()).unwrap(), columns.idx());
    let csr_to_csc = stream.download(device.csr_to_csc()).unwrap();
    assert!((0..csc_to_csr.len()).all(|q| csr_to_csc[csc_to_csr[q] as usize] == q as u64));
    let statistics = device.statistics(stream).unwrap();
    assert_eq!(statistics.lnz, expected.lnz() as u64);
    assert_eq!(statistics.unz, expected.unz() as u64);
    assert_eq!(statistics.flops, expected.flops());
}

#[test]
fn fill2_phase_matches_reference() {
    for stream in streams() {
        for (name, pattern) in named_patterns() {
            eprintln!("{name}");
            let expected = cpu::filled_pattern(&pattern).unwrap();
            let device = fill2(&stream, &pattern, &Fill2Options::default()).unwrap();
            assert_phase(&stream, &device, &expected);
            let uploaded = DeviceFilled::upload(&stream, &expected).unwrap();
            assert_phase(&stream, &uploaded, &expected);
        }
    }
    on_patterns(30, 12, |stream, pattern| {
        let device = fill2(stream, pattern, &Fill2Options::default()).unwrap();
        let expected = reference_symbolic::dense_boolean_elimination(pattern);
        assert_phase(stream, &device, &expected);
    });
}

#[test]
fn the_smallest_budget_gives_the_same_pattern() {
    let pattern = pattern_of(&circuit(80, 2));
    let expected = cpu::filled_pattern(&pattern).unwrap();
    let one = slot_bytes(pattern.major_dim());
    for stream in streams() {
        for (budget, slots) in [(one, 1), (2 * one - 1, 1), (2 * one, 2)] {
            let options = Fill2Options {
                budget_bytes: Some(budget),
                ..Fill2Options::default()
            };
            let device = fill2(&stream, &pattern, &options).unwrap();
            assert_eq!(device.concurrent_sources(), slots);
            assert_phase(&stream, &device, &expected);
        }
        let options = Fill2Options {
            budget_bytes: Some(one - 1),
            ..Fill2Options::default()
        };
        let refused = fill2(&stream, &pattern, &options);
        assert!(matches!(
            refused,
            Err(SymbolicError::OutOfMemory { asked, available, .. })
                if asked == one && available == one - 1
        ));
    }
}

#[test]
fn one_source_at_a_time_gives_the_same_pattern() {
    let pattern = pattern_of(&convection_diffusion_2d(8, 8, 1.0));
    let expected = cpu::filled_pattern(&pattern).unwrap();
    for stream in streams() {
        let options = Fill2Options {
            max_sources: Some(1),
            ..Fill2Options::default()
        };
        let device = fill2(&stream, &pattern, &options).unwrap();
        assert_eq!(device.concurrent_sources(), 1);
        assert_phase(&stream, &device, &expected);
    }
}

#[test]
fn the_flag_stops_the_phase() {
    let pattern = pattern_of(&circuit(40, 3));
    let cancel = CancelFlag::new();
    cancel.cancel();
    let options = Fill2Options {
        cancel,
        ..Fill2Options::default()
    };
    for stream in streams() {
        let stopped = fill2(&stream, &pattern, &options);
        assert!(matches!(stopped, Err(SymbolicError::Cancelled(_))));
    }
}

#[test]
#[should_panic(expected = "square pattern")]
fn a_rectangle_is_a_broken_call() {
    let pattern = CompressedPattern::new(3, vec![0, 1, 2], vec![0, 2]).unwrap();
    let _ = fill2(&streams()[0], &pattern, &Fill2Options::default());
}

#[test]
fn corpus_patterns_match_the_reference() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    for stream in seeded_streams() {
        for (name, rows) in ordered_corpus(&corpus, &stream) {
            let pattern = rows.pattern;
            let expected = cpu::filled_pattern(&pattern).unwrap();
            let device = fill2(&stream, &pattern, &Fill2Options::default()).unwrap();
            eprintln!("{name}: {} entries", device.nnz());
            assert_same_filled(&device.download(&stream).unwrap(), &expected);
        }
    }
}
