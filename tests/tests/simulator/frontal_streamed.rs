//! Trees in links, whose factors are in the host's memory: the same factors and solutions as without links, bit for bit.

use std::cell::Cell;
use std::sync::Arc;

use luge_device::{Backend, Stream};
use luge_frontal::gpu::{
    DeviceFrontalLdlt, DeviceFrontalLu, DeviceTree, Division, Limits, MemoryPlan, MovedTree,
    SymmetricFactors, Workspace,
};
use luge_frontal::{Full, Lower, Storage, Symbolic, TreeOptions};
use luge_sparse::PivotPolicy;
use luge_testkit::generators::applications::{convection_diffusion_2d, convection_diffusion_3d};
use luge_testkit::generators::mixed::darcy;
use proptest::prelude::*;

use crate::chain::{noise, streams};
use crate::frontal::{self, Problem, placed, tree_on_device};
use crate::frontal_ldlt::{self, joined, uniform, unmerged};
use crate::frontal_solve::dissected;

const PIVOTS: PivotPolicy = PivotPolicy::replacing(1e-300).in_fronts(0.1);
const SEARCHED: PivotPolicy = PivotPolicy::symmetric(0.01);

/// Fronts in tiles from a few rows on, so that small trees can be in links.
const TILED: Limits = Limits {
    small_front: 4,
    whole_front: 6,
    tiled_front: u32::MAX,
    gathered: 3,
    apart: 0,
    many_of_thread: 0,
};

/// Divisions of a tree from two links to as many as there can be.
fn divisions<S: Storage>(symbolic: &Symbolic<S>, limits: Limits) -> (MemoryPlan, Vec<Division>) {
    let memory = MemoryPlan::with_limits(symbolic, limits);
    let mut divisions: Vec<Division> = Vec::new();
    let mut bytes = 1 << 30;
    // Where half of it does for the whole tree, nothing in between divides it.
    while memory
        .division(symbolic, 8, bytes / 2)
        .is_some_and(|division| division.num_links() == 1)
    {
        bytes /= 2;
    }
    while let Some(division) = memory.division(symbolic, 8, bytes) {
        let links = division.num_links();
        if divisions.last().map_or(1, Division::num_links) < links {
            divisions.push(division);
        }
        bytes -= (bytes / 8).clamp(1, 4096);
    }
    (memory, divisions)
}

fn right_hand_sides(n: usize, nrhs: usize) -> Vec<f64> {
    let value = |i| (noise(3, i) % 1024) as f64 / 64.0 - 8.0;
    (0..n * nrhs).map(value).collect()
}

/// What is known of LU factors from outside: pivots, solutions, what they measured; of two matrices.
fn lu(stream: &Stream, tree: DeviceTree, problem: &Problem) -> (Vec<Vec<f64>>, String) {
    let tree = Arc::new(tree);
    let values = stream.upload(&problem.values).unwrap();
    let (mut factors, quality) =
        DeviceFrontalLu::<f64>::factorize(stream, &tree, &values, &PIVOTS).unwrap();
    let mut known = vec![factors.pivots(stream).unwrap()];
    let n = problem.symbolic.n();
    let mut solve = |factors: &mut DeviceFrontalLu<f64>, nrhs, transpose| {
        let mut x = stream.upload(&right_hand_sides(n, nrhs)).unwrap();
        factors.solve(stream, &mut x, nrhs, transpose).unwrap();
        known.push(stream.download(&x).unwrap());
    };
    solve(&mut factors, 1, false);
    // The panels of the first link are on the device now.
    solve(&mut factors, 1, true);
    solve(&mut factors, 11, false);
    let others = problem.values.iter().enumerate();
    let others: Vec<f64> = others
        .map(|(p, v)| v * (1.0 + (noise(7, p) % 64) as f64 / 4096.0))
        .collect();
    let others = stream.upload(&others).unwrap();
    let second = factors.refactorize(stream, &others, &PIVOTS).unwrap();
    solve(&mut factors, 1, false);
    known.push(factors.pivots(stream).unwrap());
    (known, format!("{quality:?} {second:?}"))
}

