//! The external frontier memory pool (gSoFa, section 6): one arena of device memory for the
//! traversals of many sources at once, and room in the host's memory for frontiers that do not fit.
//!
//! A traversal keeps a word for each vertex that a source may reach and walk through (*label*), a bit
//! for each that it may reach and stop at (*mark*), and two queues of *frontiers*: those of this and
//! those of the next iteration, of all sources together. How many frontiers there will be is not
//! known in advance: on average a thousandth of the labels, at the peak up to a quarter (gSoFa,
//! Table 3). The pool divides one arena, whose bytes are its budget, anew for every batch of sources:
//! labels and marks first, with two bits a label that say in which queue its vertex stands; queues from
//! what remains.
//!
//! The pool knows nothing of the graph. It is told what each source needs ([`Demand`]) and how many
//! labels can have one value range ([`PoolOptions::window`]); [`FrontierPool::plan`] answers a run of
//! sources, [`FrontierPool::open`] the regions of memory for it, ready for a kernel, and
//! [`FrontierPool::close`] learns from what the kernel measured.
//!
//! # The states of a queue entry's place
//!
//! A queue is one row of places, 0 to `capacity + spill`. Place k lies in the arena for k below the
//! capacity, else in page-locked host memory, which the kernel reads and writes where it is. With
//! [`Queues::Partial`] an entry may be given a place beyond them: it is not written anywhere.
//!
//! ```text
//!              an atomic counter gives place k
//!   empty ───────────────────────────────────▶ in the arena (k < capacity)
//!     ▲ ├──────────────────────────────────▶ spilled      (k < capacity + spill)
//!     │ └──────────────────────────────────▶ a bit only   (beyond)
//!     │                                            │ grid barrier: the queue becomes the one that is read
//!     │ the counter is zeroed,                     ▼
//!     └──────────────────────────────────── drained: some thread has taken the entry
//! ```
//!
//! | state | who leaves it | ordered by |
//! |---|---|---|
//! | empty | the thread that the counter gave the place writes the entry | the counter: nobody else gets the place |
//! | in the arena, spilled | the thread whose turn it is reads the entry | the barrier between the iterations |
//! | a bit only | a queue with one such entry is not read at all: the traversal walks over the `queued` bits of all labels, which tell it every entry of the queue, with a place or without | the barrier between the iterations |
//! | drained | nobody: the counter is zeroed two iterations later, before the queue is filled again | the barrier |
//!
//! There is no state "in transit": nothing is copied between the two parts, the kernel writes an entry
//! to the part where it belongs and reads it from there. A transfer over the bus so runs beside the
//! rest of the kernel by itself, entry by entry, and a batch whose queues stay within the arena makes
//! none.
//!
//! # Why nothing is lost
//!
//! 1. A label stands in a queue at most once (the traversal's promise, by one bit for each label and
//!    queue).
//! 2. That bit is set before the entry is written, and cleared only when its vertex is walked from. So
//!    the bits of a queue are the queue, and its places no more than a list of the bits that are set.
//! 3. With [`Queues::Whole`], for traversals without such bits, `capacity + spill` is at least the number of
//!    labels of the batch ([`Batch`]), checked when it is planned, and the host memory is allocated before
//!    it starts. So the counter never passes the last place.
//! 4. A launch ends only when the counter of the queue to read is zero: every entry was counted, with a
//!    place or without, and every one below the counter was read, or every bit.
//!
//! # Host memory or bits
//!
//! Finding a queue by its bits reads an eighth of a byte for each label, at the speed of the device's memory;
//! an entry that spills takes sixteen bytes over the bus, and the memory must be page-locked first, which
//! takes the driver much longer than most traversals. So bits are what a caller should rely on, with a
//! host budget of zero, unless queues overflow a little in most iterations.
//!
//! # Windows
//!
//! Labels are never cleared between batches, because each batch uses values below those of all
//! batches before. [`Regions::base`] counts down by [`PoolOptions::window`]; at zero, once in
//! ⌊(2³²−1)/window⌋ batches, the words are set to 2³²−1 again. As all sources of a batch have the same
//! base and labels lie at the front of the arena for every batch, it does not matter which slot a word
//! belonged to: slots move freely. Only words that held something else meanwhile, as the front of the
//! arena grew, are set to 2³²−1.
//!
//! # Under pressure
//!
//! First the queues shrink to what earlier batches tell to expect, then entries spill or are left to their
//! bits, then fewer sources are at work at once; see [`Planner::next`]. The smallest budget is that of one
//! source at a time with no frontier in the arena; less is refused with
//! [`PoolError::BudgetTooSmall`], which names it.

mod division;
#[cfg(feature = "gpu")]
mod pool;

pub use division::{
    Batch, CELL_BYTES, CHUNK, COMFORTABLE_SOURCES, Demand, Planner, Queues, Shape, largest_arena,
    smallest_arena,
};
#[cfg(feature = "gpu")]
pub use pool::{CLEARED, FrontierPool, Measured, PoolError, PoolOptions, PoolStatistics, Regions};
