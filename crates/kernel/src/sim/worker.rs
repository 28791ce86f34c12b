//! The coroutines that simulated threads run on.
//!
//! A worker is a coroutine that runs one thread after the other; it is bound to a thread from its
//! start to its end and then idle again. A thread that never waits costs two context switches and
//! no stack of its own. Workers are kept for later launches of the same operating-system thread.
//!
//! A thread that faulted, and those that wait when a launch stops, are never resumed: their stacks
//! are taken back without unwinding. What kernels keep on their stacks (numbers and handles) needs
//! no dropping; anything that did would be leaked, which is safe.

use std::cell::RefCell;
use std::format;
use std::panic::{self, AssertUnwindSafe};
use std::string::{String, ToString};
use std::sync::Once;
use std::thread_local;
use std::vec::Vec;

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::engine;
use super::fault::SourceLine;
use super::imp::Arguments;
use super::turn::{Command, Event, PanicNote};

pub(crate) type ThreadYielder = Yielder<Command, Event>;

/// A stack that begins some cache lines below its top.
///
/// Stacks are mapped at like addresses, so the few lines that each thread touches at its top would
/// all fall into the same sets of the cache, and every switch would miss.
struct Staggered {
    stack: DefaultStack,
    offset: usize,
}

impl Staggered {
    fn new(stack: DefaultStack, n: usize) -> Staggered {
        Staggered {
            stack,
            offset: n % 29 * 128,
        }
    }
}

// SAFETY: the memory is that of the inner stack, and `base` lies in it: stacks have 16 KiB at
// least, and offsets are below 4 KiB and multiples of 16.
unsafe impl Stack for Staggered {
    #[inline]
    fn base(&self) -> StackPointer {
        let base = self.stack.base().get() - self.offset;
        StackPointer::new(base).unwrap_or(self.stack.base())
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.stack.limit()
    }

    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.stack.teb_fields()
    }
}

/// See the module.
pub(crate) struct Worker(Coroutine<Command, Event, (), Staggered>);

impl Worker {
    fn new(stack: Staggered) -> Worker {
        Worker(Coroutine::with_stack(
            stack,
            |yielder: &ThreadYielder, first| {
                let mut command = first;
                while command == Command::Start {
                    // SAFETY: the engine that resumes a worker is running, and outlives the thread; its kernel is
                    // called on a simulated thread with its arguments.
                    let result = panic::catch_unwind(AssertUnwindSafe(|| unsafe {
                        let engine = engine::running();
                        (*(*engine).current).yielder = yielder;
                        let (entry, args) = ((*engine).kernel.entry, &raw const (*engine).args);
                        entry(&mut Arguments::new(&*args));
                    }));
                    command = yielder.suspend(match result {
                        Ok(()) => Event::Finished,
                        Err(payload) => {
                            note_payload(&*payload);
                            Event::Panicked
                        }
                    });
                }
            },
        ))
    }

    /// Runs it until it comes back.
    #[inline]
    pub fn resume(&mut self, command: Command) -> Event {
        match self.0.resume(command) {
            CoroutineResult::Yield(event) => event,
            CoroutineResult::Return(()) => Event::Finished,
        }
    }

    /// Takes the stack of a thread that will not be resumed.
    fn into_stack(mut self) -> Staggered {
        // SAFETY: what lies on the stack is leaked. Nothing outside of it borrows from it: the
        // engine stores values, and a kernel's handles are copies.
        unsafe { self.0.force_reset() };
        self.0.into_stack()
    }
}

/// Idle workers of an operating-system thread.
struct Pool {
    stack_bytes: usize,
    idle: Vec<Worker>,
}

/// Smallest stack of a thread in bytes.
const MIN_STACK: usize = 16 * 1024;

/// Idle workers that outlive a launch, at most.
const KEPT: usize = 2048;

impl Pool {
    fn quit(&mut self, keep: usize) {
        for mut worker in self.idle.drain(keep.min(self.idle.len())..) {
            // A worker that never ran has nothing on its stack; the others return.
            if worker.0.started() {
                worker.resume(Command::Quit);
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.quit(0);
    }
}

thread_local! {
    static POOL: RefCell<Pool> = const {
        RefCell::new(Pool { stack_bytes: 0, idle: Vec::new() })
    };
}

/// The workers of a launch.
pub(crate) struct Workers {
    pool: Pool,
    /// Stacks made in this launch.
    made: usize,
}

impl Workers {
    /// Takes the workers of this operating-system thread.
    pub fn take(stack_bytes: usize) -> Workers {
        install_hook();
        let mut pool = POOL.with(|p| {
            std::mem::replace(
                &mut *p.borrow_mut(),
                Pool {
                    stack_bytes,
                    idle: Vec::new(),
                },
            )
        });
        if pool.stack_bytes != stack_bytes {
            pool.quit(0);
            pool.stack_bytes = stack_bytes;
        }
        Workers { pool, made: 0 }
    }

    /// An idle worker.
    #[inline]
    pub fn start(&mut self) -> Result<Worker, String> {
        match self.pool.idle.pop() {
            Some(worker) => Ok(worker),
            None => DefaultStack::new(self.pool.stack_bytes.max(MIN_STACK))
                .map(|stack| {
                    self.made += 1;
                    Worker::new(Staggered::new(stack, self.made))
                })
                .map_err(|e| format!("no memory for the stack of another thread: {e}")),
        }
    }

    /// Gives back a worker whose thread has ended.
    #[inline]
    pub fn finish(&mut self, worker: Worker) {
        self.pool.idle.push(worker);
    }

    /// Gives back a worker whose thread will not be resumed.
    pub fn abandon(&mut self, worker: Worker) {
        self.pool.idle.push(Worker::new(worker.into_stack()));
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.pool.quit(KEPT);
        let stack_bytes = self.pool.stack_bytes;
        let pool = std::mem::replace(
            &mut self.pool,
            Pool {
                stack_bytes,
                idle: Vec::new(),
            },
        );
        // Thread-local storage may be gone while the thread ends.
        let _ = POOL.try_with(|p| *p.borrow_mut() = pool);
    }
}

thread_local! {
    static NOTE: RefCell<Option<PanicNote>> = const { RefCell::new(None) };
}

/// The panic that ended a thread.
pub(crate) fn take_note() -> PanicNote {
    NOTE.with(|n| n.borrow_mut().take())
        .unwrap_or_else(|| PanicNote {
            message: "without a message".into(),
            location: None,
        })
}

/// Wraps the process's panic hook, once: the panic of a kernel is noted instead of reported.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(std::boxed::Box::new(move |info| {
            if !engine::is_running() {
                return previous(info);
            }
            let note = PanicNote {
                message: message(info.payload()),
                location: info.location().map(SourceLine::new),
            };
            NOTE.with(|n| *n.borrow_mut() = Some(note));
        }));
    });
}

/// Keeps the message of a panic that another hook reported.
fn note_payload(payload: &(dyn std::any::Any + Send)) {
    NOTE.with(|n| {
        n.borrow_mut().get_or_insert_with(|| PanicNote {
            message: message(payload),
            location: None,
        });
    });
}

fn message(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is not a message".into())
}
