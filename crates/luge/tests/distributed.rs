//! Several ranks that are threads.

mod ranks;

use std::time::{Duration, Instant};

use luge::distributed::{RankErrorKind, Ranks, Threads};
use luge::{CpuEngine, Options};
use luge_testkit::generators::applications::convection_diffusion_3d;

fn on_threads(sizes: &[usize], check: fn(&Ranks)) {
    for &size in sizes {
        Threads::run(size, |comm| check(&Ranks::new(comm).unwrap()));
    }
}

#[test]
fn results_are_those_of_one_rank() {
    on_threads(&[1, 2, 3, 5], ranks::results_are_those_of_one_rank);
}

#[test]
fn patterns_are_those_of_one_rank() {
    on_threads(&[1, 2, 3, 5], ranks::patterns_are_those_of_one_rank);
}

#[test]
fn failures_are_those_of_all() {
    on_threads(&[1, 2, 4], ranks::failures_are_those_of_all);
}

#[test]
fn rows_come_together() {
    on_threads(&[1, 2, 3], ranks::rows_come_together);
}

#[test]
fn a_rank_that_leaves_is_named_by_all() {
    let a = convection_diffusion_3d(6, 6, 5, 2.0);
    let start = Instant::now();
    let errors = Threads::run(4, |comm| {
        let ranks = Ranks::new(comm).unwrap().least_seconds(0.0);
        let options = Options::default().engine(CpuEngine::Fronts);
        let analysis = ranks.solver(options).unwrap().analyze(&a);
        if ranks.rank() == 2 {
            analysis.unwrap();
            return None;
        }
        // Who is late has not even the analysis when others notice.
        let factors = analysis.and_then(|analysis| analysis.factorize(&a));
        Some(factors.map(drop).unwrap_err())
    });
    assert!(start.elapsed() < Duration::from_secs(10));
    for (rank, error) in errors.into_iter().enumerate() {
        let told = error.map(|error| (error.rank, error.kind));
        assert_eq!(
            told,
            (rank != 2).then_some((2, RankErrorKind::Communication))
        );
    }
}
