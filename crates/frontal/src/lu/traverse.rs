//! The way through the tree: one thread in postorder, or subtrees as tasks and counters above.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use luge_sparse::{CancelFlag, Quality, bytes_of};

use super::eliminate::Eliminator;
use super::numeric::{Context, Element, Worker};
use super::schedule::Schedule;
use super::{FrontalLu, Options, check_memory};
use crate::error::FrontalError;
use crate::kernels::FrontalScalar;
use crate::kernels::pivot::PivotRule;
use crate::tree::Tree;
use luge_sparse::etree::NONE;

/// Columns between two looks at the cancel flag.
const STRIDE: usize = 1 << 12;

/// Factorizes; without `search` on the pivots of the factorization before.
pub(super) fn factorize<F: FrontalScalar>(
    factors: &mut FrontalLu<F>,
    input: &[F],
    options: &Options,
    search: bool,
) -> Result<Quality, FrontalError> {
    let predicted = check_memory::<F>(&factors.tree, options)?;
    factors.valid = false;
    let n = factors.n();
    let num_fronts = factors.tree.num_supernodes();
    // Norms and sums, elements and extras, and what a schedule is made of.
    let per_front = size_of::<Element<F>>() + 8 + if options.threads > 1 { 64 } else { 0 };
    let arrays = bytes_of::<F>(2 * n) + (num_fronts * per_front) as u64;
    let _of_arrays = options.memory.reserve(arrays)?;
    let tree = factors.tree.clone();
    let (norms, sums) = column_sums(&tree, input, &factors.input_weights, &options.cancel)?;
    let ns = tree.num_supernodes();
    let mut extras = std::mem::take(&mut factors.extras);
    extras.resize_with(ns, || None);
    let mut elements: Vec<Element<F>> = Vec::new();
    elements.resize_with(ns, Element::none);
    let context = Context {
        tree: &tree,
        input,
        options,
        kernels: factors.kernels,
        weights: &factors.weights,
        norms: &norms,
        sums: &sums,
        values: factors.values.as_mut_ptr(),
        records: factors.records.as_mut_ptr(),
        rows: factors.rows.as_mut_ptr(),
        cols: factors.cols.as_mut_ptr(),
        extras: extras.as_mut_ptr(),
        elements: elements.as_mut_ptr(),
        products: factors.products.as_mut_ptr(),
        search,
        excess: AtomicU64::new(0),
        predicted,
        of_extras: Mutex::new(std::mem::take(&mut factors.memory)),
    };
    let result = if options.threads <= 1 {
        serial(&context)
    } else {
        parallel(&context)
    };
    let of_extras = context.of_extras.into_inner();
    factors.memory = of_extras.unwrap_or_else(PoisonError::into_inner);
    drop(elements);
    if extras.iter().all(Option::is_none) {
        extras = Vec::new();
    }
    factors.extras = extras;
    let held = factors.bytes();
    factors.memory.shrink_to(held);
    let quality = result?;
    factors.quality = quality;
    factors.valid = true;
    tracing::debug!(
        fronts = ns,
        delayed = quality.num_delayed,
        growth = quality.growth,
        search,
        "fronts factorized"
    );
    Ok(quality)
}

fn eliminator<'a, F: FrontalScalar>(context: &Context<'a, F>, parallel: bool) -> Eliminator<'a, F> {
    let options = context.options;
    Eliminator {
        kernels: context.kernels,
        rule: PivotRule {
            search: context.search,
            threshold: F::from_f64(options.threshold),
            static_pivots: options.static_pivots.is_some(),
            replacement: F::from_f64(options.static_pivots.unwrap_or(0.0)),
        },
        cancel: &options.cancel,
        parallel,
    }
}

fn serial<F: FrontalScalar>(context: &Context<'_, F>) -> Result<Quality, FrontalError> {
    let mut worker = Worker::new(
        context,
        eliminator(context, false),
        context.tree.stack_entries,
    )?;
    for s in 0..context.tree.num_supernodes() {
        // SAFETY: postorder, one thread.
        unsafe { worker.front(s, false)? };
    }
    Ok(worker.quality)
}

