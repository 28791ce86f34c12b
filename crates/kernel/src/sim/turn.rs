//! What the engine and the coroutines of threads tell each other.

use std::string::String;

use super::fault::SourceLine;

/// What a coroutine is told when resumed. No payload: what fits a register is handed over in one.
#[cfg_attr(
    not(feature = "simulator"),
    expect(dead_code, reason = "nobody is resumed")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Run the engine's current thread.
    Start,
    /// Go on with the thread.
    Continue,
    /// End the coroutine.
    Quit,
}

/// Why a coroutine came back.
#[cfg_attr(
    not(feature = "simulator"),
    expect(dead_code, reason = "nobody is resumed")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The thread has returned; the worker is idle.
    Finished,
    /// The thread has panicked; the worker is idle.
    Panicked,
    /// The thread waits.
    Waiting,
    /// The thread faulted and must not be resumed.
    Faulted,
}

/// A panic of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct PanicNote {
    pub message: String,
    pub location: Option<SourceLine>,
}
