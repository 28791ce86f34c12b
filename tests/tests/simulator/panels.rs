//! The filled pattern by panels against the reference, on every device.

use luge_device::Stream;
use luge_reference::symbolic as reference;
use luge_sparse::{CancelFlag, CompressedPattern};
use luge_symbolic::gpu::{
    Fill2Options, Mode, Options, PanelOptions, Report, filled_pattern, panels, smallest_budget,
};
use luge_symbolic::{SymbolicError, cpu};
use luge_testkit::compare::assert_same_filled;
use luge_testkit::convert::pattern_of;
use luge_testkit::corpus::Corpus;
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};
use luge_testkit::strategies::patterns;

use crate::chain::{QUICK, on_each, ordered_patterns, seeded_streams, streams};

fn rounds(round: u32, base_min: u32) -> PanelOptions {
    PanelOptions {
        round,
        base_min,
        ..PanelOptions::default()
    }
}

fn assert_panels(stream: &Stream, pattern: &CompressedPattern, options: &PanelOptions) {
    let (device, report) = panels(stream, pattern, options).unwrap();
    assert_same_filled(
        &device.download(stream).unwrap(),
        &cpu::filled_pattern(pattern).unwrap(),
    );
    assert!(report.num_panels <= pattern.major_dim());
}

#[test]
fn panels_match_the_reference() {
    on_each(8, &patterns(150), |stream, pattern| {
        let expected = reference::dense_boolean_elimination(&pattern);
        for (round, base_min) in [(1, 1), (3, 100), (512, 1)] {
            let (device, _) = panels(stream, &pattern, &rounds(round, base_min)).unwrap();
            assert_same_filled(&device.download(stream).unwrap(), &expected);
        }
    });
}

#[test]
fn panels_of_large_patterns_match_the_cpu() {
    on_each(5, &patterns(400), |stream, pattern| {
        assert_panels(stream, &pattern, &rounds(16, 5));
    });
}

#[test]
fn named_patterns_match_the_cpu() {
    let diagonal = |n: usize| {
        CompressedPattern::new(n, (0..=n as u64).collect(), (0..n as u32).collect()).unwrap()
    };
    let empty = |n: usize| CompressedPattern::new(n, vec![0; n + 1], Vec::new()).unwrap();
    let named = [
        empty(0),
        empty(1),
        diagonal(1),
        empty(33),
        empty(65),
        diagonal(130),
        pattern_of(&arrow(33, ArrowHead::First)),
        pattern_of(&arrow(64, ArrowHead::Last)),
        pattern_of(&arrow(65, ArrowHead::First)),
        pattern_of(&arrow(100, ArrowHead::Last)),
        pattern_of(&arrow(200, ArrowHead::First)),
        pattern_of(&circuit(120, 1)),
        pattern_of(&circuit(400, 7)),
        pattern_of(&convection_diffusion_2d(12, 9, 1.0)),
        pattern_of(&convection_diffusion_2d(21, 17, 1.0)),
    ];
    for stream in streams() {
        for pattern in &named {
            assert_panels(&stream, pattern, &PanelOptions::default());
            assert_panels(&stream, pattern, &rounds(2, 9));
        }
    }
}

#[test]
fn rows_and_structures_of_whole_blocks_match_the_cpu() {
    // One device: the schedules that matter are tried on smaller patterns, and these take long.
    let stream = &streams()[0];
    assert_panels(stream, &leaves_and_a_path(), &PanelOptions::default());
    assert_panels(stream, &first_row_full(4200), &PanelOptions::default());
}

/// 1025 vertices and a path of 64 that have edges to the last vertex alone: its row has 1025 runs of one column and one
/// of 64, which begins at an odd place. It has nothing in the column behind those.
fn leaves_and_a_path() -> CompressedPattern {
    let (leaves, end) = (1025u32, 1089u32);
    let last = end + 1;
    let mut rows: Vec<Vec<u32>> = (0..=last).map(|i| vec![i]).collect();
    for v in 0..=leaves {
        rows[v as usize].push(last);
        rows[last as usize].push(v);
    }
    for v in leaves..end - 1 {
        rows[v as usize].push(v + 1);
        rows[v as usize + 1].push(v);
    }
    of_rows(rows)
}

fn of_rows(mut rows: Vec<Vec<u32>>) -> CompressedPattern {
    let (mut ptr, mut idx) = (vec![0u64], Vec::new());
    for row in &mut rows {
        row.sort_unstable();
        row.dedup();
        idx.extend_from_slice(row);
        ptr.push(idx.len() as u64);
    }
    CompressedPattern::new(rows.len(), ptr, idx).unwrap()
}

/// A pivot of the first panel meets itself in the next one, at the fortieth of its entries there, or at the beginning of
/// a later one, right behind a row of the panel before that it takes part in.
#[test]
fn pivots_take_part_up_to_where_they_meet() {
    let (n, pivot) = (210u32, 63u32);
    // Rows of its column of L, columns of its row of U, and the column that has no other entry of the row before it.
    let late: (Vec<u32>, &[u32], u32) = ((70..110).collect(), &[109, 150, 160], n);
    let last: (Vec<u32>, &[u32], u32) = (vec![70, 191, 192], &[192], 192);
    for (lower, upper, apart) in [late, last] {
        let mut rows: Vec<Vec<u32>> = (0..n).map(|i| vec![i]).collect();
        for v in 0..n - 2 {
            if v != pivot {
                // No fill comes of this.
                rows[v as usize].push(if v + 1 == apart { v + 2 } else { v + 1 });
            }
        }
        rows[n as usize - 2].push(n - 1);
        // All are one diagonal block.
        rows[n as usize - 1].extend([0, pivot + 1]);
        rows[pivot as usize].extend_from_slice(upper);
        for row in lower {
            rows[row as usize].push(pivot);
        }
        let pattern = of_rows(rows);
        let (mirrored, _) = pattern.transpose_with_map();
        for stream in streams() {
            for pattern in [&pattern, &mirrored] {
                assert_panels(&stream, pattern, &PanelOptions::default());
                assert_panels(&stream, pattern, &rounds(3, 100));
            }
        }
    }
}

