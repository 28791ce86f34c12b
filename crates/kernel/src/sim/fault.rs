//! What the simulator found wrong, and where.

use std::borrow::Cow;
use std::boxed::Box;
use std::fmt;
use std::panic::Location;
use std::string::String;
use std::vec::Vec;

/// A line of kernel source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// Path as the compiler saw it.
    pub file: Cow<'static, str>,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl SourceLine {
    pub(crate) fn new(location: &Location<'_>) -> SourceLine {
        SourceLine {
            file: Cow::Owned(location.file().into()),
            line: location.line(),
            column: location.column(),
        }
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// What an access did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A plain read.
    Read,
    /// A plain write.
    Write,
    /// An atomic load.
    AtomicRead,
    /// An atomic store or read-modify-write.
    AtomicWrite,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::AtomicRead => "atomic read",
            Access::AtomicWrite => "atomic write",
        })
    }
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitKind {
    /// A barrier of its block.
    Barrier,
    /// A warp collective of these lanes.
    Warp {
        /// Its mask.
        mask: u32,
    },
    /// The condition of a `spin_wait`.
    Spin,
    /// Nothing that the simulator knows: a loop around atomics or `nanosleep`.
    Loop,
}

impl fmt::Display for WaitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitKind::Barrier => f.write_str("waits at a block barrier"),
            WaitKind::Warp { mask } => write!(f, "waits for the lanes {mask:#010x}"),
            WaitKind::Spin => f.write_str("spins"),
            WaitKind::Loop => f.write_str("loops"),
        }
    }
}

/// A thread that waits for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its block.
    pub block: [u32; 3],
    /// Its index in the block.
    pub thread: [u32; 3],
    /// What it waits for.
    pub kind: WaitKind,
    /// Where.
    pub location: SourceLine,
}

/// The other thread of a fault between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// Its block.
    pub block: [u32; 3],
    /// Its index in the block.
    pub thread: [u32; 3],
    /// What it did, or where it waits; `None` for a thread that returned.
    pub location: Option<SourceLine>,
}

/// The fault itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// An index at or past the length.
    OutOfBounds {
        /// The length.
        len: usize,
    },
    /// A read of memory that nobody wrote.
    Uninitialized,
    /// Two accesses of one cell, one of them a write, that nothing orders.
    Race {
        /// The access that was found.
        access: Access,
        /// The earlier one, by the other party.
        other_access: Access,
        /// Both are atomic, but the scope of one does not include the other thread.
        scope: bool,
    },
    /// A block barrier that not all threads of the block reach.
    BarrierDivergence {
        /// What happened instead.
        what: String,
    },
    /// A warp collective whose mask does not match the lanes that arrive.
    WarpMaskMismatch {
        /// The mask of the faulting lane.
        mask: u32,
        /// What does not match.
        what: String,
    },
    /// Every thread waits, and nothing that could end a wait will happen.
    Deadlock {
        /// Who waits (the first 32).
        waiters: Vec<Waiter>,
        /// How many threads wait.
        waiting: usize,
        /// Blocks that have not started since all resident ones wait: if they are what is waited
        /// for, the launch relies on more resident blocks than there are.
        blocks_not_started: u64,
        /// The waits did change memory, but came to no end in a very long time.
        livelock: bool,
    },
    /// A panic in the kernel: arithmetic overflow, an index into a local array, an `assert!`.
    Panic {
        /// The panic's message.
        message: String,
    },
    /// The launch was refused: block too large, shared memory too large, arguments of the wrong
    /// kind, cooperative with more blocks than can be resident.
    Launch {
        /// Why.
        what: String,
    },
}

/// A fault of a simulated launch. `Display` names all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it is.
    pub kind: FaultKind,
    /// Entry point of the kernel.
    pub kernel: &'static str,
    /// Block of the thread that faulted.
    pub block: [u32; 3],
    /// Its index in the block.
    pub thread: [u32; 3],
    /// Parameter or shared array.
    pub buffer: Option<String>,
    /// Index in it.
    pub index: Option<usize>,
    /// Source line of the kernel; `None` for a refused launch.
    pub location: Option<SourceLine>,
    /// The other thread, where there is one.
    pub other: Option<Party>,
    /// The seed that replays it.
    pub seed: u64,
}

impl Fault {
    /// A refused launch.
    pub(crate) fn refused(kernel: &'static str, seed: u64, what: String) -> Box<Fault> {
        Box::new(Fault {
            kind: FaultKind::Launch { what },
            kernel,
            block: [0; 3],
            thread: [0; 3],
            buffer: None,
            index: None,
            location: None,
            other: None,
            seed,
        })
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault {
            kernel,
            block,
            thread,
            seed,
            ..
        } = self;
        if let FaultKind::Launch { what } = &self.kind {
            return write!(f, "launch of kernel `{kernel}` refused: {what}");
        }
        match &self.kind {
            FaultKind::OutOfBounds { len } => write!(f, "access out of bounds (length {len})")?,
            FaultKind::Uninitialized => f.write_str("read of memory that nobody wrote")?,
            FaultKind::Race {
                access,
                other_access,
                scope,
            } => {
                write!(f, "data race: {access} against {other_access}")?;
                if *scope {
                    f.write_str(", block scope is too narrow for threads of two blocks")?;
                }
            }
            FaultKind::BarrierDivergence { what } => {
                write!(f, "block barrier not reached by all: {what}")?;
            }
            FaultKind::WarpMaskMismatch { mask, what } => {
                write!(f, "warp collective with mask {mask:#010x}: {what}")?;
            }
            FaultKind::Deadlock { livelock, .. } => f.write_str(if *livelock {
                "waits that change memory but never end"
            } else {
                "a wait that can never end"
            })?,
            FaultKind::Panic { message } => write!(f, "panic: {message}")?,
            FaultKind::Launch { .. } => {}
        }
        write!(f, "; kernel `{kernel}`, block {block:?}, thread {thread:?}")?;
        if let Some(buffer) = &self.buffer {
            write!(f, ", buffer `{buffer}`")?;
        }
        if let Some(index) = self.index {
            write!(f, ", index {index}")?;
        }
        if let Some(location) = &self.location {
            write!(f, ", at {location}")?;
        }
        if let Some(other) = &self.other {
            write!(
                f,
                "; other party: block {:?}, thread {:?}",
                other.block, other.thread
            )?;
            match &other.location {
                Some(location) => write!(f, ", at {location}")?,
                None => f.write_str(", which has returned")?,
            }
        }
        if let FaultKind::Deadlock {
            waiters,
            waiting,
            blocks_not_started,
            ..
        } = &self.kind
        {
            write!(f, "; {waiting} threads wait:")?;
            for w in waiters {
                write!(
                    f,
                    " block {:?} thread {:?} {} at {};",
                    w.block, w.thread, w.kind, w.location
                )?;
            }
            if *waiting > waiters.len() {
                write!(f, " and {} more;", waiting - waiters.len())?;
            }
            if *blocks_not_started > 0 {
                write!(
                    f,
                    " {blocks_not_started} blocks have not started because no resident block ends: \
                     do the waits rely on them?"
                )?;
            }
        }
        write!(f, "; seed {seed}")
    }
}
