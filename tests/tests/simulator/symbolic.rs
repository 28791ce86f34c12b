//! The symbolic kernels and the phase built on them against the reference, on every device.

use luge_device::{Backend, Buffer, LaunchConfig, Stream};
use luge_gpu_kernels::symbolic::fill2::{self as fill2_kernels, BatchBuffers, FrontiersBuffers};
use luge_gpu_kernels::symbolic::merge;
use luge_gpu_kernels::{scan, sort, transpose};
use luge_reference::{primitives as reference, symbolic as reference_symbolic};
use luge_sparse::{CancelFlag, CompressedPattern, FilledPattern};
use luge_symbolic::gpu::{
    DeviceFilled, Fill2Options, Fill2Report, Parallelism, Stages, fill2, fill2_on, primitives,
    smallest_budget,
};
use luge_symbolic::{SymbolicError, cpu};
use luge_testkit::compare::assert_same_filled;
use luge_testkit::convert::pattern_of;
use luge_testkit::corpus::Corpus;
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};
use luge_testkit::strategies::patterns;

use crate::chain::{QUICK, SIZES, SLOW, noise, on_each, ordered_patterns, seeded_streams, streams};

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
        // Long ones on both sides of short ones, more than blocks of a simulator, and one that uses every bit of its
        // range.
        let lens = [
            sort::SHARED_LANE + 1,
            sort::SHARED_LANE + 2,
            sort::SHARED_LANE + 3,
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
        for (line, &len) in lens.iter().enumerate() {
            let stride = if len == 4096 { 1 } else { 3 };
            // Those of one long row are not those of another.
            let first = 5 + line as u32 % 3;
            let mut keys: Vec<u32> = (0..len as u32).map(|i| stride * i + first).collect();
            keys.sort_unstable_by_key(|&key| noise(line as u64, key as usize));
            idx.extend(keys);
        }
        let on_device = stream.upload(&ptr).unwrap();
        let mut sorted = stream.upload(&idx).unwrap();
        // SAFETY: the offsets end within the indices, which are distinct and below the bound.
        unsafe { primitives::sort_distinct_rows(&stream, 15_005, &on_device, &mut sorted) }
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
        let expected: Vec<u32> = columns.lines().map(|line| line.len() as u32).collect();
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
    /// Sources of a batch.
    sources: usize,
    blocks: u32,
    threads: u32,
    /// Entries of each queue on the device, and of the spill segment; the others are found by their bits.
    capacity: usize,
    spill: usize,
    /// Longest row that a warp walks with others.
    long_row: u32,
    fill_first: bool,
    /// Windows of labels between two clears.
    windows: u32,
    /// Words of the log of entries.
    log: usize,
}

/// One source at a time, all of it spilled, cleared for each, each row long; something in between, without and
/// with room for all frontiers; all at once, all frontiers found by their bits; all at once.
fn shapes(n: usize) -> [Shape; 5] {
    let most = fill2_kernels::max_windows(n as u32);
    let some = Shape {
        sources: 5,
        blocks: 2,
        threads: 64,
        capacity: 7,
        spill: 4,
        long_row: 4,
        fill_first: false,
        windows: 2.min(most),
        log: 20,
    };
    let all = Shape {
        sources: n,
        blocks: 3,
        threads: 64,
        capacity: n * n,
        spill: 0,
        long_row: fill2_kernels::MAX_LONG_ROW,
        fill_first: false,
        windows: most,
        log: n * n + 1,
    };
    [
        Shape {
            sources: 1,
            blocks: 1,
            threads: 32,
            capacity: 0,
            spill: n,
            long_row: 0,
            fill_first: true,
            windows: 1,
            log: 0,
        },
        some,
        Shape {
            spill: 5 * n,
            ..some
        },
        Shape { capacity: 0, ..all },
        all,
    ]
}

