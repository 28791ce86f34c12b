//! Checks of factors on the device: growth and checksum by their definition, whatever the shape of the fronts, and errors that they
//! notice.

use std::sync::Arc;

use luge_device::Stream;
use luge_frontal::gpu::{DeviceCheck, DeviceFrontalLu, Placement};
use luge_frontal::{AssemblyTree, TreeOptions};
use luge_gpu_kernels::frontal::check::{GROUP, MOST_GROWTH, TILE_ROWS};
use luge_sparse::{PivotPolicy, RealScalar};
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};
use sprs::CsMat;

use crate::chain::{RealDeviceScalar, seeded_streams, streams};
use crate::frontal_solve::{PIVOTS, System, joined_fronts, merged};

/// Norms of columns of B, sums over columns of |L|·|U|, and pivots, in the order of elimination.
struct ByDefinition {
    norms: Vec<f64>,
    products: Vec<f64>,
    pivots: Vec<f64>,
}

impl ByDefinition {
    fn new<T: RealDeviceScalar>(
        system: &System,
        stream: &Stream,
        factors: &DeviceFrontalLu<T>,
    ) -> Self {
        let tree = factors.tree().symbolic().tree();
        let n = system.n();
        let panels = stream.download(factors.factors()).unwrap();
        let panels: Vec<f64> = panels.iter().map(|&v| RealScalar::to_f64(v)).collect();
        let (mut products, mut pivots) = (vec![0.0; n], vec![0.0; n]);
        let mut start_of_panel = 0;
        for (s, front) in tree.fronts().iter().enumerate() {
            let (start, k) = (front.start as usize, front.pivots as usize);
            let rows = tree.rows_below(s);
            let m = k + rows.len();
            let panel = &panels[start_of_panel..];
            start_of_panel += k * (m + rows.len());
            for i in 0..k {
                let below = &panel[i * m + i + 1..(i + 1) * m];
                let size = 1.0 + below.iter().map(|v| v.abs()).sum::<f64>();
                for j in i..k {
                    products[start + j] += size * panel[j * m + i].abs();
                }
                let of_row = &panel[k * m + i * rows.len()..];
                for (&row, &value) in rows.iter().zip(of_row) {
                    products[row as usize] += size * value.abs();
                }
                pivots[start + i] = panel[i * m + i].abs();
            }
        }
        let mut norms = vec![0.0; n];
        let block = |i: usize| system.block_ptr.partition_point(|&start| start <= i);
        for (i, row) in system.rows.iter().enumerate() {
            for &(j, value) in row.iter().filter(|&&(j, _)| block(i) == block(j)) {
                let value: f64 = RealScalar::to_f64(<T as luge_sparse::Scalar>::narrow(value));
                norms[j] += value.abs();
            }
        }
        let norms = tree.perm().iter().map(|&column| norms[column as usize]);
        Self {
            norms: norms.collect(),
            products,
            pivots,
        }
    }

    fn growth(&self) -> f64 {
        let growth = self.products.iter().zip(&self.norms).map(|(p, n)| p / n);
        growth.fold(0.0, f64::max)
    }
}

/// The weight of each column, in the order of elimination: its factor and the smallest one of the rows of all fronts that have the
/// column, beside the smallest ones; 1 where factors are beyond 2^±120.
fn weights(system: &System, tree: &AssemblyTree) -> Vec<f64> {
    let Placement {
        row_perm,
        col_perm,
        scaling,
        ..
    } = system.placement();
    let factors = |of: &[f64], to_a: &[u32]| -> Vec<f64> {
        let placed = tree.perm().iter().map(|&e| of[to_a[e as usize] as usize]);
        placed.collect()
    };
    let rows = factors(&scaling.rows, row_perm.as_slice());
    let cols = factors(&scaling.cols, col_perm.as_slice());
    let is_far = |factor: &f64| factor.log2().abs() > 120.0;
    if rows.iter().chain(&cols).any(is_far) {
        return vec![1.0; rows.len()];
    }
    let mut of_fronts = vec![f64::INFINITY; rows.len()];
    for (s, front) in tree.fronts().iter().enumerate() {
        let below = tree.rows_below(s).iter().copied();
        let members: Vec<_> = (front.start..front.start + front.pivots)
            .chain(below)
            .map(|e| e as usize)
            .collect();
        for &one in &members {
            let smallest = members.iter().map(|&other| rows[other]);
            of_fronts[one] = smallest.fold(of_fronts[one], f64::min);
        }
    }
    let all = smallest(&rows) * smallest(&cols);
    let own = of_fronts.iter().zip(&cols);
    own.map(|(row, col)| all / (row * col)).collect()
}

