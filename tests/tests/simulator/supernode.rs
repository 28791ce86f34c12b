//! The supernode kernels and the phase built on them against the reference, on every device.

use luge_device::{LaunchConfig, Stream};
use luge_gpu_kernels::supernode as kernels;
use luge_reference::supernode as reference;
use luge_reference::symbolic::fill2_max_id;
use luge_sparse::FilledPattern;
use luge_supernode::gpu::supernodes;
use luge_supernode::{Options, Relaxation, Tier, cpu};
use luge_symbolic::cpu::filled_pattern;
use luge_symbolic::gpu::{DeviceFilled, primitives};
use luge_testkit::convert::pattern_of;
use luge_testkit::corpus::Corpus;
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};
use luge_testkit::strategies::{pattern_from, patterns};
use proptest::prelude::*;

use crate::chain::{QUICK, noise, on_each, ordered_patterns, seeded_streams, streams};

const SIZES: [usize; 6] = [0, 1, 31, 32, 33, 1025];
const MAX_SIZES: [u32; 4] = [1, 2, 32, 128];

/// Every entry from `below` left of the diagonal on: L is a band, U is full.
fn full_above(n: usize, below: usize) -> FilledPattern {
    let row = |i: usize| (i.saturating_sub(below)..n).map(move |j| (i as u32, j as u32));
    filled_pattern(&pattern_from(n, (0..n).flat_map(row))).unwrap()
}

/// U is full; L has in row i all columns from a random one on, so that supernodes of all sizes begin
/// anywhere in one long run.
fn ragged(n: usize, depth: u64) -> FilledPattern {
    let row = |i: usize| {
        let back = 1 + (noise(depth, i) % depth) as usize;
        (i.saturating_sub(back)..n).map(move |j| (i as u32, j as u32))
    };
    filled_pattern(&pattern_from(n, (0..n).flat_map(row))).unwrap()
}

/// Dense blocks of these sizes along the diagonal: a run each.
fn blocks(sizes: &[usize]) -> FilledPattern {
    let mut entries = Vec::new();
    let mut first = 0;
    for &size in sizes {
        let rows = first as u32..(first + size) as u32;
        entries.extend(rows.clone().flat_map(|i| rows.clone().map(move |j| (i, j))));
        first += size;
    }
    filled_pattern(&pattern_from(first, entries)).unwrap()
}

/// Patterns without runs, of one run, of runs that end and begin at the borders of words and chunks,
/// and models of use.
fn named_patterns() -> Vec<(String, FilledPattern)> {
    let mut named = Vec::new();
    for n in SIZES {
        let empty = filled_pattern(&pattern_from(n, [])).unwrap();
        named.push((format!("diagonal of {n}"), empty));
    }
    for n in [2, 31, 32, 33, 65, 200] {
        named.push((format!("dense of {n}"), full_above(n, n)));
        named.push((format!("Hessenberg of {n}"), full_above(n, 1)));
        named.push((format!("upper triangle of {n}"), full_above(n, 0)));
        named.push((format!("ragged of {n}"), ragged(n, 40)));
    }
    let around: Vec<usize> = (30..=35).chain([1, 1, 64, 63, 1, 2]).collect();
    named.push(("blocks around a word".into(), blocks(&around)));
    named.push(("blocks of a chunk".into(), blocks(&[64, 64, 32, 32, 64])));
    named.push(("blocks of three".into(), blocks(&[3; 70])));
    for (name, matrix) in [
        ("circuit", circuit(120, 1)),
        ("grid", convection_diffusion_2d(12, 9, 1.0)),
    ] {
        let filled = filled_pattern(&pattern_of(&matrix)).unwrap();
        named.push((name.into(), filled));
    }
    named
}

/// Rows that begin a supernode, as [`kernels::mark_supernodes`] finds them with this launch.
fn mark(
    stream: &Stream,
    filled: &DeviceFilled,
    max_size: u32,
    chunk: u32,
    config: &LaunchConfig,
) -> Vec<u32> {
    let mut starts = stream.alloc::<u32>(filled.n()).unwrap();
    // SAFETY: the pattern is a filled one, and blocks are made of whole warps.
    unsafe {
        kernels::mark_supernodes::launch(
            stream,
            config,
            max_size,
            chunk,
            filled.row_ptr(),
            filled.diag_pos(),
            filled.col_idx(),
            &mut starts,
        )
    }
    .unwrap();
    stream.download(&starts).unwrap()
}

fn assert_marks(stream: &Stream, filled: &FilledPattern, max_size: u32) {
    let mut expected = vec![0; filled.n()];
    for first in reference::supernodes_by_definition(filled, max_size as usize) {
        if (first as usize) < filled.n() {
            expected[first as usize] = 1;
        }
    }
    let on_device = DeviceFilled::upload(stream, filled).unwrap();
    for (chunk, blocks, threads) in [(32, 2, 64), (64, 3, 32), (128, 1, 96), (1024, 1, 64)] {
        let config = LaunchConfig::linear(blocks, threads);
        let found = mark(stream, &on_device, max_size, chunk, &config);
        assert_eq!(
            found, expected,
            "max_size {max_size}, chunk {chunk}, {blocks} blocks of {threads}"
        );
    }
}