/// What the two stages of the traversal find.
struct Traversed {
    counts: Vec<u32>,
    /// Each row in increasing order.
    columns: Vec<u32>,
    /// Entries that the log was offered, and those that it has.
    logged: (u64, Vec<u64>),
    /// Entries that stood in the spill segment.
    spilled: u64,
    /// Iterations whose frontier was found by its bits.
    rescans: u64,
}

/// The filled rows by the two kernels, stage by stage.
fn traverse(stream: &Stream, pattern: &CompressedPattern, shape: Shape) -> Traversed {
    let n = pattern.major_dim();
    let rows = upload(stream, pattern);
    let labels = shape.sources * n;
    let mut label_words = stream.alloc::<u32>(labels).unwrap();
    let mut queue = stream.alloc::<u64>(2 * shape.capacity).unwrap();
    let mut spill = stream.alloc_mapped::<u64>(2 * shape.spill).unwrap();
    let mut control = stream.alloc(fill2_kernels::CONTROL_WORDS).unwrap();
    let mut barrier = primitives::grid_barrier(stream).unwrap();
    let mut queued = stream
        .alloc_zeroed(fill2_kernels::queued_words(labels))
        .unwrap();
    let mut above = stream.alloc(labels.div_ceil(32)).unwrap();
    let mut log = stream.alloc_zeroed::<u64>(shape.log).unwrap();
    let mut counts = stream.alloc_zeroed::<u32>(n).unwrap();
    // Every vertex has a label and a mark in every slot.
    let slots: Vec<u64> = (0..shape.sources as u64)
        .flat_map(|slot| [slot * n as u64; 2])
        .collect();
    let slots = stream.upload(&slots).unwrap();
    let config = LaunchConfig::linear(shape.blocks, shape.threads).cooperative();
    let mut filled: Option<(Buffer<u64>, Buffer<u32>)> = None;
    let mut windows = 0;
    let (mut spilled, mut rescans) = (0, 0);
    for _stage in 0..2 {
        for first in (0..n).step_by(shape.sources) {
            if windows == 0 {
                windows = shape.windows;
                stream.fill_bytes(&mut label_words, 0xff).unwrap();
            }
            windows -= 1;
            stream.fill_zero(&mut above).unwrap();
            stream.fill_zero(&mut control).unwrap();
            stream.fill_zero(&mut barrier).unwrap();
            let sources = shape.sources.min(n - first) as u32;
            let batch = BatchBuffers {
                first_source: first as u32,
                num_sources: sources,
                stride: fill2_kernels::CHUNK,
                offset: 0,
                base: windows * n as u32,
                row_ptr: &rows.ptr,
                col_idx: &rows.idx,
                slots: &slots,
                labels: &mut label_words,
                above: &mut above,
                queue: &mut queue,
                spill: &mut spill,
            };
            let frontiers = FrontiersBuffers {
                fill_first: shape.fill_first.into(),
                long_row: shape.long_row,
                queued: &mut queued,
                control: &mut control,
                barrier: &mut barrier,
            };
            // SAFETY: the pattern is valid, and each slot has a label and a mark for each vertex.
            let launched = unsafe {
                match &mut filled {
                    None => fill2_kernels::fill2_count::launch(
                        stream,
                        &config,
                        batch,
                        frontiers,
                        &mut counts,
                        &mut log,
                    ),
                    Some((filled_ptr, filled_idx)) => fill2_kernels::fill2_positions::launch(
                        stream,
                        &config,
                        batch,
                        frontiers,
                        filled_ptr,
                        &mut counts,
                        filled_idx,
                    ),
                }
            };
            launched.unwrap();
            let control = stream.download(&control).unwrap();
            spilled += control[fill2_kernels::CONTROL_SPILLED];
            rescans += control[fill2_kernels::CONTROL_RESCANS];
            // What the next batch relies on.
            let queued = stream.download(&queued).unwrap();
            assert!(queued.iter().all(|&word| word == 0));
        }
        if filled.is_none() {
            let filled_ptr = reference::exclusive_prefix_sum(&stream.download(&counts).unwrap());
            let filled_idx = stream.alloc(filled_ptr[n] as usize).unwrap();
            filled = Some((stream.upload(&filled_ptr).unwrap(), filled_idx));
            stream.fill_zero(&mut counts).unwrap();
        }
    }
    let (filled_ptr, filled_idx) = filled.expect("the first stage is done");
    let filled_ptr = stream.download(&filled_ptr).unwrap();
    let filled_idx = stream.download(&filled_idx).unwrap();
    let logged = if shape.log > 0 {
        let offered = stream.download(&log.slice(..1)).unwrap()[0];
        let has = (shape.log as u64 - 1).min(offered) as usize;
        (offered, stream.download(&log.slice(1..=has)).unwrap())
    } else {
        (0, Vec::new())
    };
    Traversed {
        // The second stage has taken as many places as the first counted.
        counts: stream.download(&counts).unwrap(),
        columns: reference::sort_segments(&filled_ptr, &filled_idx),
        logged,
        spilled,
        rescans,
    }
}

