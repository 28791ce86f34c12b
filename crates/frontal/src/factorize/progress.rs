//! How far a factorization is, told by events with target `luge::progress` and the fields `done` and `total`, which are millionths of
//! the predicted operations.
//!
//! Whoever listens to the thread that began the factorization is told by all threads that work on it. Where nobody listens, nothing
//! is counted.

use std::sync::atomic::{AtomicU64, Ordering};

use tracing::{Dispatch, Level, dispatcher};

/// Parts of the whole that are counted.
const TOTAL: u64 = 1_000_000;

/// Parts after which there is another event.
const STEP: u64 = TOTAL / 1000;

/// What is done, for whoever listens.
pub(crate) struct Progress(Option<Counts>);

struct Counts {
    listener: Dispatch,
    /// Predicted operations of all fronts.
    flops: f64,
    /// Operations of the fronts that are done.
    done: AtomicU64,
}

impl Progress {
    /// Of a factorization of so many operations.
    pub fn new(flops: f64) -> Self {
        let is_heard = tracing::enabled!(target: "luge::progress", Level::DEBUG);
        Self(is_heard.then(|| Counts {
            listener: dispatcher::get_default(Dispatch::clone),
            flops: flops.max(1.0),
            done: AtomicU64::new(0),
        }))
    }

    /// Counts a front of so many operations.
    #[inline]
    pub fn add(&self, flops: impl FnOnce() -> f64) {
        if let Some(counts) = &self.0 {
            counts.add(flops());
        }
    }
}

impl Counts {
    fn add(&self, flops: f64) {
        let flops = flops as u64;
        // Relaxed: a count for whoever watches, it orders nothing.
        let before = self.done.fetch_add(flops, Ordering::Relaxed);
        let parts = |done: u64| (done as f64 / self.flops * TOTAL as f64) as u64;
        let (before, done) = (parts(before), parts(before + flops).min(TOTAL));
        if before / STEP < done / STEP {
            dispatcher::with_default(
                &self.listener,
                || tracing::debug!(target: "luge::progress", done, total = TOTAL),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Keeps what is done, by the events.
    #[derive(Clone, Default)]
    struct Listener(Arc<Mutex<Vec<u64>>>);

    impl Visit for Listener {
        fn record_u64(&mut self, field: &Field, value: u64) {
            match field.name() {
                "done" => self.0.lock().unwrap().push(value),
                _ => assert_eq!((field.name(), value), ("total", TOTAL)),
            }
        }

        fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
    }

    impl Subscriber for Listener {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "luge::progress"
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_listener_is_told_by_all_threads_and_not_too_often() {
        let listener = Listener::default();
        let dispatch = Dispatch::new(listener.clone());
        let progress = dispatcher::with_default(&dispatch, || Progress::new(1e6));
        // Small fronts, each a hundredth of a step, on threads that nobody listens to.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..25_000).for_each(|_| progress.add(|| 10.0)));
            }
        });
        let mut told = listener.0.lock().unwrap().clone();
        told.sort_unstable();
        assert_eq!(told.len(), 1000);
        assert_eq!(told.last(), Some(&TOTAL));
        assert!(told.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn nothing_is_counted_where_nobody_listens() {
        let progress = dispatcher::with_default(&Dispatch::none(), || Progress::new(1e6));
        progress.add(|| unreachable!("nobody wants to know"));
    }
}
