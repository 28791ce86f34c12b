//! In place of `worker` where the feature `simulator` is off: no worker starts, so no kernel runs.

use std::string::String;

use super::turn::{Command, Event, PanicNote};

/// Belongs to no thread: none runs.
pub(crate) enum ThreadYielder {}

impl ThreadYielder {
    pub fn suspend(&self, _event: Event) {
        match *self {}
    }
}

/// There are none.
pub(crate) enum Worker {}

impl Worker {
    pub fn resume(&mut self, _command: Command) -> Event {
        match *self {}
    }
}

/// None for any launch.
pub(crate) struct Workers;

impl Workers {
    pub fn take(_stack_bytes: usize) -> Workers {
        Workers
    }

    pub fn start(&mut self) -> Result<Worker, String> {
        Err("this program was built without the feature `simulator` of luge-kernel".into())
    }

    pub fn finish(&mut self, worker: Worker) {
        match worker {}
    }

    pub fn abandon(&mut self, worker: Worker) {
        match worker {}
    }
}

pub(crate) fn take_note() -> PanicNote {
    unreachable!("no kernel ran that could have panicked")
}