#[test]
fn fill2_count_matches_reference() {
    on_patterns(24, 10, |stream, pattern| {
        if pattern.major_dim() > 0 {
            let expected = reference_symbolic::fill2_count(pattern);
            for shape in shapes(pattern.major_dim()) {
                assert_eq!(traverse(stream, pattern, shape).counts, expected);
            }
        }
    });
}

#[test]
fn fill2_positions_matches_reference() {
    let check = |stream: &Stream, pattern: &CompressedPattern, expected: &FilledPattern| {
        for shape in shapes(pattern.major_dim()) {
            let found = traverse(stream, pattern, shape);
            assert_eq!(found.columns, expected.rows().idx());
            // The log of the first stage: all entries if it has room, else some of them, each once.
            let (offered, mut log) = found.logged;
            if shape.log > 0 {
                assert_eq!(offered as usize, expected.nnz());
                assert_eq!(log.len(), expected.nnz().min(shape.log - 1));
            }
            log.sort_unstable();
            assert!(log.windows(2).all(|pair| pair[0] < pair[1]));
            for entry in log {
                let (row, column) = ((entry >> 32) as usize, entry as u32);
                assert!(expected.rows().line(row).binary_search(&column).is_ok());
            }
        }
    };
    on_patterns(24, 10, |stream, pattern| {
        if pattern.major_dim() > 0 {
            let expected = reference_symbolic::fill_by_path_theorem(pattern);
            check(stream, pattern, &expected);
        }
    });
    for stream in streams() {
        for (name, pattern) in named_patterns() {
            if (2..50).contains(&pattern.major_dim()) {
                eprintln!("{name}");
                let expected = reference_symbolic::fill2_max_id(&pattern);
                check(&stream, &pattern, &expected);
            }
        }
    }
}

/// More long rows at once than a block sets aside, of more entries than a warp has lanes.
#[test]
fn long_rows_that_no_block_sets_aside_are_walked_by_warps() {
    let n = 80;
    let mut idx: Vec<u32> = Vec::new();
    for i in 0..n {
        let mut row: Vec<u32> = (0..40).map(|k| ((i * 3 + k * 7) % n) as u32).collect();
        row.sort_unstable();
        idx.extend(row);
    }
    let ptr = (0..=n as u64).map(|i| 40 * i).collect();
    let pattern = CompressedPattern::new(n, ptr, idx).unwrap();
    let shape = Shape {
        blocks: 1,
        long_row: 32,
        ..shapes(n)[4]
    };
    let found = traverse(&streams()[0], &pattern, shape);
    let expected = reference_symbolic::fill2_max_id(&pattern);
    assert_eq!(found.columns, expected.rows().idx());
}