fn in_links<S: Storage>(
    stream: &Stream,
    symbolic: &Arc<Symbolic<S>>,
    division: &Division,
    memory: &MemoryPlan,
    placement: &luge_frontal::gpu::Placement<'_>,
) -> DeviceTree<S> {
    with_peers((stream, &[]), symbolic, division, memory, placement)
}

fn with_peers<S: Storage>(
    devices: (&Stream, &[(Stream, u64)]),
    symbolic: &Arc<Symbolic<S>>,
    division: &Division,
    memory: &MemoryPlan,
    placement: &luge_frontal::gpu::Placement<'_>,
) -> DeviceTree<S> {
    let tree = DeviceTree::upload_streamed(devices, 8, symbolic, division, memory, placement, 1);
    let tree = tree.unwrap();
    assert_eq!(tree.num_links(), division.num_links());
    tree
}

#[test]
fn factors_are_those_of_the_whole_tree() {
    let mut most_links = 0;
    let mut streams = streams().into_iter().cycle();
    for (a, limits) in [
        (convection_diffusion_3d(5, 4, 4, 1.0), TILED),
        (
            convection_diffusion_3d(5, 4, 4, 1.0),
            Limits {
                tiled_front: 30,
                ..TILED
            },
        ),
        (convection_diffusion_2d(9, 8, 1.0), TILED),
    ] {
        let problem = Problem::new(&dissected(&a), &TreeOptions::default());
        let (memory, divisions) = divisions(&problem.symbolic, limits);
        let most = divisions.last().unwrap().num_links();
        assert!(divisions.len() > 1 && most > 2, "up to {most} links");
        most_links = most_links.max(most);
        // The bits depend on no schedule either, so that each tree has one of its own.
        let stream = streams.next().unwrap();
        let alone = tree_on_device(&stream, &problem, &problem.symbolic, limits);
        let expected = lu(&stream, alone, &problem);
        for division in divisions.iter().step_by(divisions.len() - 1) {
            let stream = streams.next().unwrap();
            let tree = placed(&problem, &problem.symbolic, |placement| {
                in_links(&stream, &problem.symbolic, division, &memory, placement)
            });
            let links = division.num_links();
            assert!(lu(&stream, tree, &problem) == expected, "{links} links");
        }
    }
    assert!(most_links > 3, "{most_links}");
}

#[test]
fn links_take_less_of_the_device() {
    let a = dissected(&convection_diffusion_3d(6, 5, 5, 1.0));
    let problem = Problem::new(&a, &TreeOptions::default());
    let (memory, divisions) = divisions(&problem.symbolic, TILED);
    let stream = &streams()[0];
    let whole = 8 * problem.symbolic.panel_entries();
    let mut before = u64::MAX;
    for division in &divisions {
        let tree = placed(&problem, &problem.symbolic, |placement| {
            in_links(stream, &problem.symbolic, division, &memory, placement)
        });
        let [on_device, on_peers, on_host] = tree.streamed_bytes(8).unwrap();
        assert_eq!(on_peers, 0);
        // All panels are on the host, and there is something between two links.
        assert!(on_host > whole, "{on_host} bytes, panels {whole}");
        let workspace = tree.planned_workspace_bytes(8).unwrap();
        let device = stream.device();
        let free = device.available_bytes().unwrap();
        let values = stream.upload(&problem.values).unwrap();
        let tree = Arc::new(tree);
        let (factors, _) =
            DeviceFrontalLu::<f64>::factorize(stream, &tree, &values, &PIVOTS).unwrap();
        let taken = free - device.available_bytes().unwrap();
        let predicted = on_device + workspace;
        let values = 8 * problem.values.len() as u64;
        // Beside them what there is for each pivot.
        let others = 12 * problem.symbolic.n() as u64 + 4096;
        assert!(
            (predicted..=predicted + values + others).contains(&taken),
            "{taken} bytes, predicted {predicted}"
        );
        assert!(on_device <= before);
        before = on_device;
        drop(factors);
    }
    assert!(before < whole, "{before} of {whole}");
    assert_eq!(memory.division(&problem.symbolic, 8, 64), None);
}