/// Row 0 and the diagonal.
fn first_row_full(n: usize) -> CompressedPattern {
    let ptr = std::iter::once(0).chain((n..2 * n).map(|p| p as u64));
    let idx = (0..n as u32).chain(1..n as u32);
    CompressedPattern::new(n, ptr.collect(), idx.collect()).unwrap()
}

/// The first panel, of 64 columns, has an upper structure of 1023, 1024 and 1025 entries: as many as are kept in shared
/// memory, and one less and more. All come from the first row, and the last of them from every other row, too.
#[test]
fn bases_as_long_as_what_is_kept_near() {
    let stream = &streams()[0];
    for n in [1087u32, 1088, 1089] {
        let mut rows: Vec<Vec<u32>> = (0..n).map(|i| vec![i, n - 1]).collect();
        rows[0].extend(0..n);
        // All are one diagonal block.
        rows[n as usize - 1].push(0);
        let pattern = of_rows(rows);
        assert_panels(stream, &pattern, &PanelOptions::default());
    }
}

#[test]
fn symmetry_is_noticed() {
    for stream in streams() {
        for (pattern, symmetric) in [
            (pattern_of(&convection_diffusion_2d(8, 8, 1.0)), true),
            (
                CompressedPattern::new(3, vec![0, 2, 3, 4], vec![0, 1, 1, 2]).unwrap(),
                false,
            ),
        ] {
            let (_, report) = panels(&stream, &pattern, &PanelOptions::default()).unwrap();
            assert_eq!(report.symmetric, symmetric);
        }
    }
}

#[test]
fn the_budget_is_kept() {
    let pattern = pattern_of(&circuit(150, 4));
    for stream in streams() {
        let device = stream.device();
        let before = device.allocated_bytes();
        device.reset_peak();
        let (filled, report) = panels(&stream, &pattern, &PanelOptions::default()).unwrap();
        let b = 8 * pattern.ptr().len() + 4 * pattern.nnz();
        let result = 16 * filled.nnz() + 24 * (filled.n() + 1);
        let beside = device.peak_bytes() - before - b as u64;
        assert!(beside <= report.peak_bytes + result as u64);
        drop(filled);
        for (budget, fits) in [(report.peak_bytes, true), (report.peak_bytes - 1, false)] {
            let options = PanelOptions {
                budget_bytes: Some(budget),
                ..PanelOptions::default()
            };
            match panels(&stream, &pattern, &options) {
                Ok((_, again)) => assert!(fits && again.peak_bytes == budget),
                Err(SymbolicError::OutOfMemory {
                    asked, available, ..
                }) => assert!(!fits && asked == report.peak_bytes && available == budget),
                Err(e) => panic!("{e}"),
            }
        }
    }
}

#[test]
fn the_mode_follows_the_budget() {
    let pattern = pattern_of(&circuit(150, 4));
    let expected = cpu::filled_pattern(&pattern).unwrap();
    let smallest = smallest_budget(&pattern, &Fill2Options::default());
    for stream in seeded_streams() {
        let run = |mode, budget_bytes| {
            let options = Options {
                mode,
                budget_bytes,
                ..Options::default()
            };
            filled_pattern(&stream, &pattern, &options)
        };
        for (mode, budget, by_panels) in [
            (Mode::Auto, None, true),
            (Mode::Panels, None, true),
            (Mode::Fill2, None, false),
            (Mode::Auto, Some(16 * smallest), false),
        ] {
            let (filled, report) = run(mode, budget).unwrap();
            assert_eq!(matches!(report, Report::Panels(_)), by_panels, "{mode:?}");
            assert_same_filled(&filled.download(&stream).unwrap(), &expected);
        }
        assert!(matches!(
            run(Mode::Auto, Some(smallest - 1)),
            Err(SymbolicError::OutOfMemory { asked, .. }) if asked == smallest
        ));
    }
}

#[test]
fn the_flag_stops_the_phase() {
    let pattern = pattern_of(&circuit(40, 3));
    let cancel = CancelFlag::new();
    cancel.cancel();
    let options = PanelOptions {
        cancel: cancel.clone(),
        ..PanelOptions::default()
    };
    for stream in streams() {
        let stopped = panels(&stream, &pattern, &options);
        assert!(matches!(stopped, Err(SymbolicError::Cancelled(_))));
        for mode in [Mode::Auto, Mode::Panels, Mode::Fill2] {
            let options = Options {
                mode,
                cancel: cancel.clone(),
                ..Options::default()
            };
            let stopped = filled_pattern(&stream, &pattern, &options);
            assert!(
                matches!(stopped, Err(SymbolicError::Cancelled(_))),
                "{mode:?}"
            );
        }
    }
}

#[test]
#[should_panic(expected = "square pattern")]
fn a_rectangle_is_a_broken_call() {
    let pattern = CompressedPattern::new(3, vec![0, 1, 2], vec![0, 2]).unwrap();
    let _ = panels(&streams()[0], &pattern, &PanelOptions::default());
}

#[test]
fn corpus_patterns_match_the_cpu() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    for (seed, stream) in seeded_streams().iter().enumerate() {
        for (name, pattern) in ordered_patterns(&corpus, stream, QUICK) {
            eprintln!("{name}");
            let options = [PanelOptions::default(), rounds(7, 1), rounds(64, 20)];
            assert_panels(stream, &pattern, &options[seed % 3]);
        }
    }
}