/// The tasks of a [`Schedule`], then the fronts above them: each starts when its last child is done,
/// and shares its large products.
fn parallel<F: FrontalScalar>(context: &Context<'_, F>) -> Result<Quality, FrontalError> {
    let tree = context.tree;
    let schedule = Schedule::new(tree, context.options.threads);
    let waiting: Vec<AtomicU32> = tree
        .fronts
        .iter()
        .map(|f| AtomicU32::new(f.num_children))
        .collect();
    // The first front in postorder that failed so far. Those before it go on, so that the error is
    // that of the first of all, whatever the order in which they turn up.
    let failed = AtomicUsize::new(usize::MAX);
    let outcome: Mutex<(Quality, Option<(usize, FrontalError)>)> = Mutex::new(Default::default());
    let finish = |quality: Quality, error: Option<(usize, FrontalError)>| {
        let mut outcome = outcome.lock().expect("no one panics with the lock");
        merge(&mut outcome.0, &quality);
        if let Some((s, error)) = error {
            failed.fetch_min(s, Ordering::Relaxed);
            if outcome.1.as_ref().is_none_or(|(other, _)| s < *other) {
                outcome.1 = Some((s, error));
            }
        }
    };
    // Works up the tree from a finished front, as long as it was the last child each time.
    let climb = |from: usize| {
        let mut worker = None;
        let mut error = None;
        let mut p = tree.fronts[from].parent;
        // AcqRel: the last child to arrive has seen what the others wrote.
        while p != NONE && waiting[p as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
            if p as usize > failed.load(Ordering::Relaxed) {
                break;
            }
            let worker = match &mut worker {
                Some(worker) => worker,
                none => match Worker::new(context, eliminator(context, true), [0, 0]) {
                    Ok(new) => none.insert(new),
                    Err(e) => {
                        error = Some((p as usize, e));
                        break;
                    }
                },
            };
            // SAFETY: all children are done, and only the last of them comes here.
            if let Err(e) = unsafe { worker.front(p as usize, true) } {
                error = Some((p as usize, e));
                break;
            }
            p = tree.fronts[p as usize].parent;
        }
        if worker.is_some() || error.is_some() {
            finish(worker.map_or_else(Quality::default, |w| w.quality), error);
        }
    };
    rayon::scope(|scope| {
        let (climb, finish, failed) = (&climb, &finish, &failed);
        for task in &schedule.tasks {
            scope.spawn(move |_| {
                if task.first > failed.load(Ordering::Relaxed) {
                    return;
                }
                let entries = task.stack_entries;
                let mut worker = match Worker::new(context, eliminator(context, false), entries) {
                    Ok(worker) => worker,
                    Err(error) => {
                        finish(Quality::default(), Some((task.first, error)));
                        return;
                    }
                };
                for s in task.first..=task.top {
                    // SAFETY: the task owns its subtree and takes it in postorder.
                    if let Err(error) = unsafe { worker.front(s, s == task.top) } {
                        finish(worker.quality, Some((s, error)));
                        return;
                    }
                }
                finish(worker.quality, None);
                drop(worker);
                climb(task.top);
            });
        }
        for &s in &schedule.large_leaves {
            scope.spawn(move |_| {
                let mut worker = match Worker::new(context, eliminator(context, true), [0, 0]) {
                    Ok(worker) => worker,
                    Err(error) => {
                        finish(Quality::default(), Some((s, error)));
                        return;
                    }
                };
                // SAFETY: a leaf has no children to wait for, and one owner.
                let result = unsafe { worker.front(s, true) };
                let error = result.err().map(|e| (s, e));
                let done = error.is_none();
                finish(worker.quality, error);
                drop(worker);
                if done {
                    climb(s);
                }
            });
        }
    });
    let (quality, error) = outcome.into_inner().expect("no one panics with the lock");
    match error {
        Some((_, error)) => Err(error),
        None => Ok(quality),
    }
}

/// Adds the report of other fronts of the same block. No order of merging changes the result.
fn merge(all: &mut Quality, part: &Quality) {
    let worst = match part.growth.partial_cmp(&all.growth) {
        Some(std::cmp::Ordering::Equal) => all.worst_column.min(part.worst_column),
        _ => usize::MAX,
    };
    all.merge(part, |column| column);
    if worst != usize::MAX {
        all.worst_column = worst;
    }
    if let (Some(a), Some(b)) = (all.first_perturbed, part.first_perturbed) {
        all.first_perturbed = Some(a.min(b));
    }
}

/// ‖B e_k‖₁ and wᵀB e_k of each column, for weights by row of the matrix as it came.
fn column_sums<F: FrontalScalar>(
    tree: &Tree,
    input: &[F],
    weights: &[F],
    cancel: &CancelFlag,
) -> Result<(Vec<F>, Vec<F>), FrontalError> {
    let n = tree.n();
    let mut norms = Vec::with_capacity(n);
    let mut sums = Vec::with_capacity(n);
    for column in 0..n {
        if column.is_multiple_of(STRIDE) {
            cancel.check()?;
        }
        let range = tree.pattern.range(column);
        let (mut norm, mut sum) = (F::zero(), F::zero());
        for (&row, &value) in tree.pattern.idx()[range.clone()].iter().zip(&input[range]) {
            norm += value.abs();
            sum += weights[row as usize] * value;
        }
        if !norm.is_finite() {
            return Err(FrontalError::NotFinite { column });
        }
        norms.push(norm);
        sums.push(sum);
    }
    Ok((norms, sums))
}
