//! A bar on the terminal for phases that last.
//!
//! The library opens a `tracing` span for each phase and sends events with `done` and `total` from
//! within the long ones. A subscriber keeps the innermost open phase; a thread looks at it ten times
//! a second and draws it once it is older than 0.3 s.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A phase is drawn once it is this old.
const DRAW_AFTER: Duration = Duration::from_millis(300);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The open phases, and what is done of the innermost.
#[derive(Default)]
struct State {
    open: Vec<Phase>,
}

struct Phase {
    id: u64,
    name: &'static str,
    since: Instant,
    done: u64,
    total: u64,
}

/// Draws until it is dropped.
pub(crate) struct Progress {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Installs the subscriber for this process and starts the thread. Draws only on a terminal.
    pub(crate) fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let phases = Phases {
            state: Arc::clone(&state),
            names: Mutex::new(Vec::new()),
        };
        // Fails only if there is a subscriber already; then that one listens.
        let _ = tracing::subscriber::set_global_default(phases);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || draw(&state, &stopped));
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the drawing thread is no reason to fail.
            let _ = thread.join();
        }
    }
}

fn draw(state: &Mutex<State>, stop: &AtomicBool) {
    let counted = ProgressStyle::with_template("{msg:12} [{bar:40}] {percent:>3} %  {elapsed}");
    let uncounted = ProgressStyle::with_template("{msg:12} {spinner} {elapsed}");
    let (Ok(counted), Ok(uncounted)) = (counted, uncounted) else {
        unreachable!("the templates are constant and valid");
    };
    let mut shown: Option<(u64, ProgressBar)> = None;
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(LOOK_EVERY);
        let guard = state.lock().unwrap_or_else(PoisonError::into_inner);
        let phase = guard
            .open
            .last()
            .filter(|phase| phase.since.elapsed() > DRAW_AFTER);
        let Some(phase) = phase else {
            drop(guard);
            if let Some((_, bar)) = shown.take() {
                bar.finish_and_clear();
            }
            continue;
        };
        if shown.as_ref().is_none_or(|(id, _)| *id != phase.id) {
            if let Some((_, bar)) = shown.take() {
                bar.finish_and_clear();
            }
            let bar = ProgressBar::new(phase.total)
                .with_message(phase.name)
                .with_elapsed(phase.since.elapsed());
            bar.set_style(uncounted.clone());
            shown = Some((phase.id, bar));
        }
        if let Some((_, bar)) = &shown {
            if phase.total > 0 {
                bar.set_style(counted.clone());
                bar.set_length(phase.total);
                bar.set_position(phase.done);
            }
            bar.tick();
        }
    }
    if let Some((_, bar)) = shown {
        bar.finish_and_clear();
    }
}

struct Phases {
    state: Arc<Mutex<State>>,
    /// Name of each span; its number plus one is the span's id.
    names: Mutex<Vec<&'static str>>,
}

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

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.push(span.metadata().name());
        Id::from_u64(names.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut counts = Counts::default();
        event.record(&mut counts);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(phase), Some(done), Some(total)) =
            (state.open.last_mut(), counts.done, counts.total)
        {
            phase.done = done;
            phase.total = total;
        }
    }

    fn enter(&self, span: &Id) {
        let id = span.into_u64();
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let name = names[id as usize - 1];
        drop(names);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open.push(Phase {
            id,
            name,
            since: Instant::now(),
            done: 0,
            total: 0,
        });
    }

    fn exit(&self, span: &Id) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open.retain(|phase| phase.id != span.into_u64());
    }
}