#[test]
fn mark_supernodes_matches_reference() {
    for (schedule, stream) in streams().into_iter().enumerate() {
        for (name, filled) in named_patterns() {
            eprintln!("{name}");
            // After the first schedule they take turns.
            for max_size in MAX_SIZES
                .into_iter()
                .skip(schedule % 2)
                .step_by(1 + schedule.min(1))
            {
                assert_marks(&stream, &filled, max_size);
            }
        }
    }
    on_each(25, &(patterns(80), 1u32..10), |stream, (pattern, max)| {
        assert_marks(stream, &fill2_max_id(&pattern), max);
    });
}

/// The most runs that a chunk gives to warps, and the most leaders.
#[test]
fn queues_of_a_full_chunk_hold() {
    let stream = &seeded_streams()[0];
    let mut runs = vec![33; 31];
    runs.extend([5, 40]);
    for filled in [blocks(&runs), blocks(&[1; 1030])] {
        let on_device = DeviceFilled::upload(stream, &filled).unwrap();
        let config = LaunchConfig::linear(1, 64);
        let found = mark(stream, &on_device, 20, 1024, &config);
        let starts: Vec<u32> = (0..).zip(found).filter(|s| s.1 == 1).map(|s| s.0).collect();
        let expected = reference::supernodes_by_definition(&filled, 20);
        assert_eq!(starts, expected[..expected.len() - 1]);
    }
}

fn tiers_of(relax: &Relaxation) -> Vec<(usize, u64)> {
    let pair = |tier: &Tier| (tier.max_rows as usize, u64::from(tier.max_zeros));
    relax.tiers.iter().map(pair).collect()
}

fn relaxation(limits: [u32; 3]) -> Relaxation {
    let tier = |max_rows, max_zeros| Tier {
        max_rows,
        max_zeros,
    };
    let [small, middle, large] = limits;
    Relaxation {
        tiers: [
            tier(3, small),
            tier(7, middle),
            tier(20, large),
            tier(90, 10),
        ],
    }
}

/// What [`kernels::judge_pairs`] and [`kernels::choose_merges`] say of T3 supernodes, and what
/// [`kernels::place_merged`] leaves, against the definition of a sweep.
fn assert_sweep(stream: &Stream, filled: &FilledPattern, max_size: u32, relax: &Relaxation) {
    let t3 = reference::supernodes_by_definition(filled, max_size as usize);
    let num = t3.len() - 1;
    if num == 0 {
        return;
    }
    let on_device = DeviceFilled::upload(stream, filled).unwrap();
    let tiers = relax.tiers.iter().map(|tier| kernels::Tier {
        max_rows: tier.max_rows,
        max_zeros: tier.max_zeros,
    });
    let tiers = stream.upload_records(&tiers.collect::<Vec<_>>()).unwrap();
    let ptr = stream.upload(&t3).unwrap();
    let zeros = stream.alloc_zeroed::<u64>(num).unwrap();
    let mut allowed = stream.alloc::<u32>(num).unwrap();
    let mut zeros_together = stream.alloc::<u64>(num).unwrap();
    let mut kept = stream.alloc::<u32>(num).unwrap();
    let config = LaunchConfig::linear(2, 64);
    // SAFETY: the pattern is a filled one, and the supernodes are its own.
    unsafe {
        kernels::judge_pairs::launch(
            stream,
            &config,
            max_size,
            on_device.buffers(),
            &tiers,
            &ptr,
            &zeros,
            &mut allowed,
            &mut zeros_together,
        )
        .unwrap();
        kernels::choose_merges::launch(stream, &config, &allowed, &mut kept).unwrap();
    }
    let row = |border: usize| t3[border] as usize;
    let may: Vec<bool> = (0..num)
        .map(|g| {
            let tiers = tiers_of(relax);
            let ends = |g| [row(g), row(g + 1), row(g + 2)];
            g + 1 < num && reference::may_merge(filled, ends(g), max_size as usize, &tiers)
        })
        .collect();
    let found = stream.download(&allowed).unwrap();
    assert!(
        found
            .iter()
            .zip(&may)
            .all(|(&found, &may)| (found == 1) == may)
    );
    let found = stream.download(&zeros_together).unwrap();
    for g in (0..num).filter(|&g| may[g]) {
        let block = reference::dense_block(filled, row(g), row(g + 2));
        assert_eq!(found[g], block.zeros);
    }
    let merges = |pair: usize| {
        let beside = (pair > 0 && may[pair - 1]) || may[pair + 1];
        may[pair] && (pair.is_multiple_of(2) || !beside)
    };
    let expected: Vec<u32> = (0..num)
        .map(|g| u32::from(g == 0 || !merges(g - 1)))
        .collect();
    assert_eq!(stream.download(&kept).unwrap(), expected);

    let offsets = primitives::exclusive_scan_u32(stream, &kept).unwrap();
    let remaining = expected.iter().sum::<u32>() as usize;
    let mut ptr_out = stream.alloc::<u32>(remaining + 1).unwrap();
    let mut zeros_out = stream.alloc::<u64>(remaining).unwrap();
    // SAFETY: `offsets` is the prefix sum of `kept`, whose total is `remaining`.
    unsafe {
        kernels::place_merged::launch(
            stream,
            &config,
            &kept,
            &offsets,
            &ptr,
            &zeros,
            &zeros_together,
            &mut ptr_out,
            &mut zeros_out,
        )
        .unwrap();
    }
    let merged = stream.download(&ptr_out).unwrap();
    let borders = (0..num).filter(|&g| expected[g] == 1).map(|g| t3[g]);
    assert_eq!(merged, borders.chain([t3[num]]).collect::<Vec<u32>>());
    let found = stream.download(&zeros_out).unwrap();
    for (ends, &zeros) in merged.windows(2).zip(&found) {
        let block = reference::dense_block(filled, ends[0] as usize, ends[1] as usize);
        assert_eq!(zeros, block.zeros);
    }
}

