//! Records: structs of words that the host writes and kernels read.
//!
//! A plan tells a kernel what to do in records of a few `u32` and `u64`. One struct is the record on both sides:
//!
//! ```
//! use luge_kernel::prelude::*;
//!
//! /// A run of entries.
//! #[derive(Clone, Copy, Record)]
//! #[repr(C, packed(4))]
//! pub struct Run {
//!     /// Its first entry.
//!     pub first: u64,
//!     /// How many there are.
//!     pub len: u32,
//! }
//!
//! assert_eq!(Run::WORDS, 3);
//! let runs = [Run { first: 5 << 32, len: 7 }];
//! assert_eq!(Run::as_words(&runs), [0, 5, 7]);
//! ```
//!
//! The fields are `u32`, `u64` (the lower word first) and `[u32; N]`, without gaps: the struct is `#[repr(C)]`, and
//! `#[repr(C, packed(4))]` if it has 64-bit fields; anything else does not compile.
//!
//! The host makes the struct, and passes a buffer of the words of many ([`RecordBuffer`](crate::host::RecordBuffer))
//! for a parameter of type [`Records`]. A kernel never has the struct: it reads the words that it needs, when it needs
//! them, from wherever they are ([`Words`]): global memory, where the block copied a record to in shared memory, or the
//! lanes of a warp that hold a word each. The derive makes a view for that, `RunIn<W>`, with a method for each field:
//!
//! ```
//! # use luge_kernel::prelude::*;
//! # #[derive(Clone, Copy, Record)] #[repr(C, packed(4))] pub struct Run { pub first: u64, pub len: u32 }
//! # pub static MODULE: luge_kernel::host::KernelModule =
//! #     luge_kernel::host::KernelModule { name: "doc", images: &[] };
//! /// The length of each run.
//! #[kernel(require(out.len() == runs.len()))]
//! pub unsafe fn lengths(runs: Records<Run>, out: GlobalMut<u32>) {
//!     for i in thread::grid_stride(out.len()) {
//!         out.set(i, runs.get(i).len());
//!     }
//! }
//! # fn main() {}
//! ```

use core::marker::PhantomData;

pub use luge_kernel_macros::Record;

use crate::mem::{Global, Shared};
use crate::warp;

/// A struct of words; see the [module](self). `#[derive(Record)]` implements it.
///
/// # Safety
///
/// The struct is aligned to 4 bytes, and its bytes are those of its fields, of which every value is valid.
pub unsafe trait Record: Copy + 'static {
    /// Number of words.
    const WORDS: usize = size_of::<Self>() / 4;

    /// The record in words `W`: a method for each field, which reads it.
    type In<W: Words>: Copy;

    /// The record that `words` holds.
    fn within<W: Words>(words: W) -> Self::In<W>;

    /// The words of `records`, one record after the other.
    fn as_words(records: &[Self]) -> &[u32] {
        // SAFETY: the records are aligned as words are, and all of their bytes are initialised.
        unsafe { core::slice::from_raw_parts(records.as_ptr().cast(), records.len() * Self::WORDS) }
    }
}

/// Where the words of a record are.
pub trait Words: Copy {
    /// Word `i` of the record.
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn word(self, i: u32) -> u32;
}

/// Shared memory that begins with the words of a record.
impl Words for Shared<u32> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn word(self, i: u32) -> u32 {
        self.get(i as usize)
    }
}

/// A record whose word i lane `first` + i of the warp holds. A field is read by all lanes together.
#[derive(Clone, Copy)]
pub struct OfLanes {
    /// This lane's word.
    pub word: u32,
    /// The lane with the first word.
    pub first: u32,
}

impl Words for OfLanes {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn word(self, i: u32) -> u32 {
        warp::shuffle(warp::FULL_MASK, self.word, self.first + i)
    }
}

/// A record in global memory.
#[derive(Clone, Copy)]
pub struct InGlobal {
    words: Global<u32>,
    first: usize,
}

impl Words for InGlobal {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn word(self, i: u32) -> u32 {
        self.words.get(self.first + i as usize)
    }
}

/// Records in global memory that nobody writes during the launch.
#[derive(Clone, Copy)]
pub struct Records<R: Record> {
    words: Global<u32>,
    record: PhantomData<fn() -> R>,
}

impl<R: Record> Records<R> {
    /// The records that `words`, less than 2³², consist of.
    #[inline(always)]
    pub fn of(words: Global<u32>) -> Self {
        Self {
            words,
            record: PhantomData,
        }
    }

    /// Number of records. All records are less than 2³² words, so that this is a division of 32 bits.
    #[inline(always)]
    pub fn len(self) -> usize {
        (self.words.len() as u32 / R::WORDS as u32) as usize
    }

    /// Whether there are no records.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.words.is_empty()
    }

    /// Record `i`; a field is read when it is asked for, which requires `i < len`.
    #[inline(always)]
    pub fn get(self, i: usize) -> R::In<InGlobal> {
        R::within(InGlobal {
            words: self.words,
            first: i * R::WORDS,
        })
    }

    /// Word `word` from the beginning of record `i` on, for threads that fetch one record or several together.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn word(self, i: u32, word: u32) -> u32 {
        self.words.get((i * R::WORDS as u32 + word) as usize)
    }
}