fn weighted(numbers: &[f64], weights: &[f64]) -> f64 {
    let products = numbers.iter().zip(weights).map(|(n, w)| n * w);
    products.fold(0.0, f64::max)
}

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(0.0, f64::max)
}

fn smallest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

fn checked<T: RealDeviceScalar>(
    system: &System,
    stream: &Stream,
    factors: &mut DeviceFrontalLu<T>,
    a: &[f64],
) -> DeviceCheck {
    let a = stream.upload(a).unwrap();
    let tree = Arc::clone(factors.tree());
    tree.prepare_checks(stream, &system.placement(), 1).unwrap();
    factors.prepare_check(stream, &a).unwrap();
    factors.begin_check(stream, &a).unwrap();
    factors.check().unwrap()
}

/// Fronts of several tiles, and of parts of one; with couplings and exchanges of rows.
fn systems() -> Vec<(&'static str, System, TreeOptions)> {
    let (rows, group) = (TILE_ROWS as usize, GROUP as usize);
    let tiles = joined_fronts(&[rows + 1, group - 1], 4 * group + 1, true);
    let coupled = |i: usize, j: usize| (i * 7 + j).is_multiple_of(5);
    let blocks = [
        circuit(40, 3),
        convection_diffusion_2d(5, 4, 0.3),
        circuit(25, 9),
    ];
    vec![
        ("tiles", System::alone(&tiles), TreeOptions::default()),
        (
            "blocks",
            System::new(&blocks, coupled, 9, 11),
            TreeOptions::default(),
        ),
        ("merged", System::new(&blocks, coupled, 9, 12), merged()),
        (
            "far",
            System::new(&blocks[..1], coupled, 140, 13),
            TreeOptions::default(),
        ),
    ]
}

fn check_definition<T: RealDeviceScalar>(stream: &Stream) {
    let epsilon = <T as luge_sparse::num_traits::Float>::epsilon().to_f64();
    for (name, system, options) in systems() {
        let mut factors = system.factorized::<T>(stream, &options);
        let check = checked(&system, stream, &mut factors, &system.a);
        let definition = ByDefinition::new(&system, stream, &factors);
        let quality = check.quality;
        let near = |found: f64, is: f64, what: &str| {
            let error = (found - is).abs() / is;
            assert!(
                error <= 1e-12,
                "{name}, {what}: {found:e}, by definition {is:e}"
            );
        };
        near(quality.max_norm, largest(&definition.norms), "norm");
        near(quality.min_norm, smallest(&definition.norms), "least norm");
        near(quality.max_pivot, largest(&definition.pivots), "pivot");
        near(
            quality.min_pivot,
            smallest(&definition.pivots),
            "least pivot",
        );
        // Each part of a product is rounded up to a multiple of 2⁻¹² of at most twice the norm.
        let fronts = factors.tree().symbolic().tree().num_supernodes() as f64;
        let growth = definition.growth();
        let more = (quality.growth - growth) / 2f64.powi(-11);
        assert!(
            -1e-6 <= more && more <= 4.0 * fronts,
            "{name}: growth {}, by definition {growth}",
            quality.growth
        );
        assert!(quality.growth < MOST_GROWTH);
        let weights = weights(&system, factors.tree().symbolic().tree());
        let more = check.max_product - weighted(&definition.products, &weights);
        let unit = weighted(&definition.norms, &weights) / 2f64.powi(11);
        assert!(
            -1e-6 * check.max_product <= more && more <= 4.0 * fronts * unit,
            "{name}: product {:e}, {more:e} more than by definition",
            check.max_product
        );
        let is_scaled = ["blocks", "merged"].contains(&name);
        assert_eq!(check.max_product < largest(&definition.products), is_scaled);
        // ε times the growth is what rounding makes of it.
        assert!(
            quality.checksum <= 16.0 * epsilon * growth,
            "{name}: checksum {:e}, growth {growth}",
            quality.checksum
        );
        assert_eq!(
            (quality.min_pivot_ratio, quality.max_pivot_ratio),
            (1.0, 1.0)
        );
        let largest = system.entries.iter().map(|&p| system.a[p as usize].abs());
        assert_eq!(check.max_value, largest.fold(0.0, f64::max));
    }
}

