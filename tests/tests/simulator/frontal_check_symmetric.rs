//! Checks of factors L·D·Lᵀ on the device: growth, and what bounds the error for A, by their definition, whatever the shape of the
//! fronts and the order of the pivots.

use std::sync::Arc;

use luge_device::Stream;
use luge_frontal::gpu::{DeviceCheck, DeviceFrontalLdlt, DeviceTree, Limits, MovedTree, Placement};
use luge_frontal::{Lower, Symbolic, TreeOptions};
use luge_gpu_kernels::frontal::check::TILE_ROWS;
use luge_gpu_kernels::frontal::check::symmetric::MOST_GROWTH;
use luge_sparse::{PivotPolicy, RealScalar, Scaling};

use crate::chain::{RealDeviceScalar, noise, seeded_streams, streams};
use crate::frontal_ldlt::{Problem, dense_factors, joined, uniform, unmerged};

/// A matrix A with scale factors, of which B is to be factorized.
struct Scaled {
    problem: Problem,
    factors: Vec<f64>,
    policy: PivotPolicy,
}

impl Scaled {
    /// Of the entries of B, with scale factors of up to 2^±`spread`.
    fn new(
        entries: impl IntoIterator<Item = (usize, usize, f64)>,
        spread: u64,
        options: &TreeOptions,
    ) -> Self {
        let entries: Vec<_> = entries.into_iter().collect();
        let n = 1 + entries.iter().map(|&(i, j, _)| i.max(j)).max().unwrap();
        let exponent = |i| (noise(5, i) % (2 * spread + 1)) as i32 - spread as i32;
        let factors: Vec<f64> = (0..n).map(|i| 2f64.powi(exponent(i))).collect();
        let of_a = |(i, j, v): (usize, usize, f64)| (i, j, v / factors[i] / factors[j]);
        Self {
            problem: Problem::new(n, entries.into_iter().map(of_a), options),
            factors,
            policy: PivotPolicy::symmetric(0.01),
        }
    }

    fn placed<R>(&self, of: impl FnOnce(&Placement<'_>) -> R) -> R {
        let scaling = Scaling {
            rows: self.factors.clone(),
            cols: self.factors.clone(),
        };
        self.problem.placed(|unscaled| {
            of(&Placement {
                scaling: &scaling,
                ..*unscaled
            })
        })
    }

    fn uploaded(&self, stream: &Stream, symbolic: &Arc<Symbolic<Lower>>) -> DeviceTree<Lower> {
        self.placed(|placement| {
            DeviceTree::upload_with(stream, symbolic, placement, Limits::default(), 1).unwrap()
        })
    }

    fn factorized<T: RealDeviceScalar>(&self, stream: &Stream) -> DeviceFrontalLdlt<T> {
        let tree = Arc::new(self.uploaded(stream, &self.problem.symbolic));
        let values = stream.upload(&self.problem.values).unwrap();
        let upload = |moved: MovedTree<'_, Lower>| Ok(self.uploaded(stream, &moved.symbolic(1)?));
        let factors = DeviceFrontalLdlt::factorize(stream, &tree, &values, &self.policy, &upload);
        factors.unwrap().0
    }

    fn checked<T: RealDeviceScalar>(
        &self,
        stream: &Stream,
        factors: &DeviceFrontalLdlt<T>,
    ) -> DeviceCheck {
        let a = stream.upload(&self.problem.values).unwrap();
        let tree = factors.tree();
        self.placed(|placement| tree.prepare_checks(stream, placement, 1).unwrap());
        factors.prepare_check(stream, &a).unwrap();
        factors.begin_check(stream, &a).unwrap();
        factors.check().unwrap()
    }
}

/// Sums over columns of B and of P = |L|·|D|·|Lᵀ|, and the sizes of pivots, all by columns.
struct ByDefinition {
    norms: Vec<f64>,
    products: Vec<f64>,
    /// Those of S⁻¹·P·S⁻¹, by (min S)².
    products_of_a: Vec<f64>,
    pivots: Vec<f64>,
    norm_of_a: f64,
}

impl ByDefinition {
    fn new<T: RealDeviceScalar>(
        scaled: &Scaled,
        stream: &Stream,
        factors: &DeviceFrontalLdlt<T>,
    ) -> Self {
        let n = scaled.problem.n;
        let [l, d] = dense_factors(stream, factors);
        let s = &scaled.factors;
        // Two for a tree of two halves, as long as scale factors are within 2^±120.
        let least = s.iter().copied().fold(f64::INFINITY, f64::min);
        let is_far = s.iter().any(|factor| factor.log2().abs() > 120.0);
        let weight = |i: usize| if is_far { 1.0 } else { least / s[i] };
        let mut p = vec![vec![0.0; n]; n];
        for i in 0..n {
            for q in 0..n {
                let of_row: f64 = (0..n).map(|r| l[i][r].abs() * d[r][q].abs()).sum();
                if of_row > 0.0 {
                    for j in 0..n {
                        p[j][i] += of_row * l[j][q].abs();
                    }
                }
            }
        }
        let column_of = |q: usize| {
            (0..n)
                .find(|&i| l[i][q] == 1.0 && is_first(&l, i, q))
                .unwrap()
        };
        let mut pivots = vec![0.0; n];
        let mut q = 0;
        while q < n {
            if q + 1 < n && d[q + 1][q] != 0.0 {
                let (a, b, c) = (d[q][q], d[q + 1][q], d[q + 1][q + 1]);
                let large = ((a + c) / 2.0).abs() + ((a - c) / 2.0).hypot(b);
                let small = (a * c - b * b).abs() / large;
                pivots[column_of(q)] = small;
                pivots[column_of(q + 1)] = small;
                q += 1;
            } else {
                pivots[column_of(q)] = d[q][q].abs();
            }
            q += 1;
        }
        let dense = scaled.problem.dense();
        let in_b = |i: usize, j: usize| {
            let value = dense[i][j] * s[i] * s[j];
            RealScalar::to_f64(<T as luge_sparse::Scalar>::narrow(value)).abs()
        };
        let sums = |of: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            (0..n).map(|j| (0..n).map(|i| of(i, j)).sum()).collect()
        };
        Self {
            norms: sums(&in_b),
            products: sums(&|i, j| p[i][j]),
            products_of_a: sums(&|i, j| p[i][j] * weight(i) * weight(j)),
            pivots,
            norm_of_a: largest(&sums(&|i, j| dense[i][j].abs())),
        }
    }