#[test]
fn peers_keep_what_they_have_room_for() {
    let a = dissected(&convection_diffusion_3d(5, 4, 4, 1.0));
    let problem = Problem::new(&a, &TreeOptions::default());
    let (memory, divisions) = divisions(&problem.symbolic, TILED);
    let division = divisions.last().unwrap();
    let devices = luge_tests::group(3);
    let streams = devices.iter().map(|device| device.create_stream().unwrap());
    let streams: Vec<Stream> = streams.collect();
    let alone = tree_on_device(&streams[0], &problem, &problem.symbolic, TILED);
    let expected = lu(&streams[0], alone, &problem);
    let whole = 8 * problem.symbolic.panel_entries();
    // Enough in both, too little in both, and in one but for others that take it first.
    for (rooms, budget) in [
        ([whole, whole], None),
        ([whole / 3, whole / 8], None),
        ([whole, 0], Some(4096)),
    ] {
        devices[1].set_budget(budget);
        let peers = [
            (streams[1].clone(), rooms[0]),
            (streams[2].clone(), rooms[1]),
        ];
        let tree = placed(&problem, &problem.symbolic, |placement| {
            let devices = (&streams[0], &peers[..]);
            with_peers(devices, &problem.symbolic, division, &memory, placement)
        });
        let [_, on_peers, on_host] = tree.streamed_bytes(8).unwrap();
        assert!(on_peers <= rooms[0] + rooms[1]);
        assert!(on_peers > 0 && (on_peers == whole) == (rooms[0] == whole));
        assert!(on_host > 0);
        // A GPU has more than the budget has, and takes it in blocks of its own.
        let is_simulated = luge_tests::backend() == Backend::Simulator;
        let free = devices[1].available_bytes().unwrap();
        let found = lu(&streams[0], tree, &problem);
        assert!(found == expected, "{rooms:?}");
        // Given back in the order of the peer's stream.
        streams[1].synchronize().unwrap();
        if is_simulated {
            assert_eq!(devices[1].available_bytes().unwrap(), free);
        }
    }
    devices[1].set_budget(None);
}

/// What is known of symmetric factors from outside.
fn ldlt(
    stream: &Stream,
    tree: DeviceTree<Lower>,
    problem: &frontal_ldlt::Problem,
    pivots: &PivotPolicy,
) -> (Vec<Vec<f64>>, String) {
    let tree = Arc::new(tree);
    let values = stream.upload(&problem.values).unwrap();
    let upload = |_: MovedTree<'_, Lower>| panic!("no column has to move");
    let (mut factors, quality) =
        DeviceFrontalLdlt::<f64>::factorize(stream, &tree, &values, pivots, &upload).unwrap();
    let again = factors
        .refactorize(stream, &values, pivots, &upload)
        .unwrap();
    let mut known = vec![stream.download(factors.diagonal()).unwrap()];
    for (nrhs, with) in [
        (1, SymmetricFactors::ALL),
        (9, SymmetricFactors::ALL),
        (1, SymmetricFactors::L),
        (1, SymmetricFactors::D),
        (1, SymmetricFactors::TRANSPOSED_L),
    ] {
        let mut x = stream.upload(&right_hand_sides(problem.n, nrhs)).unwrap();
        factors.solve_with(stream, &mut x, nrhs, with).unwrap();
        known.push(stream.download(&x).unwrap());
    }
    (known, format!("{quality:?} {again:?}"))
}