#[test]
fn growth_and_checksum_are_those_of_the_definition() {
    for stream in streams() {
        check_definition::<f64>(&stream);
    }
    check_definition::<f32>(&seeded_streams()[0]);
}

#[test]
fn an_error_anywhere_in_b_is_in_the_checksum() {
    let stream = &seeded_streams()[0];
    for (name, system, options) in systems() {
        let mut factors = system.factorized::<f64>(stream, &options);
        let right = checked(&system, stream, &mut factors, &system.a);
        let tree = factors.tree().symbolic().tree();
        let weights = weights(&system, tree);
        let mut weights_in_b = vec![0.0; system.n()];
        for (&column, &weight) in tree.perm().iter().zip(&weights) {
            weights_in_b[column as usize] = weight;
        }
        let step = system.entries.len() / 24;
        let mut entries = 0..;
        let mut num_told = 0;
        for (j, column) in system.columns.lines().enumerate() {
            for (&i, at) in column.iter().zip(&mut entries) {
                let row = &system.rows[i as usize];
                let (_, value) = row.iter().find(|&&(column, _)| column == j).unwrap();
                let error = (value * 2f64.powi(-20)).abs() * weights_in_b[j];
                if at % step > 0 || error < 8.0 * right.max_residual {
                    continue;
                }
                let mut a = system.a.clone();
                a[system.entries[at] as usize] *= 1.0 + 2f64.powi(-20);
                let wrong = checked(&system, stream, &mut factors, &a);
                // The other errors of the column have either sign, and so have roundings of its sums.
                let entries = system.rows.iter().flatten();
                let of_column = entries.filter(|&&(column, _)| column == j);
                let norm: f64 = of_column.map(|(_, value)| value.abs()).sum();
                let of_others =
                    2.0 * right.max_residual + 16.0 * f64::EPSILON * norm * weights_in_b[j];
                assert!(
                    (wrong.max_residual - error).abs() <= of_others,
                    "{name}, entry {i}, {j}: {:e} for an error of {error:e}",
                    wrong.max_residual
                );
                num_told += 1;
            }
        }
        assert!(num_told > 12, "{name}: {num_told}");
        // Couplings are not factorized.
        let others = (0..system.a.len() as u32).filter(|p| !system.entries.contains(p));
        let mut a = system.a.clone();
        others.for_each(|p| a[p as usize] *= 2.0);
        assert_eq!(checked(&system, stream, &mut factors, &a), right);
    }
}

