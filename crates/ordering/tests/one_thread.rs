//! With one thread no other is used. A test of its own, because a process has one global pool.

mod common;

use common::{grid, pattern, random_values};
use luge_ordering::{Matching, Method, OrderingOptions, order};

#[test]
fn one_thread_starts_no_pool() {
    // Large enough for every step to be shared among threads, if there were some.
    let symmetric = grid(150, 150);
    let n = symmetric.major_dim();
    let mut rows: Vec<Vec<u32>> = symmetric.lines().map(<[u32]>::to_vec).collect();
    rows[0].push(n as u32 - 1);
    for a in [symmetric, pattern(n, &rows)] {
        let values = random_values(&a, 1.0, 1);
        for method in [Method::Auto, Method::NestedDissection, Method::Colamd] {
            for matching in [Matching::Auto, Matching::Always] {
                let options = OrderingOptions::default()
                    .method(method.clone())
                    .matching(matching)
                    .threads(1);
                order(&a, Some(&values), &options).unwrap();
            }
        }
    }
    // This fails if the pool was started before.
    rayon::ThreadPoolBuilder::new().build_global().unwrap();
}
