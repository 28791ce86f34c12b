//! Fronts that are factorized again where values changed: factors and reports are those of a whole refactorization, bit for bit.

use std::sync::Arc;

use luge_device::{Buffer, Stream};
use luge_frontal::TreeOptions;
use luge_frontal::gpu::{
    Changed, DeviceFrontalError, DeviceFrontalLu, DeviceQuality, Limits, Workspace,
    put_changed_values,
};
use luge_sparse::{CancelFlag, PivotPolicy};
use luge_testkit::generators::applications::{
    circuit, convection_diffusion_2d, convection_diffusion_3d, rc_mesh,
};
use luge_testkit::strategies::dominant_matrices;
use proptest::prelude::*;
use sprs::{CsMat, TriMat};

use crate::chain::{RealDeviceScalar, noise, seeded_streams};
use crate::frontal::{Problem, all_limits, placed, uploaded};
use crate::frontal_solve::dissected;

const PIVOTS: PivotPolicy = PivotPolicy::replacing(1e-300).in_fronts(0.1);

/// Factors of one matrix twice, which work in the same memory: refactorized as a whole, and told what changed.
struct Pair<'a, T: RealDeviceScalar> {
    stream: &'a Stream,
    problem: Problem,
    pivots: PivotPolicy,
    whole: DeviceFrontalLu<T>,
    told: DeviceFrontalLu<T>,
    values: Buffer<f64>,
}

impl<'a, T: RealDeviceScalar> Pair<'a, T> {
    fn new(stream: &'a Stream, a: &CsMat<f64>, limits: Limits, pivots: PivotPolicy) -> Self {
        let problem = Problem::new(a, &TreeOptions::default());
        let tree = uploaded(stream, &problem, limits);
        let space = Arc::new(Workspace::new(stream, &tree).unwrap());
        let values = stream.upload(&problem.values).unwrap();
        let [whole, told] = [0, 1].map(|_| {
            let made = DeviceFrontalLu::factorize_in(&space, stream, &tree, &values, &pivots);
            made.unwrap().0
        });
        Self {
            stream,
            problem,
            pivots,
            whole,
            told,
            values,
        }
    }

    /// Factorizes the values that are there, those at these places being others than before.
    fn renew_told(&mut self, places: &[u32]) -> Result<DeviceQuality, DeviceFrontalError> {
        let symbolic = &self.problem.symbolic;
        let cancel = CancelFlag::new();
        placed(&self.problem, symbolic, |placement| {
            let changed = Changed {
                places,
                placement,
                cancel: &cancel,
                threads: 1,
            };
            loop {
                self.told.begin_refactorize_changed(
                    self.stream,
                    &self.values,
                    &self.pivots,
                    &changed,
                )?;
                if let Some(quality) = self.told.report()? {
                    return Ok(quality);
                }
            }
        })
    }

    /// Changes values at some places, compares what both make of that, and tells which part was done. After an error both
    /// have the old values again.
    fn change(&mut self, places: &[u32], factor: impl Fn(usize) -> f64) -> Result<f64, String> {
        let stream = self.stream;
        let old: Vec<f64> = places
            .iter()
            .map(|&p| self.problem.values[p as usize])
            .collect();
        let new: Vec<f64> = (0..).zip(&old).map(|(k, v)| v * factor(k)).collect();
        put_changed_values::<T>(stream, (places, &new), &mut self.values).unwrap();
        let scale = self.whole.scale();
        let expected = self.whole.refactorize(stream, &self.values, &self.pivots);
        let renewed = self.renew_told(places);
        let part = self.told.refactorized_part();
        let text = |outcome: &Result<DeviceQuality, _>| format!("{outcome:?}");
        assert_eq!(text(&renewed), text(&expected));
        match &renewed {
            Ok(_) => {
                for (&p, &v) in places.iter().zip(&new) {
                    self.problem.values[p as usize] = v;
                }
            }
            Err(_) => {
                put_changed_values::<T>(stream, (places, &old), &mut self.values).unwrap();
                for factors in [&mut self.whole, &mut self.told] {
                    factors.set_scale(scale);
                    let restored = factors.refactorize(stream, &self.values, &self.pivots);
                    restored.unwrap();
                }
            }
        }
        assert_eq!(
            stream.download(&self.values).unwrap(),
            self.problem.values,
            "values in their places"
        );
        let bits = |factors: &DeviceFrontalLu<T>| stream.download(factors.factors()).unwrap();
        assert!(bits(&self.told) == bits(&self.whole), "the same factors");
        renewed.map(|_| part).map_err(|e| e.to_string())
    }

