//! The levelization kernels and the phase built on them against the reference, on every device.

use luge_device::{LaunchConfig, Stream};
use luge_gpu_kernels::levelize::{self as kernels, FoundLevelsBuffers};
use luge_levelize::cpu;
use luge_levelize::gpu::{DeviceLevels, levels};
use luge_reference::levelize as reference;
use luge_reference::symbolic::fill2_max_id;
use luge_sparse::{CompressedPattern, FilledPattern, Levels};
use luge_symbolic::cpu::filled_pattern;
use luge_symbolic::gpu::DeviceFilled;
use luge_testkit::compare::assert_same_levels;
use luge_testkit::convert::pattern_of;
use luge_testkit::corpus::Corpus;
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};
use luge_testkit::strategies::patterns;

use crate::chain::{QUICK, on_each, ordered_patterns, seeded_streams, streams};

fn expected_levels(filled: &FilledPattern) -> Levels {
    reference::levels(&reference::relaxed_dependencies(filled))
}

/// Filled patterns with the extremes: no level, one, as many as columns, and models of use.
fn named_patterns() -> Vec<(&'static str, FilledPattern)> {
    let of = |pattern: &CompressedPattern| filled_pattern(pattern).unwrap();
    let diagonal = |n: usize| of(&CompressedPattern::new(n, vec![0; n + 1], Vec::new()).unwrap());
    let chain = |n: usize| {
        // Row i holds column i − 1: one level a column.
        let ptr = (0..=n as u64).map(|i| i.saturating_sub(1)).collect();
        of(&CompressedPattern::new(n, ptr, (0..n as u32 - 1).collect()).unwrap())
    };
    vec![
        ("nothing", diagonal(0)),
        ("one column", diagonal(1)),
        ("diagonal of 31", diagonal(31)),
        ("diagonal of 32", diagonal(32)),
        ("diagonal of 33", diagonal(33)),
        ("diagonal of 1025", diagonal(1025)),
        ("chain of 40", chain(40)),
        ("dense", of(&pattern_of(&arrow(33, ArrowHead::First)))),
        ("arrow", of(&pattern_of(&arrow(100, ArrowHead::Last)))),
        ("circuit", of(&pattern_of(&circuit(120, 1)))),
        (
            "grid",
            of(&pattern_of(&convection_diffusion_2d(12, 9, 1.0))),
        ),
    ]
}

fn assert_waiting(stream: &Stream, filled: &FilledPattern) {
    let on_device = DeviceFilled::upload(stream, filled).unwrap();
    let mut waiting = stream.alloc::<u32>(filled.n()).unwrap();
    // SAFETY: the pattern is a filled one.
    unsafe {
        kernels::count_dependencies::launch(
            stream,
            &LaunchConfig::linear(2, 64),
            on_device.buffers(),
            &mut waiting,
        )
    }
    .unwrap();
    let above = filled.rows().transpose();
    let expected: Vec<u32> = (0..filled.n())
        .map(|k| {
            let up = above.line(k).iter().filter(|&&i| (i as usize) < k).count();
            (up + filled.lower(k).len()) as u32
        })
        .collect();
    assert_eq!(stream.download(&waiting).unwrap(), expected);
}

#[test]
fn count_dependencies_matches_reference() {
    for stream in streams() {
        for (_, filled) in named_patterns() {
            assert_waiting(&stream, &filled);
        }
    }
    on_each(20, &patterns(30), |stream, pattern| {
        assert_waiting(stream, &fill2_max_id(&pattern));
    });
}

