//! The two nested dissections side by side on the corpus: fill, operations and time.
//!
//! ```sh
//! cargo test --release -p luge-ordering --features metis --test against_metis -- --ignored --nocapture
//! ```

use luge_ordering::{Costs, Method, MethodUsed, Ordering, OrderingOptions, order};
use luge_sparse::CompressedPattern;
use luge_testkit::convert::pattern_of;
use luge_testkit::corpus::Corpus;

/// Factorizations that an order serves, as the solver assumes them.
const FACTORIZATIONS: f64 = 100.0;

/// What the product of the ratios of fill may be, to the power of one over their number.
const MOST_FILL: f64 = 0.97;

/// Likewise of the operations.
const MOST_OPERATIONS: f64 = 0.92;

/// Likewise of the times on one thread.
const MOST_SECONDS: f64 = 0.6;

fn ordered(a: &CompressedPattern, values: &[f64], method: Method) -> Option<Ordering> {
    let options = OrderingOptions::default().method(method).costs(Costs {
        factorizations: FACTORIZATIONS,
        ..Costs::default()
    });
    order(a, Some(values), &options).ok()
}

fn geometric_mean(ratios: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = ratios.len() as f64;
    (ratios.map(f64::ln).sum::<f64>() / count).exp()
}

/// Takes minutes. On every matrix for which the automatic choice tries a dissection.
#[test]
#[ignore = "takes minutes, and compares times"]
fn fill_operations_and_time_are_below_those_of_metis() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let mut ratios = Vec::new();
    println!(
        "matrix | n | nnz | factor entries | / METIS | operations / METIS | of AMD / METIS | seconds | / METIS"
    );
    println!("---|---|---|---|---|---|---|---|---");
    for entry in corpus.square_real(u64::MAX) {
        let Ok(Ok(matrix)) = entry.read().map(|m| m.into_real()) else {
            continue;
        };
        let (a, values) = (pattern_of(&matrix), matrix.data());
        let n = a.major_dim();
        let Some(auto) = ordered(&a, values, Method::Auto) else {
            continue;
        };
        if auto.seconds.nested_dissection == 0.0 {
            continue;
        }
        let ours = ordered(&a, values, Method::NestedDissection).unwrap();
        let metis = ordered(&a, values, Method::Metis).unwrap();
        let amd = ordered(&a, values, Method::Amd).unwrap();
        assert_eq!(ours.method_used, MethodUsed::NestedDissection);
        let entries = |o: &Ordering| o.predicted.factor_nnz(n) as f64;
        let fill = entries(&ours) / entries(&metis);
        let flops = ours.predicted.flops / metis.predicted.flops;
        let seconds = ours.seconds.nested_dissection / metis.seconds.nested_dissection;
        println!(
            "{} | {n} | {} | {} | {fill:.3} | {flops:.3} | {:.3} | {:.3} | {seconds:.2}",
            entry.name,
            a.nnz(),
            entries(&ours),
            entries(&amd) / entries(&metis),
            ours.seconds.nested_dissection,
        );
        ratios.push((fill, flops, seconds));
    }
    assert!(!ratios.is_empty());
    let fill = geometric_mean(ratios.iter().map(|r| r.0));
    let flops = geometric_mean(ratios.iter().map(|r| r.1));
    let seconds = geometric_mean(ratios.iter().map(|r| r.2));
    println!(
        "{} matrices: fill {fill:.3}, operations {flops:.3}, seconds {seconds:.3}",
        ratios.len()
    );
    assert!(fill <= MOST_FILL, "{fill}");
    assert!(flops <= MOST_OPERATIONS, "{flops}");
    assert!(seconds <= MOST_SECONDS, "{seconds}");
}