    /// Compares solutions. Solves write to memory in which elements were.
    fn solve(&mut self) {
        let (stream, n) = (self.stream, self.problem.symbolic.n());
        let b: Vec<f64> = (0..2 * n).map(|i| 1.0 + (i % 7) as f64).collect();
        for (nrhs, transpose) in [(1, false), (2, true)] {
            let [x, y] = [&mut self.told, &mut self.whole].map(|factors| {
                let mut x = stream.upload(&b[..n * nrhs]).unwrap();
                factors.solve(stream, &mut x, nrhs, transpose).unwrap();
                stream.download(&x).unwrap()
            });
            assert!(x == y, "the same solutions");
        }
    }

    /// Places of so many entries of the matrix at most, in columns that follow a first one.
    fn places(&self, seed: u64, count: usize) -> Vec<u32> {
        let columns = &self.problem.columns;
        let nnz = columns.nnz();
        let first = noise(seed, 0) as usize % nnz;
        let mut places: Vec<u32> = (0..count)
            .map(|k| ((first + noise(seed, k + 1) as usize % 16) % nnz) as u32)
            .collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

fn near_one(seed: u64) -> impl Fn(usize) -> f64 {
    move |k| 1.0 + (noise(seed, k) % 64) as f64 / 4096.0
}

/// Makes changes here and there, each twice, and tells which parts of the work they took.
fn check<T: RealDeviceScalar>(
    stream: &Stream,
    a: &CsMat<f64>,
    limits: Limits,
    changes: u64,
) -> Vec<f64> {
    let mut pair = Pair::<T>::new(stream, a, limits, PIVOTS);
    let mut parts = Vec::new();
    for seed in 0..changes {
        let places = pair.places(seed, 1 + seed as usize % 6);
        for again in 0..2 {
            let part = pair.change(&places, near_one(2 * seed + again)).unwrap();
            parts.push(part);
        }
        pair.solve();
    }
    assert_eq!(parts[0], 1.0, "nothing was kept before the first");
    parts
}

#[test]
fn some_fronts_leave_what_all_leave() {
    let streams = seeded_streams();
    let matrices = [
        ("grid", dissected(&convection_diffusion_2d(11, 10, 1.0))),
        ("cube", dissected(&convection_diffusion_3d(4, 4, 4, 1.0))),
        ("circuit", circuit(90, 3)),
        ("mesh", dissected(&rc_mesh(9, 9, 2))),
    ];
    for (number, limits) in all_limits().into_iter().enumerate() {
        let stream = &streams[number % streams.len()];
        let (name, a) = &matrices[number % 4];
        let parts = check::<f64>(stream, a, limits, 2);
        let least = parts.iter().copied().fold(1.0, f64::min);
        assert!(least < 0.8, "{name}, {limits:?}: {parts:?}");
    }
    check::<f32>(&streams[0], &matrices[0].1, all_limits()[6], 2);
}

/// Where elements take turns in their memory, in several units and launches, writers wait for readers of the same call alone.
#[test]
fn elements_take_turns_among_some_fronts() {
    let a = dissected(&convection_diffusion_3d(6, 5, 5, 1.0));
    for (seed, tiled_front) in [(0, u32::MAX), (1, 30)] {
        let limits = Limits {
            small_front: 4,
            whole_front: 20,
            tiled_front,
            gathered: 2,
            apart: 0,
            many_of_thread: 0,
        };
        let streams = seeded_streams();
        let stream = &streams[seed % streams.len()];
        let mut pair = Pair::<f64>::new(stream, &a, limits, PIVOTS);
        let nnz = pair.problem.columns.nnz();
        let mut parts = Vec::new();
        for step in [nnz, nnz / 3, nnz / 2] {
            let places: Vec<u32> = (0..nnz).step_by(step).map(|p| p as u32).collect();
            parts.push(pair.change(&places, near_one(step as u64)).unwrap());
        }
        assert!(parts[1..].iter().all(|&part| part < 1.0), "{parts:?}");
    }
}

/// 2 on the diagonal, 1 below it: a chain of fronts, whose pivots are the entries of the diagonal.
fn chain_of(n: usize) -> CsMat<f64> {
    let mut a = TriMat::new((n, n));
    for i in 0..n {
        a.add_triplet(i, i, 2.0);
        if i > 0 {
            a.add_triplet(i, i - 1, 1.0);
        }
    }
    a.to_csc()
}

/// The place of entry (i, i) of a chain.
fn diagonal(i: usize) -> u32 {
    2 * i as u32
}

#[test]
fn all_fronts_follow_replaced_pivots_errors_and_other_magnitudes() {
    let stream = &seeded_streams()[0];
    let pivots = PivotPolicy::replacing(1e-6).in_fronts(0.1);
    for limits in [all_limits()[0], all_limits()[5]] {
        let mut pair = Pair::<f64>::new(stream, &chain_of(80), limits, pivots);
        let places = [diagonal(3), diagonal(70)];
        let mut part = |places: &[u32], factor: f64| pair.change(places, |_| factor);
        assert_eq!(part(&places, 1.25), Ok(1.0));
        assert!(part(&places, 0.75).unwrap() < 1.0);
        // A pivot is replaced in a call that knows how many there were, and is counted in the next.
        assert!(part(&places[..1], 1e-9).unwrap() < 1.0);
        assert_eq!(part(&places[1..], 1.5), Ok(1.0));
        assert_eq!(part(&places[..1], 1e9), Ok(1.0));
        assert!(part(&places[..1], 0.5).unwrap() < 1.0);
        // What is not finite leaves the old factors, of which all is known again.
        let error = part(&places, f64::NAN).unwrap_err();
        assert!(error.contains("not finite"), "{error}");
        assert!(part(&places, 0.75).unwrap() < 1.0);
        // The largest entry becomes another one, near and far away.
        assert!(part(&places[1..], 1.5).unwrap() < 1.0);
        assert!(part(&places[1..], 0.25).unwrap() < 1.0);
        assert_eq!(part(&places[1..], 1e3), Ok(1.0));
        assert!(part(&places[1..], 0.5).unwrap() < 1.0);
        assert_eq!(part(&places[1..], 1e-3), Ok(1.0));
        // A whole refactorization leaves all that the next call needs.
        let (told, values) = (&mut pair.told, &pair.values);
        told.refactorize(stream, values, &pivots).unwrap();
        assert_eq!(told.refactorized_part(), 1.0);
        assert!(pair.change(&places, |_| 1.5).unwrap() < 1.0);
        // Nothing changes, and everything does.
        assert_eq!(pair.change(&[], |_| 1.0), Ok(0.0));
        let all: Vec<u32> = (0..pair.problem.columns.nnz() as u32).collect();
        assert_eq!(pair.change(&all, near_one(1)), Ok(1.0));
    }
}

#[test]
fn without_memory_for_elements_all_fronts_are_factorized() {
    let stream = &seeded_streams()[0];
    let a = dissected(&convection_diffusion_2d(9, 9, 1.0));
    let mut pair = Pair::<f64>::new(stream, &a, Limits::default(), PIVOTS);
    let device = stream.device();
    // Enough for the values that change.
    device.set_budget(Some(device.allocated_bytes() + 20_000));
    for seed in 0..2 {
        assert_eq!(pair.change(&[5, 9], near_one(seed)), Ok(1.0));
    }
    device.set_budget(None);
    assert_eq!(
        pair.change(&[5, 9], near_one(2)),
        Ok(1.0),
        "it is not asked for again"
    );
    assert_eq!(pair.change(&[5, 9], near_one(3)), Ok(1.0));
}

#[test]
fn a_matrix_without_rows_has_no_fronts() {
    let stream = &seeded_streams()[0];
    let a = CsMat::<f64>::zero((0, 0)).to_csc();
    let mut pair = Pair::<f64>::new(stream, &a, Limits::default(), PIVOTS);
    assert_eq!(pair.change(&[], |_| 1.0), Ok(1.0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn any_changes_of_any_matrix_leave_what_a_whole_refactorization_does(
        a in dominant_matrices(50),
        limits in 0usize..7,
        changes in proptest::collection::vec((any::<u64>(), 0usize..5), 1..5),
    ) {
        // Without an entry there is nothing to change.
        prop_assume!(a.nnz() > 0);
        let streams = seeded_streams();
        let stream = &streams[limits % streams.len()];
        let mut pair = Pair::<f64>::new(stream, &a, all_limits()[limits], PIVOTS);
        for (seed, count) in changes {
            let places = pair.places(seed, count);
            pair.change(&places, near_one(seed)).unwrap();
        }
        pair.solve();
    }
}