#[test]
fn a_sweep_of_the_relaxation_matches_reference() {
    for stream in streams() {
        for (_, filled) in named_patterns() {
            assert_sweep(&stream, &filled, 128, &Relaxation::default());
        }
    }
    let cases = (patterns(60), 2u32..40, prop::array::uniform3(0u32..=1000));
    on_each(25, &cases, |stream, (pattern, max, limits)| {
        assert_sweep(stream, &fill2_max_id(&pattern), max, &relaxation(limits));
    });
}

/// Compares both kinds of supernodes; the answer is how many borders relaxing has taken away.
fn assert_phase(
    stream: &Stream,
    filled: &FilledPattern,
    max_size: u32,
    relax: Relaxation,
) -> usize {
    let on_device = DeviceFilled::upload(stream, filled).unwrap();
    let expected = reference::supernodes_by_definition(filled, max_size as usize);
    let mut options = Options {
        max_size,
        relax: None,
    };
    let found = supernodes(stream, &on_device, &options).unwrap();
    assert_eq!(stream.download(found.ptr()).unwrap(), expected);
    assert_eq!((found.n(), found.zeros()), (filled.n(), 0));

    let tiers = tiers_of(&relax);
    let relaxed = reference::relaxed_supernodes(filled, &expected, max_size as usize, &tiers);
    options.relax = Some(relax);
    let found = supernodes(stream, &on_device, &options).unwrap();
    let on_host = found.download(stream).unwrap();
    assert_eq!(on_host.ptr(), relaxed);
    assert_eq!(on_host.zeros(), found.zeros());
    let zeros: u64 = relaxed
        .windows(2)
        .map(|ends| reference::dense_block(filled, ends[0] as usize, ends[1] as usize).zeros)
        .sum();
    assert_eq!(found.zeros(), zeros);
    expected.len() - relaxed.len()
}

#[test]
fn supernodes_phase_matches_reference() {
    for (schedule, stream) in streams().into_iter().enumerate() {
        let mut merged = 0;
        for (name, filled) in named_patterns() {
            eprintln!("{name}");
            // After the first schedule they take turns.
            for max_size in MAX_SIZES
                .into_iter()
                .skip(schedule % 2)
                .step_by(1 + schedule.min(1))
            {
                merged += assert_phase(&stream, &filled, max_size, Relaxation::default());
            }
        }
        assert!(merged > 0, "relaxing has merged something");
    }
    let cases = (patterns(60), 2u32..40, prop::array::uniform3(0u32..=1000));
    on_each(20, &cases, |stream, (pattern, max, limits)| {
        assert_phase(stream, &fill2_max_id(&pattern), max, relaxation(limits));
    });
}

#[test]
fn corpus_supernodes_match_the_definition() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    for stream in seeded_streams() {
        for (name, pattern) in ordered_patterns(&corpus, &stream, QUICK) {
            let filled = filled_pattern(&pattern).unwrap();
            let on_device = DeviceFilled::upload(&stream, &filled).unwrap();
            for max_size in [4, 128] {
                let expected = reference::supernodes_by_definition(&filled, max_size as usize);
                for relax in [None, Some(Relaxation::default())] {
                    let options = Options { max_size, relax };
                    let found = supernodes(&stream, &on_device, &options).unwrap();
                    let found = found.download(&stream).unwrap();
                    if relax.is_none() {
                        assert_eq!(found.ptr(), expected);
                    }
                    eprintln!("{name}: {:?}", found.statistics());
                    assert_eq!(found, cpu::supernodes(&filled, &options));
                }
            }
        }
    }
}
