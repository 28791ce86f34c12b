//! Trees that are dealt out to devices: the same factors, bit for bit, whatever subtrees are where.

use std::sync::Arc;

use luge_device::Stream;
use luge_frontal::gpu::{
    DeviceFrontalError, DeviceFrontalLdlt, DeviceFrontalLu, DeviceTree, Limits, Mapping,
    MemoryPlan, MovedTree,
};
use luge_frontal::{Lower, Storage, Symbolic, TreeOptions};
use luge_sparse::PivotPolicy;
use luge_testkit::generators::applications::{convection_diffusion_2d, convection_diffusion_3d};
use proptest::prelude::*;

use crate::chain::noise;
use crate::frontal;
use crate::frontal_ldlt::{self, joined, uniform, unmerged};
use crate::frontal_solve::dissected;

const PIVOTS: PivotPolicy = PivotPolicy::replacing(1e-300).in_fronts(0.1);
const SEARCHED: PivotPolicy = PivotPolicy::symmetric(0.01);

fn streams(devices: usize) -> Vec<Stream> {
    let devices = luge_tests::group(devices);
    let streams = devices.iter().map(|device| device.create_stream().unwrap());
    streams.collect()
}

/// Fronts in tiles from a few rows on, so that subtrees of small matrices can be dealt out.
fn tiled(tiled_front: u32) -> Limits {
    Limits {
        small_front: 4,
        whole_front: 6,
        tiled_front,
        gathered: 3,
        apart: 0,
        many_of_thread: 0,
    }
}

/// Subtrees of a tree, none in another, as `keep` has it of the fronts that can be dealt out; for each of the devices that
/// `device` names.
fn subtrees<S: Storage>(
    symbolic: &Symbolic<S>,
    memory: &MemoryPlan,
    devices: usize,
    keep: impl Fn(usize) -> bool,
    device: impl Fn(usize) -> usize,
) -> Mapping {
    let mut roots = vec![Vec::new(); devices];
    let fronts = symbolic.tree().fronts();
    let mut is_taken = vec![false; fronts.len()];
    for (s, front) in fronts.iter().enumerate().rev() {
        is_taken[s] = is_taken.get(front.parent as usize) == Some(&true);
        let can_be_dealt = || {
            memory
                .mapping_of(symbolic, vec![vec![s as u32]], 8)
                .is_some()
        };
        if !is_taken[s] && keep(s) && can_be_dealt() {
            is_taken[s] = true;
            roots[device(s)].push(s as u32);
        }
    }
    memory.mapping_of(symbolic, roots, 8).unwrap()
}

/// What a factorization of LU leaves, and another with values of the same pattern; the first search included.
fn lu(
    stream: &Stream,
    tree: DeviceTree,
    problem: &frontal::Problem,
) -> (Vec<f64>, Vec<u32>, Vec<f64>, Vec<f64>, String) {
    let tree = Arc::new(tree);
    let values = stream.upload(&problem.values).unwrap();
    let (mut factors, quality) =
        DeviceFrontalLu::<f64>::factorize(stream, &tree, &values, &PIVOTS).unwrap();
    let first = stream.download(factors.factors()).unwrap();
    let rows = stream.download(factors.pivot_rows()).unwrap();
    let others = problem.values.iter().enumerate();
    let others: Vec<f64> = others
        .map(|(p, v)| v * (1.0 + (noise(7, p) % 64) as f64 / 4096.0))
        .collect();
    let others = stream.upload(&others).unwrap();
    let second = factors.refactorize(stream, &others, &PIVOTS).unwrap();
    let n = problem.symbolic.n();
    let mut x = stream.upload(&vec![1.0; n]).unwrap();
    factors.solve(stream, &mut x, 1, false).unwrap();
    let solved = stream.download(&x).unwrap();
    let last = stream.download(factors.factors()).unwrap();
    (first, rows, last, solved, format!("{quality:?} {second:?}"))
}

fn assert_lu_is_that_of_one(
    problem: &frontal::Problem,
    limits: Limits,
    devices: usize,
    mapping: impl Fn(&MemoryPlan) -> Mapping,
) {
    let streams = streams(devices);
    let (first, peers) = streams.split_first().unwrap();
    let alone = frontal::tree_on_device(first, problem, &problem.symbolic, limits);
    let expected = lu(first, alone, problem);
    let memory = MemoryPlan::with_limits(&problem.symbolic, limits);
    let mapping = mapping(&memory);
    let dealt = frontal::placed(problem, &problem.symbolic, |placement| {
        let (symbolic, streams) = (&problem.symbolic, (first, peers));
        DeviceTree::upload_dealt(streams, symbolic, &mapping, &memory, placement, 1).unwrap()
    });
    let busy = mapping.roots()[1..]
        .iter()
        .filter(|roots| !roots.is_empty());
    assert_eq!(dealt.num_devices(), 1 + busy.count());
    assert_eq!(lu(first, dealt, problem), expected);
}

#[test]
fn factors_are_those_of_one_device() {
    let a = dissected(&convection_diffusion_3d(5, 4, 4, 1.0));
    let problem = frontal::Problem::new(&a, &TreeOptions::default());
    for tiled_front in [u32::MAX, 30] {
        for devices in [2, 3, 5] {
            assert_lu_is_that_of_one(&problem, tiled(tiled_front), devices, |memory| {
                let mapping = memory.mapping(&problem.symbolic, devices, 8).unwrap();
                assert!(mapping.roots()[1..].iter().any(|roots| !roots.is_empty()));
                mapping
            });
        }
    }
}