    fn growth(&self) -> f64 {
        let growth = self.products.iter().zip(&self.norms).map(|(p, n)| p / n);
        growth.fold(0.0, f64::max)
    }
}

/// Whether column `q` of L is the first that has something in row `i`, from the right.
fn is_first(l: &[Vec<f64>], i: usize, q: usize) -> bool {
    l[i][q + 1..].iter().all(|&entry| entry == 0.0)
}

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(0.0, f64::max)
}

fn smallest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Fronts of several tiles and of parts of one, with pivots of order 2; a row that all others are joined to; fronts that are handed
/// columns without a pivot; scale factors beyond those that are weighed.
fn systems() -> Vec<(&'static str, Scaled)> {
    let rows = TILE_ROWS as usize;
    let any = |block: usize, i: usize, j: usize| match (block, i == j) {
        (0, true) => 0.0,
        _ => uniform(block as u64, 1000 * i + j),
    };
    let tiles = joined(&[rows + 9, 6], 21, any);
    let hub = (0..99).flat_map(|i| {
        let next = (i + 1 < 99).then_some((i, i + 1, 1.0));
        let own = (i, i, if i % 3 == 0 { 0.0 } else { uniform(7, i) });
        [Some(own), next, Some((i, 99, uniform(8, i)))]
    });
    let hub: Vec<_> = hub.flatten().chain([(99, 99, 3.0)]).collect();
    // Two equal columns within each front leave nothing for the second.
    let equal = |_: usize, i: usize, j: usize| {
        if i < 4 && j < 4 {
            1.0
        } else {
            uniform(9, i * 99 + j)
        }
    };
    let delayed = joined(&[6, 5, 7], 9, equal);
    let plain = TreeOptions::default();
    vec![
        ("tiles", Scaled::new(tiles, 0, &plain)),
        ("hub", Scaled::new(hub.clone(), 9, &plain)),
        ("unmerged", Scaled::new(hub.clone(), 30, &unmerged())),
        ("delayed", Scaled::new(delayed, 12, &unmerged())),
        ("far", Scaled::new(hub, 140, &plain)),
    ]
}