#[test]
fn symmetric_factors_are_those_of_the_whole_tree() {
    // Pivots of order 2 in all blocks.
    let value = |block: usize, i: usize, j: usize| match i == j && i.is_multiple_of(3) {
        true => 0.0,
        false => uniform(block as u64, i * 64 + j),
    };
    let blocks = [30, 25, 41, 12, 17];
    let n = blocks.iter().sum::<usize>() + 24;
    let indefinite = frontal_ldlt::Problem::new(n, joined(&blocks, 24, value), &unmerged());
    let definite = indefinite.with(|i, j, value| if i == j { 100.0 } else { value });
    let mut streams = streams().into_iter().cycle();
    for limits in [TILED, frontal_ldlt::all_limits()[4]] {
        for (problem, pivots) in [(&indefinite, SEARCHED), (&definite, PivotPolicy::DEFINITE)] {
            let (memory, divisions) = divisions(&problem.symbolic, limits);
            assert!(divisions.len() > 1);
            let stream = streams.next().unwrap();
            let alone = problem.uploaded(&stream, &problem.symbolic, limits);
            let expected = ldlt(&stream, alone, problem, &pivots);
            for division in &divisions {
                let stream = streams.next().unwrap();
                let tree = problem.placed(|placement| {
                    in_links(&stream, &problem.symbolic, division, &memory, placement)
                });
                let links = division.num_links();
                let found = ldlt(&stream, tree, problem, &pivots);
                assert!(found == expected, "{links} links");
            }
        }
    }
}

#[test]
fn columns_that_fail_move_in_links_too() {
    let a = darcy(5, 4, 5);
    let problem = Problem::new(&a, &TreeOptions::default());
    let stream = &streams()[0];
    let values = stream.upload(&problem.values).unwrap();
    let pivots = PivotPolicy::threshold(0.01);
    let solved = |tree: DeviceTree, upload: &dyn Fn(MovedTree<'_, Full>) -> DeviceTree| {
        let tree = Arc::new(tree);
        let workspace = Arc::new(Workspace::new(stream, &tree).unwrap());
        let upload = |moved: MovedTree<'_, Full>| Ok(upload(moved));
        let factorized = || {
            DeviceFrontalLu::<f64>::factorize_by_threshold(
                &workspace, stream, &tree, &values, &pivots, &upload,
            )
            .unwrap()
        };
        // The second time the workspace has no elements, for the first search has given them back.
        drop(factorized());
        let (mut factors, quality) = factorized();
        assert!(quality.num_delayed > 0);
        let mut x = stream
            .upload(&right_hand_sides(problem.symbolic.n(), 1))
            .unwrap();
        factors.solve(stream, &mut x, 1, false).unwrap();
        (stream.download(&x).unwrap(), format!("{quality:?}"))
    };
    let limits = TILED;
    let whole = |symbolic: &Arc<Symbolic>| tree_on_device(stream, &problem, symbolic, limits);
    let expected = solved(whole(&problem.symbolic), &|moved| {
        whole(&moved.symbolic(1).unwrap())
    });
    let links = Cell::new(0);
    let divided = |symbolic: &Arc<Symbolic>| {
        let (memory, divisions) = divisions(symbolic, limits);
        let division = divisions.last().unwrap();
        links.set(division.num_links());
        placed(&problem, symbolic, |placement| {
            in_links(stream, symbolic, division, &memory, placement)
        })
    };
    let found = solved(divided(&problem.symbolic), &|moved| {
        divided(&moved.symbolic(1).unwrap())
    });
    assert!(links.get() > 1);
    assert_eq!(found, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn any_division_has_the_same_bits((nx, ny) in (2usize..8, 2usize..8), part in 0usize..8) {
        let a = dissected(&convection_diffusion_2d(nx, ny, 1.0));
        let problem = Problem::new(&a, &TreeOptions::default());
        let (memory, divisions) = divisions(&problem.symbolic, TILED);
        prop_assume!(!divisions.is_empty());
        let division = &divisions[part % divisions.len()];
        let stream = &streams()[0];
        let alone = frontal::tree_on_device(stream, &problem, &problem.symbolic, TILED);
        let tree = placed(&problem, &problem.symbolic, |placement| {
            in_links(stream, &problem.symbolic, division, &memory, placement)
        });
        prop_assert_eq!(lu(stream, tree, &problem), lu(stream, alone, &problem));
    }
}