#[test]
fn devices_may_have_nothing_to_do() {
    let a = dissected(&convection_diffusion_2d(7, 6, 1.0));
    let problem = frontal::Problem::new(&a, &TreeOptions::default());
    // All on one, be it the first or another one, with nothing above.
    for device in 0..3 {
        assert_lu_is_that_of_one(&problem, tiled(u32::MAX), 3, |memory| {
            subtrees(&problem.symbolic, memory, 3, |_| true, |_| device)
        });
    }
    // Nothing at all.
    assert_lu_is_that_of_one(&problem, tiled(u32::MAX), 3, |memory| {
        subtrees(&problem.symbolic, memory, 3, |_| false, |_| 0)
    });
}

#[test]
fn what_fails_is_found_on_every_device() {
    let a = dissected(&convection_diffusion_2d(7, 6, 1.0));
    let mut problem = frontal::Problem::new(&a, &TreeOptions::default());
    let streams = streams(2);
    let memory = MemoryPlan::with_limits(&problem.symbolic, tiled(u32::MAX));
    let mapping = subtrees(
        &problem.symbolic,
        &memory,
        2,
        |s| problem.symbolic.tree().fronts()[s].below > 0,
        |_| 1,
    );
    let of_peer = mapping.roots()[1][0];
    let front = problem.symbolic.tree().fronts()[of_peer as usize];
    let dealt = frontal::placed(&problem, &problem.symbolic, |placement| {
        let (symbolic, streams) = (&problem.symbolic, (&streams[0], &streams[1..]));
        DeviceTree::upload_dealt(streams, symbolic, &mapping, &memory, placement, 1).unwrap()
    });
    let dealt = Arc::new(dealt);
    let column = problem.symbolic.tree().perm()[front.start as usize] as usize;
    for p in problem.columns.range(column) {
        problem.values[p] = f64::NAN;
    }
    let values = streams[0].upload(&problem.values).unwrap();
    let error = DeviceFrontalLu::<f64>::factorize(&streams[0], &dealt, &values, &PIVOTS);
    let error = error.map(|_| ()).unwrap_err();
    assert!(
        matches!(error, DeviceFrontalError::NotFinite { .. }),
        "{error}"
    );
}

/// What factorizations of a symmetric matrix leave.
fn ldlt(
    stream: &Stream,
    tree: DeviceTree<Lower>,
    problem: &frontal_ldlt::Problem,
    limits: Limits,
) -> (Vec<f64>, Vec<f64>, String) {
    let tree = Arc::new(tree);
    let is_dealt = tree.num_devices() > 1;
    let values = stream.upload(&problem.values).unwrap();
    let upload =
        |moved: MovedTree<'_, Lower>| Ok(problem.uploaded(stream, &moved.symbolic(1)?, limits));
    let (mut factors, quality) =
        DeviceFrontalLdlt::<f64>::factorize(stream, &tree, &values, &SEARCHED, &upload).unwrap();
    let first = stream.download(factors.factors()).unwrap();
    let again = factors
        .refactorize(stream, &values, &SEARCHED, &upload)
        .unwrap();
    // No column has moved.
    assert_eq!(factors.tree().num_devices() > 1, is_dealt);
    assert!(quality.num_two > 0);
    let mut x = stream.upload(&vec![1.0; problem.n]).unwrap();
    factors.solve(stream, &mut x, 1).unwrap();
    let solved = stream.download(&x).unwrap();
    (first, solved, format!("{quality:?} {again:?}"))
}

#[test]
fn symmetric_factors_are_those_of_one_device() {
    for (limits, devices) in [(tiled(u32::MAX), 2), (frontal_ldlt::all_limits()[4], 3)] {
        // Pivots of order 2 in all blocks, which one device finds as another does.
        let value = |block: usize, i: usize, j: usize| match i == j && i.is_multiple_of(3) {
            true => 0.0,
            false => uniform(block as u64, i * 64 + j),
        };
        let entries = joined(&[30, 25, 41, 12, 17], 24, value);
        let n = 30 + 25 + 41 + 12 + 17 + 24;
        let problem = frontal_ldlt::Problem::new(n, entries, &unmerged());
        let streams = streams(devices);
        let alone = problem.uploaded(&streams[0], &problem.symbolic, limits);
        let expected = ldlt(&streams[0], alone, &problem, limits);
        let memory = MemoryPlan::with_limits(&problem.symbolic, limits);
        let mapping = subtrees(
            &problem.symbolic,
            &memory,
            devices,
            |s| problem.symbolic.tree().fronts()[s].below > 0,
            |s| s % devices,
        );
        assert!(mapping.roots().iter().all(|roots| !roots.is_empty()));
        let dealt = problem.placed(|placement| {
            let (symbolic, streams) = (&problem.symbolic, (&streams[0], &streams[1..]));
            DeviceTree::upload_dealt(streams, symbolic, &mapping, &memory, placement, 1).unwrap()
        });
        assert_eq!(ldlt(&streams[0], dealt, &problem, limits), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn any_mapping_has_the_same_bits(
        (nx, ny) in (2usize..7, 2usize..7),
        devices in 2usize..5,
        seed in any::<u64>(),
        share in 1u64..4,
    ) {
        let a = dissected(&convection_diffusion_2d(nx, ny, 1.0));
        let problem = frontal::Problem::new(&a, &TreeOptions::default());
        assert_lu_is_that_of_one(&problem, tiled(u32::MAX), devices, |memory| {
            subtrees(
                &problem.symbolic,
                memory,
                devices,
                |s| noise(seed, s) % 4 < share,
                |s| noise(seed ^ 1, s) as usize % devices,
            )
        });
    }
}
