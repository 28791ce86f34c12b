//! What a callback is told of a call that lasts.
//!
//! The solver opens a `tracing` span for each phase, and sends events with `done` and `total` from within some of them. Such a call
//! works on a thread of its own, under a subscriber that notes both. The thread that made the call waits, calls back, and has the
//! interpreter look for signals, ten times a second. So no thread that works waits for the interpreter, and what the callback
//! raises is raised by the call.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use luge::{CancelFlag, Error};
use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher};

use crate::solver::raised;

/// How long counts are left untold.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Calls `work` with the interpreter detached. `progress` is called meanwhile with the name of a phase, what is done of it, and how
/// much there is of that, zero where that is not counted: when a phase begins or goes on, and ten times a second.
///
/// An exception of it, and one of a signal's handler, stops the work by `cancel`, which is lowered again, and is returned.
pub(crate) fn watched<R: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    cancel: &CancelFlag,
    work: impl FnOnce() -> Result<R, Error> + Send,
) -> PyResult<R> {
    let Some(progress) = progress else {
        let result = py.detach(work);
        return raised(py, result);
    };
    let board = std::sync::Arc::new(Board::default());
    let dispatch = Dispatch::new(Phases(std::sync::Arc::clone(&board)));
    let (result, exception) = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _end = AtEnd(&board);
            dispatcher::with_default(&dispatch, work)
        });
        let mut exception = None;
        loop {
            let (news, is_over) = py.detach(|| board.wait());
            if exception.is_none()
                && let Err(error) = tell(py, progress, &news)
            {
                exception = Some(error);
                cancel.cancel();
            }
            if is_over {
                break (py.detach(|| worker.join()), exception);
            }
        }
    });
    if let Some(exception) = exception {
        cancel.lower();
        return Err(exception);
    }
    match result {
        Ok(result) => raised(py, result),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn tell(py: Python<'_>, progress: &Bound<'_, PyAny>, news: &[News]) -> PyResult<()> {
    py.check_signals()?;
    for news in news {
        progress.call1((news.phase, news.done, news.total))?;
    }
    Ok(())
}

/// A phase, what is done of it, and how much there is.
#[derive(Clone, Copy)]
struct News {
    phase: &'static str,
    done: u64,
    total: u64,
}

/// Where the work is written up.
#[derive(Default)]
struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Names of spans; the number of a span plus one is its id.
    names: Vec<&'static str>,
    /// The open phases, the innermost one last, with the ids of their spans.
    open: Vec<(u64, News)>,
    /// What is to be told at once.
    news: Vec<News>,
    /// Whether counts of the innermost phase are not told yet.
    is_stale: bool,
    is_over: bool,
}

impl State {
    /// Notes the counts of the innermost phase, if they are new.
    fn note_counts(&mut self) {
        if std::mem::take(&mut self.is_stale)
            && let Some(&(_, news)) = self.open.last()
        {
            self.news.push(news);
        }
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for news, and some time for counts; whether the work is over.
    fn wait(&self) -> (Vec<News>, bool) {
        let is_quiet = |state: &mut State| state.news.is_empty() && !state.is_over;
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), LOOK_EVERY, is_quiet);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.note_counts();
        (std::mem::take(&mut state.news), state.is_over)
    }
}

/// Says that the work is over, also where it panics.
struct AtEnd<'a>(&'a Board);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_one();
    }
}

/// Writes up phases and counts.
struct Phases(std::sync::Arc<Board>);

/// The fields of a progress event.
#[derive(Default)]
struct Counts {
    done: Option<u64>,
    total: Option<u64>,
}

impl Visit for Counts {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "done" => self.done = Some(value),
            "total" => self.total = Some(value),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for Phases {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        if metadata.is_span() {
            *metadata.level() <= Level::INFO && metadata.target().starts_with("luge")
        } else {
            metadata.target() == "luge::progress"
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut state = self.0.lock();
        state.names.push(span.metadata().name());
        Id::from_u64(state.names.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut counts = Counts::default();
        event.record(&mut counts);
        let mut state = self.0.lock();
        if let (Some((_, news)), Some(done), Some(total)) =
            (state.open.last_mut(), counts.done, counts.total)
        {
            // Threads may be late to tell what they have done.
            if total != news.total || done > news.done {
                (news.done, news.total) = (done, total);
                state.is_stale = true;
            }
        }
    }

    fn enter(&self, span: &Id) {
        let mut state = self.0.lock();
        state.note_counts();
        let id = span.into_u64();
        let news = News {
            phase: state.names[id as usize - 1],
            done: 0,
            total: 0,
        };
        state.open.push((id, news));
        state.news.push(news);
        self.0.changed.notify_one();
    }

    fn exit(&self, span: &Id) {
        let mut state = self.0.lock();
        state.note_counts();
        state.open.retain(|(id, _)| *id != span.into_u64());
        if let Some(&(_, outer)) = state.open.last() {
            state.news.push(outer);
            self.0.changed.notify_one();
        }
    }
}