/// The levels that [`kernels::kahn_levels`] finds with a grid of this shape, columns sorted by level.
fn kahn(stream: &Stream, filled: &FilledPattern, grid: u32, threads: u32) -> (Vec<u32>, Vec<u64>) {
    let n = filled.n();
    let on_device = DeviceFilled::upload(stream, filled).unwrap();
    let mut waiting = stream.alloc::<u32>(n).unwrap();
    let mut level_sizes = stream.alloc_zeroed::<u32>(n + 1).unwrap();
    let mut level_of = stream.alloc::<u32>(n).unwrap();
    let mut level_cols = stream.alloc::<u32>(n).unwrap();
    let mut level_ptr = stream.alloc::<u64>(n + 1).unwrap();
    let mut num_levels = stream.alloc::<u32>(1).unwrap();
    let mut barrier = stream.alloc_zeroed::<u32>(1).unwrap();
    let found = FoundLevelsBuffers {
        level_sizes: &mut level_sizes,
        level_of: &mut level_of,
        level_cols: &mut level_cols,
        level_ptr: &mut level_ptr,
        num_levels: &mut num_levels,
    };
    // SAFETY: the pattern is a filled one; sizes and barrier are zero; the launch is cooperative.
    unsafe {
        kernels::count_dependencies::launch(
            stream,
            &LaunchConfig::linear(1, 32),
            on_device.buffers(),
            &mut waiting,
        )
        .unwrap();
        kernels::kahn_levels::launch(
            stream,
            &LaunchConfig::linear(grid, threads).cooperative(),
            n as u32,
            on_device.buffers(),
            &mut waiting,
            found,
            &mut barrier,
        )
        .unwrap();
    }
    assert!(stream.download(&waiting).unwrap().iter().all(|&w| w == 0));
    let num_levels = stream.download(&num_levels).unwrap()[0] as usize;
    let offsets = stream.download(&level_ptr.slice(..=num_levels)).unwrap();
    let level_of = stream.download(&level_of).unwrap();
    // The order within a level is that of arrival; the grouping is not.
    let cols = stream.download(&level_cols).unwrap();
    for (level, ends) in offsets.windows(2).enumerate() {
        let cols = &cols[ends[0] as usize..ends[1] as usize];
        assert!(cols.iter().all(|&k| level_of[k as usize] as usize == level));
    }
    (level_of, offsets)
}

#[test]
fn kahn_levels_matches_reference() {
    let check = |stream: &Stream, filled: &FilledPattern| {
        let expected = expected_levels(filled);
        for (grid, threads) in [(1, 32), (2, 64), (4, 32)] {
            let (level_of, offsets) = kahn(stream, filled, grid, threads);
            assert_eq!(level_of, expected.level_of());
            assert_eq!(offsets, expected.level_ptr());
        }
    };
    for stream in streams() {
        for (_, filled) in named_patterns() {
            if filled.n() > 0 {
                check(&stream, &filled);
            }
        }
    }
    on_each(20, &patterns(30), |stream, pattern| {
        if pattern.major_dim() > 0 {
            check(stream, &fill2_max_id(&pattern));
        }
    });
}

#[test]
fn levels_phase_matches_reference() {
    for stream in streams() {
        for (name, filled) in named_patterns() {
            eprintln!("{name}");
            let on_device = DeviceFilled::upload(&stream, &filled).unwrap();
            let found = levels(&stream, &on_device).unwrap();
            let expected = expected_levels(&filled);
            assert_same_levels(&found.download(&stream).unwrap(), &expected);
            let widths = found.widths(&stream).unwrap();
            assert_eq!(widths.len(), expected.num_levels());
            assert_eq!(widths.iter().sum::<u64>(), filled.n() as u64);
            let uploaded = DeviceLevels::upload(&stream, &expected).unwrap();
            assert_same_levels(&uploaded.download(&stream).unwrap(), &expected);
        }
    }
}

#[test]
fn corpus_levels_match_the_cpu() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    for stream in seeded_streams() {
        for (name, pattern) in ordered_patterns(&corpus, &stream, QUICK) {
            let filled = filled_pattern(&pattern).unwrap();
            let on_device = DeviceFilled::upload(&stream, &filled).unwrap();
            let found = levels(&stream, &on_device).unwrap();
            eprintln!("{name}: {} levels", found.num_levels());
            assert_same_levels(&found.download(&stream).unwrap(), &cpu::levels(&filled));
        }
    }
}
