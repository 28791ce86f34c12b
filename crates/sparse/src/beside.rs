//! Work of threads that wait, for devices most of all, and so belong to no pool.

use std::thread;

/// Does `own` on this thread, and each of `others` on one of its own. Returns when all are done; a panic of one is that of
/// the call.
pub fn beside<O, R: Send>(
    others: impl IntoIterator<Item: FnOnce() -> R + Send>,
    own: impl FnOnce() -> O,
) -> (O, Vec<R>) {
    thread::scope(|scope| {
        let others = others.into_iter().map(|other| scope.spawn(other));
        let threads: Vec<_> = others.collect();
        let own = own();
        let joined = threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        (own, joined.collect())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn all_are_at_work_together_and_answer_in_their_order() {
        let all = Barrier::new(4);
        let others = (0..3).map(|number| {
            let all = &all;
            move || {
                all.wait();
                (number, thread::current().id())
            }
        });
        let (own, others) = beside(others, || {
            all.wait();
            thread::current().id()
        });
        assert_eq!(own, thread::current().id());
        for (at, &(number, thread)) in others.iter().enumerate() {
            assert_eq!(at, number);
            assert_ne!(thread, own);
        }
    }

    #[test]
    #[should_panic(expected = "the second")]
    fn a_panic_of_one_is_that_of_the_call() {
        let others = (1..3).map(|number| move || assert_ne!(number, 2, "the second"));
        beside(others, || ());
    }
}