#[test]
fn refactorizations_are_compared_with_the_pivots_before() {
    let stream = &seeded_streams()[0];
    let (_, system, options) = systems().swap_remove(1);
    let mut factors = system.factorized::<f64>(stream, &options);
    let tree = Arc::clone(factors.tree());
    tree.prepare_checks(stream, &system.placement(), 1).unwrap();
    let fronts = tree.symbolic().tree().num_supernodes() as f64;
    let mut would_be_noticed = false;
    for factor in [0.98, 1.02, 1.0] {
        let before: Vec<f64> = factors.pivots(stream).unwrap();
        let old = ByDefinition::new(&system, stream, &factors);
        let a: Vec<f64> = (0..)
            .zip(&system.a)
            .map(|(p, &v)| if p % 3 == 0 { v * factor } else { v })
            .collect();
        let a = stream.upload(&a).unwrap();
        loop {
            factors.prepare_check(stream, &a).unwrap();
            factors.begin_refactorize(stream, &a, &PIVOTS).unwrap();
            factors.begin_check(stream, &a).unwrap();
            if factors.report().unwrap().is_some() {
                break;
            }
        }
        let quality = factors.check().unwrap().quality;
        let pivots = factors.pivots(stream).unwrap();
        let ratios = || {
            pivots
                .iter()
                .zip(&before)
                .map(|(new, old)| (new / old).abs())
        };
        assert_eq!(quality.max_pivot_ratio, ratios().fold(0.0, f64::max));
        assert_eq!(
            quality.min_pivot_ratio,
            ratios().fold(f64::INFINITY, f64::min)
        );
        assert!(quality.checksum < 1e-13, "{quality:?}");
        // Each pivot beside its own column, whose sum is rounded up for each front that has something for it.
        let definition = ByDefinition::new(&system, stream, &factors);
        let columns = definition.products.iter().zip(&definition.norms);
        let rounded_up = |(product, norm): (&f64, &f64)| product + fronts * norm / 2f64.powi(11);
        let smallest = |pivots: &[f64], products: &[f64]| {
            let relative = pivots.iter().zip(products).map(|(p, of)| p / of);
            relative.fold(f64::INFINITY, f64::min)
        };
        let most = smallest(&definition.pivots, &definition.products);
        let rounded_up: Vec<f64> = columns.map(rounded_up).collect();
        let least = smallest(&definition.pivots, &rounded_up);
        let found = quality.min_relative_pivot;
        assert!(
            least <= found && found <= most * (1.0 + 1e-12),
            "{found:e}, by definition from {least:e} to {most:e}"
        );
        let of_old = smallest(&old.pivots, &definition.products);
        would_be_noticed |= of_old < least || most < of_old;
    }
    assert!(would_be_noticed, "the old pivots in the place of the new");
}

#[test]
fn what_is_not_finite_or_grows_too_much_is_told() {
    let stream = &seeded_streams()[0];
    // (2^−s 1; 1 1): the growth is about 2^s.
    let of = |tiny: f64| {
        let block = CsMat::new(
            (2, 2),
            vec![0, 2, 4],
            vec![0, 1, 0, 1],
            vec![tiny, 1.0, 1.0, 1.0],
        );
        let system = System::alone(&block);
        // No exchange.
        let pivots = PivotPolicy::replacing(1e-300).in_fronts(1e-30);
        let mut factors = system.factorized_with::<f64>(stream, &TreeOptions::default(), &pivots);
        checked(&system, stream, &mut factors, &system.a).quality
    };
    let tame = of(2f64.powi(-6));
    assert!(tame.growth > 32.0 && tame.checksum < 1e-14, "{tame:?}");
    let wild = of(2f64.powi(-16));
    assert!(
        wild.growth > MOST_GROWTH && wild.checksum == f64::INFINITY,
        "{wild:?}"
    );
    let hopeless = of(2f64.powi(-60));
    assert!(hopeless.growth == f64::INFINITY, "{hopeless:?}");
}

#[test]
fn couplings_that_are_no_numbers_are_told() {
    let stream = &seeded_streams()[0];
    let (_, system, options) = systems().swap_remove(1);
    let mut factors = system.factorized::<f64>(stream, &options);
    let tree = Arc::clone(factors.tree());
    tree.prepare_checks(stream, &system.placement(), 1).unwrap();
    let mut coupling = (0..system.a.len()).filter(|&p| !system.entries.contains(&(p as u32)));
    let mut a = system.a.clone();
    a[coupling.next().unwrap()] = f64::NAN;
    let a = stream.upload(&a).unwrap();
    factors.prepare_check(stream, &a).unwrap();
    factors.begin_refactorize(stream, &a, &PIVOTS).unwrap();
    factors.begin_check(stream, &a).unwrap();
    assert!(factors.report().unwrap().is_some());
    let quality = factors.check().unwrap().quality;
    assert!(
        quality.checksum.is_infinite() && quality.growth < 100.0,
        "{quality:?}"
    );
}