#[test]
fn frontiers_without_a_place_on_the_device_come_back() {
    let pattern = pattern_of(&convection_diffusion_2d(8, 8, 1.0));
    let expected = reference_symbolic::fill2_max_id(&pattern);
    let all = 20 * 64;
    for stream in streams() {
        let with = |capacity, spill| {
            let shape = Shape {
                sources: 20,
                blocks: 3,
                threads: 64,
                capacity,
                spill,
                long_row: 3,
                fill_first: false,
                windows: 2,
                log: 0,
            };
            let found = traverse(&stream, &pattern, shape);
            assert_eq!(found.columns, expected.rows().idx());
            (found.spilled, found.rescans)
        };
        assert_eq!(with(all, 0), (0, 0));
        let (spilled, rescans) = with(10, all);
        assert!(spilled > 0 && rescans == 0);
        let (spilled, rescans) = with(10, 40);
        assert!(spilled > 0 && rescans > 0);
        let (spilled, rescans) = with(10, 0);
        assert!(spilled == 0 && rescans > 0);
    }
}

#[test]
fn fill2_place_matches_reference() {
    for stream in streams() {
        let pattern = pattern_of(&circuit(60, 5));
        let expected = reference_symbolic::fill2_max_id(&pattern);
        let n = expected.n();
        let rows = expected.rows();
        // Word 0 is no entry; the entries come in any order, one more than is asked for.
        let mut log = vec![u64::MAX];
        for (i, row) in rows.lines().enumerate() {
            log.extend(row.iter().map(|&j| (i as u64) << 32 | u64::from(j)));
        }
        log[1..].sort_unstable_by_key(|&entry| noise(9, entry as usize ^ (entry >> 32) as usize));
        log.push(0);
        let log = stream.upload(&log).unwrap();
        let filled_ptr = stream.upload(rows.ptr()).unwrap();
        let mut taken = stream.alloc_zeroed::<u32>(n).unwrap();
        let mut filled_idx = stream.alloc::<u32>(expected.nnz()).unwrap();
        // SAFETY: the log has that many entries, and the offsets are those of the rows.
        unsafe {
            fill2_kernels::fill2_place::launch(
                &stream,
                &LaunchConfig::linear(2, 96),
                expected.nnz() as u64,
                &log,
                &filled_ptr,
                &mut taken,
                &mut filled_idx,
            )
        }
        .unwrap();
        let placed = stream.download(&filled_idx).unwrap();
        assert_eq!(reference::sort_segments(rows.ptr(), &placed), rows.idx());
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
#[should_panic(expected = "precondition does not hold: u64 :: from(batch.base)")]
fn a_window_past_the_cleared_value_is_a_broken_call() {
    let stream = &streams()[0];
    let pattern = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 1]).unwrap();
    let shape = Shape {
        windows: fill2_kernels::max_windows(2) + 1,
        ..shapes(2)[0]
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

/// The ways to walk.
fn modes() -> [Fill2Options; 5] {
    let of = |stages, parallelism, fill_first, host_budget_bytes| Fill2Options {
        stages,
        parallelism,
        fill_first,
        host_budget_bytes,
        ..Fill2Options::default()
    };
    let (fine, coarse) = (Parallelism::Fine, Parallelism::Coarse);
    [
        of(Stages::Two, fine, false, None),
        of(Stages::Fused, fine, false, None),
        of(Stages::Two, fine, true, Some(200)),
        of(Stages::Two, fine, false, Some(1 << 20)),
        of(Stages::Two, coarse, false, None),
    ]
}

/// Runs the phase and compares all that it leaves.
fn phase(
    stream: &Stream,
    pattern: &CompressedPattern,
    options: &Fill2Options,
    expected: &FilledPattern,
) -> Fill2Report {
    let (device, report) = fill2(stream, pattern, options).unwrap();
    assert_phase(stream, &device, expected);
    report
}

#[test]
fn fill2_phase_matches_reference() {
    for stream in streams() {
        for (name, pattern) in named_patterns() {
            eprintln!("{name}");
            let expected = cpu::filled_pattern(&pattern).unwrap();
            let report = phase(&stream, &pattern, &Fill2Options::default(), &expected);
            assert_eq!(report.fused_rows as usize, expected.n());
            assert_eq!(report.pool.max_sources as usize, expected.n());
            let uploaded = DeviceFilled::upload(&stream, &expected).unwrap();
            assert_phase(&stream, &uploaded, &expected);
        }
    }
    on_patterns(24, 12, |stream, pattern| {
        let expected = reference_symbolic::dense_boolean_elimination(pattern);
        for options in modes() {
            phase(stream, pattern, &options, &expected);
        }
    });
}

#[test]
fn any_budget_gives_the_same_pattern() {
    for pattern in [
        pattern_of(&circuit(48, 2)),
        pattern_of(&convection_diffusion_2d(6, 5, 1.0)),
    ] {
        let expected = cpu::filled_pattern(&pattern).unwrap();
        for (schedule, stream) in streams().into_iter().enumerate() {
            for (at, mode) in modes().into_iter().enumerate() {
                // After the first schedule they take turns.
                if schedule > 0 && (schedule + at) % 2 == 0 {
                    continue;
                }
                let smallest = smallest_budget(&pattern, &mode);
                // In between, a log of half the entries.
                let between = smallest + 16 * expected.nnz() as u64;
                for budget in [smallest, smallest + 500, between] {
                    let options = Fill2Options {
                        budget_bytes: Some(budget),
                        max_sources: Some(10),
                        ..mode.clone()
                    };
                    let report = phase(&stream, &pattern, &options, &expected);
                    assert!(report.pool.arena_bytes <= budget);
                    assert!(report.pool.peak_bytes <= report.pool.arena_bytes);
                    if budget == smallest && mode.parallelism == Parallelism::Fine {
                        let host = mode.host_budget_bytes.unwrap_or(0);
                        assert_eq!(report.pool.spilled_entries > 0, host > 0);
                        assert!(report.pool.rescans == 0 || host < 1 << 20);
                        assert!(report.pool.rescans > 0 || host > 0);
                        assert!((0..=host).contains(&report.pool.host_bytes));
                        assert_eq!(report.log_bytes, 0);
                    }
                    if budget == between && mode.stages == Stages::Fused {
                        assert!((1..expected.n() as u64).contains(&report.fused_rows));
                    }
                }
            }
        }
    }
}

#[test]
fn one_byte_below_the_smallest_budget_is_refused_with_its_size() {
    let pattern = pattern_of(&circuit(40, 2));
    let stream = &streams()[0];
    for host in [0, 100, 1 << 20] {
        let with = |budget| Fill2Options {
            budget_bytes: Some(budget),
            host_budget_bytes: Some(host),
            ..Fill2Options::default()
        };
        let smallest = smallest_budget(&pattern, &with(0));
        let (_, report) = fill2(stream, &pattern, &with(smallest)).unwrap();
        assert_eq!(report.pool.arena_bytes, smallest);
        assert!(report.pool.host_bytes <= host);
        let refused = fill2(stream, &pattern, &with(smallest - 1));
        assert!(matches!(
            refused,
            Err(SymbolicError::OutOfMemory { asked, available, .. })
                if asked == smallest && available == smallest - 1
        ));
    }
}

#[test]
fn the_budget_is_obeyed_to_the_byte() {
    // Much to walk and little to write, so that the walk is what takes memory.
    let n = 128;
    let mut ptr = vec![0u64];
    let mut idx = Vec::new();
    for i in 0..n as u32 {
        idx.extend([i.saturating_sub(1), i, (i + 1).min(n as u32 - 1)]);
        let start = ptr[i as usize] as usize;
        let mut row = idx.split_off(start);
        row.dedup();
        idx.extend(row);
        ptr.push(idx.len() as u64);
    }
    let pattern = CompressedPattern::new(n, ptr, idx).unwrap();
    let stream = &streams()[0];
    let device = stream.device();
    for budget in [5_000, 15_000, 25_000] {
        let options = Fill2Options {
            budget_bytes: Some(budget),
            stages: Stages::Fused,
            ..Fill2Options::default()
        };
        device.reset_peak();
        let before = device.allocated_bytes();
        let (filled, report) = fill2(stream, &pattern, &options).unwrap();
        let (n, nnz, lu) = (n as u64, pattern.nnz() as u64, filled.nnz() as u64);
        // The pattern, counts, offsets, columns, and what a prefix sum of n counts needs.
        let inputs_and_outputs = 8 * (n + 1) + 4 * nnz + 4 * n + 8 * (n + 1) + 4 * lu;
        let peak = device.peak_bytes() - before;
        assert!(peak <= budget + inputs_and_outputs, "{peak} bytes");
        // And it was used.
        assert!(peak > budget - 8, "{peak} bytes of {budget}");
        assert!(report.pool.arena_bytes <= budget && report.pool.arena_bytes > budget - 8);
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
        let report = phase(&stream, &pattern, &options, &expected);
        assert_eq!((report.pool.max_sources, report.pool.batches), (1, 64));
    }
}

#[test]
fn a_vertex_enters_a_queue_once() {
    // The last source reaches 1 to n−2 at once, and these vertex 0, whose label falls again and again
    // in one iteration; its row is walked once all the same.
    let n = 100;
    let mut ptr = vec![0u64, 1];
    let mut idx = vec![0u32];
    for i in 1..n - 1 {
        idx.extend([0, i]);
        ptr.push(idx.len() as u64);
    }
    idx.extend(1..n);
    ptr.push(idx.len() as u64);
    let pattern = CompressedPattern::new(n as usize, ptr, idx).unwrap();
    for stream in streams() {
        let (_, report) = fill2(&stream, &pattern, &Fill2Options::default()).unwrap();
        let m = u64::from(n) - 2;
        // Row 0 from itself; from 1 to n−2 the own row and row 0; from the last the own row, the
        // rows of 1 to n−2, and row 0.
        assert_eq!(report.traversed_edges, 1 + 3 * m + (m + 1) + 2 * m + 1);
        assert_eq!((report.pool.iterations, report.pool.batches), (3, 1));
        assert_eq!(report.pool.peak_entries, 2 * m);
    }
}

#[test]
fn fusing_walks_once_what_two_stages_walk_twice() {
    // Each edge out of what a source reaches is walked at least once; how often a label falls depends
    // on the schedule.
    let pattern = pattern_of(&convection_diffusion_2d(6, 6, 1.0));
    let stream = &streams()[0];
    let [two, fused, ..] = modes();
    let (_, two) = fill2(stream, &pattern, &two).unwrap();
    let (_, fused) = fill2(stream, &pattern, &fused).unwrap();
    // Source i reaches all before it.
    let degrees: Vec<u64> = pattern.lines().map(|row| row.len() as u64).collect();
    let least: u64 = (0..36).map(|i| degrees[..=i].iter().sum::<u64>()).sum();
    assert!(fused.traversed_edges >= least && two.traversed_edges >= 2 * least);
    assert!(two.traversed_edges > fused.traversed_edges);
}

#[test]
fn add_offsets_matches_reference() {
    for stream in streams() {
        for len in SIZES {
            let numbers = |seed| (0..len).map(|i| noise(seed, i) >> 8).collect::<Vec<u64>>();
            let (a, b) = (numbers(1), numbers(2));
            let (ptr, mut sum) = (stream.upload(&a).unwrap(), stream.upload(&b).unwrap());
            for config in [LaunchConfig::linear(1, 32), LaunchConfig::linear(3, 64)] {
                // SAFETY: the lengths are the same.
                unsafe { merge::add_offsets::launch(&stream, &config, &ptr, &mut sum).unwrap() };
            }
            let sums = a.iter().zip(&b).map(|(a, b)| b + 2 * a);
            assert_eq!(stream.download(&sum).unwrap(), sums.collect::<Vec<u64>>());
        }
    }
}

#[test]
fn place_own_rows_matches_reference() {
    // Empty rows, rows of less than a warp, of a warp, and of more.
    let lens: Vec<u32> = (0..70).map(|i| [0, 1, 31, 32, 33, 70, 0][i % 7]).collect();
    let ptr = reference::exclusive_prefix_sum(&lens);
    for stream in streams() {
        for devices in [1, 2, 3] {
            let mut idx = stream.alloc::<u32>(ptr[70] as usize).unwrap();
            let all = stream.upload(&ptr).unwrap();
            for device in 0..devices {
                let is_own = |row: usize| row % devices == device;
                let own: Vec<u32> = (0..70)
                    .map(|row| if is_own(row) { lens[row] } else { 0 })
                    .collect();
                let own_ptr = reference::exclusive_prefix_sum(&own);
                let own_rows = (0..70).filter(|&row| is_own(row));
                let own_idx: Vec<u32> = own_rows
                    .flat_map(|row| ptr[row] as u32..ptr[row + 1] as u32)
                    .collect();
                let (own_ptr, own_idx) = (
                    stream.upload(&own_ptr).unwrap(),
                    stream.upload(&own_idx).unwrap(),
                );
                let config = LaunchConfig::linear(2, 64);
                // SAFETY: the offsets are those of the rows, and the places of all rows are apart.
                unsafe {
                    merge::place_own_rows::launch(
                        &stream, &config, &own_ptr, &own_idx, &all, &mut idx,
                    )
                    .unwrap()
                };
            }
            // Each entry is the number of its place.
            let places: Vec<u32> = (0..ptr[70] as u32).collect();
            assert_eq!(stream.download(&idx).unwrap(), places);
        }
    }
}

/// Streams on as many devices of their own.
fn group(count: usize) -> Vec<Stream> {
    let devices = luge_tests::group(count);
    let streams = devices.iter().map(|device| device.create_stream().unwrap());
    streams.collect()
}

#[test]
fn devices_share_the_sources_and_the_pattern_is_the_same() {
    // Several chunks of sources for each device; and fewer than there are devices.
    for pattern in [
        pattern_of(&convection_diffusion_2d(17, 16, 1.0)),
        pattern_of(&circuit(20, 1)),
    ] {
        let expected = cpu::filled_pattern(&pattern).unwrap();
        for count in [1, 2, 3, 5] {
            let streams = group(count);
            for (at, mode) in modes().into_iter().enumerate() {
                // They take turns, but for the two that log entries or do not.
                if (count + at) % 3 > 0 && (count != 3 || at > 1) {
                    continue;
                }
                let smallest = smallest_budget(&pattern, &mode);
                for budget_bytes in [None, Some(smallest + 16 * expected.nnz() as u64)] {
                    let options = Fill2Options {
                        budget_bytes,
                        // So that a log with room for some of the entries has those of whole batches.
                        max_sources: budget_bytes.map(|_| 10),
                        ..mode.clone()
                    };
                    let (filled, report) = fill2_on(&streams, &pattern, &options).unwrap();
                    assert_phase(&streams[0], &filled, &expected);
                    assert_eq!(report.devices, count);
                    let is_fused = mode.stages == Stages::Fused;
                    if budget_bytes.is_none() {
                        assert_eq!(
                            report.fused_rows as usize,
                            if is_fused { expected.n() } else { 0 }
                        );
                    } else {
                        // What one of them has no room for is not what another one has.
                        assert_eq!(report.fused_rows > 0, is_fused, "{options:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_stops_one_device_stops_all() {
    let pattern = pattern_of(&convection_diffusion_2d(17, 16, 1.0));
    let streams = group(3);
    // The second one has no memory.
    streams[1].device().set_budget(Some(1000));
    let stopped = fill2_on(&streams, &pattern, &Fill2Options::default());
    assert!(
        matches!(
            stopped,
            Err(SymbolicError::Device(_) | SymbolicError::OutOfMemory { .. })
        ),
        "{stopped:?}"
    );
    let held = streams
        .iter()
        .map(|stream| stream.device().allocated_bytes());
    assert_eq!(held.collect::<Vec<_>>(), [0; 3]);
    let cancel = CancelFlag::new();
    cancel.cancel();
    let options = Fill2Options {
        cancel,
        ..Fill2Options::default()
    };
    let stopped = fill2_on(&streams, &pattern, &options);
    assert!(matches!(stopped, Err(SymbolicError::Cancelled(_))));
}

/// Those of a group that could go on do not walk to the end for nothing.
#[test]
fn a_device_stops_walking_when_another_one_has_failed() {
    let pattern = pattern_of(&convection_diffusion_2d(40, 34, 1.0));
    let streams = group(2);
    streams[1].device().set_budget(Some(1000));
    let options = Fill2Options {
        stages: Stages::Two,
        max_sources: Some(1),
        ..Fill2Options::default()
    };
    let before = streams[0].device().transfers().to_device_bytes;
    let stopped = fill2_on(&streams, &pattern, &options);
    // Not that the first one was told to stop.
    assert!(
        matches!(
            stopped,
            Err(SymbolicError::Device(_) | SymbolicError::OutOfMemory { .. })
        ),
        "{stopped:?}"
    );
    let moved = streams[0].device().transfers().to_device_bytes - before;
    let of_pattern = 8 * (pattern.major_dim() as u64 + 1) + 4 * pattern.nnz() as u64;
    // A batch of one source has two words; in two stages there are as many batches as sources.
    let words_of_all = 8 * 2 * pattern.major_dim() as u64;
    assert!(moved < of_pattern + words_of_all / 2, "{moved} bytes");
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

/// Entries of L+U up to which the simulator walks in all ways within the time of a usual run.
const SMALL: usize = 2_500;

#[test]
fn corpus_patterns_match_the_reference() {
    let all = luge_tests::backend() == Backend::Cuda;
    walk_the_corpus(QUICK, |expected| all || expected.nnz() <= SMALL);
}

#[test]
#[ignore = "the simulator takes ten minutes for it: cargo test -p luge-tests --test simulator symbolic:: -- --ignored"]
fn corpus_patterns_match_the_reference_in_every_mode() {
    walk_the_corpus(SLOW, |_| true);
}

/// Compares the patterns of the small matrices of the corpus, of an order up to `on_simulator` there: those that `in_all_ways` says in every mode and with
/// the smallest budgets, the others in one mode.
fn walk_the_corpus(on_simulator: u64, in_all_ways: impl Fn(&FilledPattern) -> bool) {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let streams = seeded_streams();
    for (name, pattern) in ordered_patterns(&corpus, &streams[0], on_simulator) {
        let expected = cpu::filled_pattern(&pattern).unwrap();
        eprintln!("{name}: {} entries", expected.nnz());
        let check = |stream: &Stream, options: &Fill2Options| {
            let (device, report) = fill2(stream, &pattern, options).unwrap();
            assert_same_filled(&device.download(stream).unwrap(), &expected);
            assert!(
                options
                    .budget_bytes
                    .is_none_or(|most| report.pool.arena_bytes <= most)
            );
        };
        check(&streams[0], &Fill2Options::default());
        if in_all_ways(&expected) {
            let [two, fused, fill_first, spilled, coarse] = modes();
            let with = |budget, mode: &Fill2Options| Fill2Options {
                budget_bytes: Some(budget),
                ..mode.clone()
            };
            // One source at a time takes the simulator long.
            let times = if pattern.major_dim() <= 150 { 1 } else { 16 };
            let smallest = times * smallest_budget(&pattern, &two);
            for (i, options) in [
                with(smallest, &two),
                with(smallest + 8 * expected.nnz() as u64, &fused),
                with(smallest, &spilled),
                fill_first,
                coarse,
            ]
            .iter()
            .enumerate()
            {
                check(&streams[(i + 1) % streams.len()], options);
            }
        }
    }
}
