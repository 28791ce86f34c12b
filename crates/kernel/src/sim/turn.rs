//! What the engine and the coroutines of threads tell each other.

use std::string::String;
use std::vec::Vec;

use super::fault::SourceLine;
use super::imp::{Arg, Arguments};
use super::worker::ThreadYielder;

/// What a coroutine is told when resumed.
#[cfg_attr(
    not(feature = "simulator"),
    expect(dead_code, reason = "nobody is resumed")
)]
pub(crate) enum Command {
    /// Run a thread.
    Start {
        entry: unsafe fn(&mut Arguments<'_>),
        args: *const Vec<Arg>,
        /// Where the thread's yielder goes, before it runs.
        yielder: *mut *const ThreadYielder,
    },
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