fn check_definition<T: RealDeviceScalar>(stream: &Stream) {
    let (mut num_delayed, mut num_two) = (0, 0);
    for (name, scaled) in systems() {
        let factors = scaled.factorized::<T>(stream);
        num_delayed += factors.num_delayed();
        num_two += factors.quality().num_two;
        let check = scaled.checked(stream, &factors);
        let definition = ByDefinition::new(&scaled, stream, &factors);
        let quality = check.quality;
        let near = |found: f64, is: f64, what: &str| {
            let error = (found - is).abs() / is;
            assert!(
                error <= 1e-6,
                "{name}, {what}: {found:e}, by definition {is:e}"
            );
        };
        near(quality.max_norm, largest(&definition.norms), "norm");
        near(quality.min_norm, smallest(&definition.norms), "least norm");
        near(quality.max_pivot, factors.quality().max_pivot, "pivot");
        near(
            quality.min_pivot,
            factors.quality().min_pivot,
            "least pivot",
        );
        near(check.max_value, definition.norm_of_a, "norm of A");
        // Each part of a product is rounded up to a multiple of 2⁻¹² of at most twice the norm.
        let tree = factors.tree().symbolic().tree();
        let tiles = tree
            .fronts()
            .iter()
            .map(|front| front.pivots.div_ceil(TILE_ROWS));
        let parts = f64::from(tiles.sum::<u32>());
        let growth = definition.growth();
        let more = (quality.growth - growth) / 2f64.powi(-11);
        assert!(
            -1e-6 <= more && more <= 4.0 * parts,
            "{name}: growth {}, by definition {growth}",
            quality.growth
        );
        assert!(quality.growth < MOST_GROWTH);
        near(
            check.max_product,
            largest(&definition.products_of_a),
            "product of A",
        );
        let relative = |products: &[f64]| {
            let pairs = definition.pivots.iter().zip(products);
            pairs
                .map(|(pivot, of)| pivot / of)
                .fold(f64::INFINITY, f64::min)
        };
        let columns = definition.products.iter().zip(&definition.norms);
        let rounded_up: Vec<f64> = columns
            .map(|(p, n)| p + parts * n / 2f64.powi(10))
            .collect();
        let (least, most) = (relative(&rounded_up), relative(&definition.products));
        let found = quality.min_relative_pivot;
        assert!(
            least * (1.0 - 1e-6) <= found && found <= most * (1.0 + 1e-6),
            "{name}: {found:e}, by definition from {least:e} to {most:e}"
        );
        assert_eq!((quality.checksum, check.max_residual), (0.0, 0.0));
    }
    assert!(num_delayed > 0 && num_two > 30, "{num_delayed}, {num_two}");
}

#[test]
fn growth_of_symmetric_factors_is_that_of_the_definition() {
    for stream in streams() {
        check_definition::<f64>(&stream);
    }
    check_definition::<f32>(&seeded_streams()[0]);
}

#[test]
fn symmetric_factors_that_grow_too_much_are_told() {
    let stream = &seeded_streams()[0];
    let of = |first: f64| {
        let entries = [(0, 0, first), (0, 1, 1.0), (1, 1, 1.0)];
        let mut scaled = Scaled::new(entries, 0, &TreeOptions::default());
        scaled.policy = PivotPolicy::symmetric(1e-30);
        scaled
    };
    for (exponent, is_told) in [(-6, true), (-18, true), (-22, false), (-60, false)] {
        // (2^−s 1; 1 1) with the pivots of (4 1; 1 1): the growth is about 2^s.
        let mut factors = of(4.0).factorized::<f64>(stream);
        let scaled = of(2f64.powi(exponent));
        let values = stream.upload(&scaled.problem.values).unwrap();
        factors
            .begin_refactorize(stream, &values, &scaled.policy)
            .unwrap();
        assert!(
            factors.report(stream).unwrap().is_some(),
            "the pivots serve"
        );
        let check = scaled.checked(stream, &factors);
        let growth = check.quality.growth;
        assert_eq!(growth.is_finite(), is_told, "2^{exponent}: {check:?}");
        assert_eq!(check.max_product.is_finite(), is_told);
        assert!(growth >= 2f64.powi(-exponent - 1));
    }
}
