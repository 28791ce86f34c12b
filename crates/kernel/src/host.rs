//! The host side of a kernel: what describes it, and what a launch takes.
//!
//! `#[kernel]` makes a [`KernelDesc`] for each instance and a launcher that checks lengths and
//! preconditions and hands a [`LaunchConfig`] and the [`KernelArg`]s to a [`LaunchTarget`]: a CUDA
//! stream or the simulator. Nothing else builds argument lists.

use core::fmt;
use core::marker::PhantomData;
use std::borrow::{Cow, ToOwned};
use std::string::String;
use std::sync::OnceLock;
use std::vec::Vec;

use num_complex::Complex;

use self::packed::Packed;
use crate::record::Record;
use crate::sim;
use crate::sim::imp::ElementImp;

mod packed;

/// The PTX of a module for one compute capability.
#[derive(Debug)]
pub struct PtxImage {
    /// Compute capability the PTX was made for, as in `sm_80`: 80.
    pub sm: u32,
    /// PTX text.
    pub ptx: Ptx,
    /// Binaries of some of its kernels, those that a driver takes long to compile.
    pub binaries: Option<Binaries>,
}

/// Binaries of kernels for the compute capability of their image, or a later one of the same major number, in one Brotli stream; unpacked
/// at most once a process.
///
/// What is compressed is, for each kernel, its name, the number of bytes of its binary in decimal, each followed by a line feed, and
/// these bytes.
pub struct Binaries {
    stream: &'static [u8],
    unpacked: OnceLock<Option<Vec<u8>>>,
}

impl Binaries {
    /// Those in a Brotli stream (RFC 7932), as `cargo xtask ptx` makes it.
    pub const fn compressed(stream: &'static [u8]) -> Self {
        Self {
            stream,
            unpacked: OnceLock::new(),
        }
    }

    /// Names and binaries, up to what is not as it should be. `decompress` reads a Brotli stream for the first one who asks, and
    /// answers `None` to what is none; then there are no binaries.
    pub fn all(
        &self,
        decompress: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) -> impl Iterator<Item = (&str, &[u8])> {
        let unpacked = self.unpacked.get_or_init(|| decompress(self.stream));
        let mut left = unpacked.as_deref().unwrap_or_default();
        core::iter::from_fn(move || {
            let mut line = || {
                let end = left.iter().position(|&byte| byte == b'\n')?;
                let line = core::str::from_utf8(&left[..end]).ok()?;
                left = &left[end + 1..];
                Some(line)
            };
            let (name, bytes) = (line()?, line()?.parse().ok()?);
            let (binary, behind) = left.split_at_checked(bytes)?;
            left = behind;
            Some((name, binary))
        })
    }
}

impl core::fmt::Debug for Binaries {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Binaries({} bytes)", self.stream.len())
    }
}

/// PTX text as it lies in the program.
pub enum Ptx {
    /// As it is.
    Text(&'static str),
    /// A Brotli stream of packed text.
    Compressed(CompressedPtx),
}

/// PTX text that was packed and compressed when it was made, and is decompressed at most once a process.
pub struct CompressedPtx {
    stream: &'static [u8],
    text: OnceLock<Option<String>>,
}

impl Ptx {
    /// Packed text in a Brotli stream (RFC 7932), as `cargo xtask ptx` makes it.
    pub const fn compressed(stream: &'static [u8]) -> Self {
        Self::Compressed(CompressedPtx {
            stream,
            text: OnceLock::new(),
        })
    }
}

/// The text of an image, in which the numbers of registers may stand as differences. Lines are lines of PTX all the same.
#[derive(Clone, Copy, Debug)]
pub struct PtxText<'a> {
    text: &'a str,
    differences: bool,
}

impl<'a> PtxText<'a> {
    /// PTX as it is.
    pub const fn plain(text: &'a str) -> Self {
        Self {
            text,
            differences: false,
        }
    }

    /// The text, to be cut into pieces at its start and behind lines that begin with `}`.
    pub const fn as_packed(self) -> &'a str {
        self.text
    }

    /// The PTX of such a piece; `None` for what no packing makes.
    pub fn read<'p>(self, piece: &'p str) -> Option<Cow<'p, str>> {
        if self.differences {
            packed::numbered(piece).map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(piece))
        }
    }
}

impl core::fmt::Debug for Ptx {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (kind, bytes) = match self {
            Self::Text(text) => ("Text", text.len()),
            Self::Compressed(compressed) => ("Compressed", compressed.stream.len()),
        };
        write!(f, "{kind}({bytes} bytes)")
    }
}

/// A crate of kernels, loaded as one module.
#[derive(Debug)]
pub struct KernelModule {
    /// Name of the module, unique in the program.
    pub name: &'static str,
    /// PTX by compute capability; empty for a module that runs on the simulator alone.
    pub images: &'static [PtxImage],
}

impl KernelModule {
    /// The text of one of the images. `decompress` reads a Brotli stream for the first one who asks, and answers `None` to what is no
    /// stream of text; then so does this, and where the text is not packed as it should be.
    pub fn ptx<'a>(
        &self,
        image: &'a PtxImage,
        decompress: impl Fn(&[u8]) -> Option<String>,
    ) -> Option<PtxText<'a>> {
        let CompressedPtx { stream, text } = match &image.ptx {
            Ptx::Text(text) => return Some(PtxText::plain(text)),
            Ptx::Compressed(compressed) => compressed,
        };
        let text = text.get_or_init(|| {
            let packed = decompress(stream)?;
            match Packed::parse(&packed)? {
                Packed::Whole(text) => Some(text.to_owned()),
                Packed::Patch { base, runs } => {
                    let base = self.images.iter().find(|image| image.sm == base)?;
                    let Ptx::Compressed(CompressedPtx { stream, .. }) = &base.ptx else {
                        return None;
                    };
                    match Packed::parse(&decompress(stream)?)? {
                        Packed::Whole(base) => packed::patched(base, runs),
                        Packed::Patch { .. } => None,
                    }
                }
            }
        });
        Some(PtxText {
            text: text.as_deref()?,
            differences: true,
        })
    }
}

/// One instance of a kernel.
pub struct KernelDesc {
    /// Entry point in the PTX: the function's name, `_f32` or the like appended for an instance of
    /// a generic kernel.
    pub name: &'static str,
    /// The module that the entry point is in.
    pub module: &'static KernelModule,
    /// Parameters in order.
    pub params: &'static [ParamDesc],
    /// Static shared memory, in the order of the source.
    pub shared: &'static [SharedDesc],
    /// Largest block, in threads.
    pub max_threads: u32,
    /// Blocks that should fit on a multiprocessor together; 0 if the kernel does not say.
    pub min_blocks: u32,
    /// Runs one simulated thread.
    ///
    /// # Safety
    ///
    /// Called by the simulator alone, on a simulated thread, with the arguments of `params`.
    pub entry: unsafe fn(&mut sim::Arguments<'_>),
}

impl core::fmt::Debug for KernelDesc {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KernelDesc")
            .field("name", &self.name)
            .field("params", &self.params)
            .field("shared", &self.shared)
            .field("max_threads", &self.max_threads)
            .field("min_blocks", &self.min_blocks)
            .finish_non_exhaustive()
    }
}

impl KernelDesc {
    /// What a launch passes, in order: the parameters, and the fields of those that are structs.
    pub fn arguments(&self) -> impl Iterator<Item = ArgumentDesc> {
        self.params.iter().flat_map(|param| {
            let (fields, parameter) = match param.kind {
                ParamKind::Struct(fields) => (fields, Some(param.name)),
                _ => (core::slice::from_ref(param), None),
            };
            fields.iter().map(move |field| ArgumentDesc {
                parameter,
                name: field.name,
                kind: field.kind,
            })
        })
    }

    /// Static shared memory of a block in bytes, each array aligned to 16.
    pub fn static_shared_bytes(&self) -> usize {
        self.shared
            .iter()
            .map(|s| (s.element.bytes() * s.len).next_multiple_of(16))
            .sum()
    }
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamDesc {
    /// Name in the source.
    pub name: &'static str,
    /// What it takes.
    pub kind: ParamKind,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A number, passed by value.
    Scalar(ElementKind),
    /// A buffer, passed as (pointer, length as u64).
    Buffer {
        /// Element type.
        element: ElementKind,
        /// Whether the kernel may write it.
        writable: bool,
    },
    /// A struct, passed as its fields, of which none is a struct.
    Struct(&'static [ParamDesc]),
}

/// What a launch passes by itself: a parameter, or a field of one.
///
/// Displayed as kernels write it: `x`, `plan.x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentDesc {
    /// The parameter that it is a field of.
    pub parameter: Option<&'static str>,
    /// Its own name.
    pub name: &'static str,
    /// What it takes.
    pub kind: ParamKind,
}

impl fmt::Display for ArgumentDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parameter) = self.parameter {
            write!(f, "{parameter}.")?;
        }
        f.write_str(self.name)
    }
}

/// A static shared array of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedDesc {
    /// Name in the source.
    pub name: &'static str,
    /// Element type.
    pub element: ElementKind,
    /// Number of elements.
    pub len: usize,
}

/// The element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ElementKind {
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
    ComplexF32,
    ComplexF64,
}

impl ElementKind {
    /// Size in bytes: 4, 8 or 16.
    pub const fn bytes(self) -> usize {
        match self {
            ElementKind::U32 | ElementKind::I32 | ElementKind::F32 => 4,
            ElementKind::U64 | ElementKind::I64 | ElementKind::F64 | ElementKind::ComplexF32 => 8,
            ElementKind::ComplexF64 => 16,
        }
    }

    /// The kind of `T`.
    pub const fn of<T: crate::element::Element>() -> ElementKind {
        T::KIND
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks of the grid, x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block, x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
    /// Whether all blocks must be resident at once.
    pub cooperative: bool,
}

impl LaunchConfig {
    /// `grid` blocks of `block` threads in one dimension.
    pub const fn linear(grid: u32, block: u32) -> LaunchConfig {
        LaunchConfig {
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            shared_bytes: 0,
            cooperative: false,
        }
    }

    /// As many blocks of `block` threads as give each of `n` elements a thread; at least one.
    ///
    /// # Panics
    ///
    /// If `block` is 0, or `n / block` does not fit in 31 bits.
    #[track_caller]
    pub fn for_elements(n: usize, block: u32) -> LaunchConfig {
        assert!(block > 0, "a block needs threads");
        let grid = n.div_ceil(block as usize).max(1);
        assert!(
            grid <= i32::MAX as usize,
            "{n} elements need more than 2^31-1 blocks of {block} threads"
        );
        LaunchConfig::linear(grid as u32, block)
    }

    /// With `bytes` of dynamic shared memory for each block.
    pub const fn with_shared(self, bytes: u32) -> LaunchConfig {
        LaunchConfig {
            shared_bytes: bytes,
            ..self
        }
    }

    /// With all blocks resident at once, or refused.
    pub const fn cooperative(self) -> LaunchConfig {
        LaunchConfig {
            cooperative: true,
            ..self
        }
    }

    /// Threads of a block.
    pub const fn threads_per_block(&self) -> u64 {
        self.block[0] as u64 * self.block[1] as u64 * self.block[2] as u64
    }

    /// Blocks of the grid.
    pub const fn num_blocks(&self) -> u64 {
        // Saturating: the product of three u32 need not fit.
        (self.grid[0] as u64 * self.grid[1] as u64).saturating_mul(self.grid[2] as u64)
    }
}

/// Where a buffer lives.
#[derive(Clone, Debug)]
pub enum BufferBase {
    /// Device address of the start of the allocation.
    Device(u64),
    /// Memory of the simulator.
    Simulated(sim::Allocation),
}

/// An argument of a launch.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum KernelArg {
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    ComplexF32(Complex<f32>),
    ComplexF64(Complex<f64>),
    /// A range of an allocation.
    Buffer {
        /// The allocation.
        base: BufferBase,
        /// Where the range starts, a multiple of the element size.
        byte_offset: u64,
        /// Number of elements.
        len: usize,
        /// Element type.
        element: ElementKind,
        /// Whether it was lent for writing.
        writable: bool,
    },
}

macro_rules! from_scalar {
    ($($variant:ident($t:ty)),*) => {
        $(impl From<$t> for KernelArg {
            fn from(v: $t) -> KernelArg {
                KernelArg::$variant(v)
            }
        })*
    };
}
from_scalar!(
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    ComplexF32(Complex<f32>),
    ComplexF64(Complex<f64>)
);

impl KernelArg {
    /// The bits of a scalar, as `ElementImp::to_bits` has them; 0 for a buffer.
    pub(crate) fn bits(&self) -> [u64; 2] {
        match *self {
            KernelArg::U32(v) => ElementImp::to_bits(v),
            KernelArg::I32(v) => ElementImp::to_bits(v),
            KernelArg::U64(v) => ElementImp::to_bits(v),
            KernelArg::I64(v) => ElementImp::to_bits(v),
            KernelArg::F32(v) => ElementImp::to_bits(v),
            KernelArg::F64(v) => ElementImp::to_bits(v),
            KernelArg::ComplexF32(v) => ElementImp::to_bits(v),
            KernelArg::ComplexF64(v) => ElementImp::to_bits(v),
            KernelArg::Buffer { .. } => [0; 2],
        }
    }

    /// The parameter kind that this argument fits.
    pub fn kind(&self) -> ParamKind {
        match self {
            KernelArg::U32(_) => ParamKind::Scalar(ElementKind::U32),
            KernelArg::I32(_) => ParamKind::Scalar(ElementKind::I32),
            KernelArg::U64(_) => ParamKind::Scalar(ElementKind::U64),
            KernelArg::I64(_) => ParamKind::Scalar(ElementKind::I64),
            KernelArg::F32(_) => ParamKind::Scalar(ElementKind::F32),
            KernelArg::F64(_) => ParamKind::Scalar(ElementKind::F64),
            KernelArg::ComplexF32(_) => ParamKind::Scalar(ElementKind::ComplexF32),
            KernelArg::ComplexF64(_) => ParamKind::Scalar(ElementKind::ComplexF64),
            KernelArg::Buffer {
                element, writable, ..
            } => ParamKind::Buffer {
                element: *element,
                writable: *writable,
            },
        }
    }
}

/// What takes launches: a CUDA stream, or the simulator.
pub trait LaunchTarget {
    /// Why a launch did not happen, or faulted.
    type Error;

    /// Launches `kernel`; `args` match `kernel.arguments()` in number and kind.
    ///
    /// # Errors
    ///
    /// The target's own: a refused configuration, a fault of the simulator.
    fn launch(
        &self,
        kernel: &'static KernelDesc,
        config: &LaunchConfig,
        args: &[KernelArg],
    ) -> Result<(), Self::Error>;
}

/// A struct of arguments; `#[derive(KernelArgs)]` implements it.
pub trait KernelArgs: Copy {
    /// The struct with device memory in the place of handles: what a launcher takes.
    type Buffers<'a>;

    /// The fields, in order.
    const FIELDS: &'static [ParamDesc];

    /// Appends the arguments of the fields, in order.
    fn lend(buffers: Self::Buffers<'_>, arguments: &mut Vec<KernelArg>);

    /// Makes the struct of the next arguments of a simulated launch.
    #[doc(hidden)]
    fn take(arguments: &mut sim::Arguments<'_>) -> Self;
}

/// Device memory that a launcher takes for reading: elements `T`, or records.
pub trait KernelBuffer<T> {
    /// Number of elements, or of records.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The argument, not writable.
    fn kernel_arg(&self) -> KernelArg;
}

/// Device memory that a launcher takes for writing.
pub trait KernelBufferMut<T>: KernelBuffer<T> {
    /// The argument, writable.
    fn kernel_arg_mut(&mut self) -> KernelArg;
}

/// A buffer `B` of words that consists of records `R`.
#[derive(Clone, Copy, Debug)]
pub struct RecordBuffer<B, R> {
    words: B,
    record: PhantomData<fn() -> R>,
}

impl<B: KernelBuffer<u32>, R: Record> RecordBuffer<B, R> {
    /// The records that `words` consists of; see [`Record::as_words`].
    ///
    /// # Panics
    ///
    /// If the last record is not complete, or there are 2³² words.
    #[track_caller]
    pub fn new(words: B) -> Self {
        let len = words.len();
        assert!(
            len.is_multiple_of(R::WORDS) && u32::try_from(len).is_ok(),
            "{len} words are not records of {}",
            R::WORDS
        );
        Self {
            words,
            record: PhantomData,
        }
    }

    /// The words.
    pub fn words(&self) -> &B {
        &self.words
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.words.len() / R::WORDS
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<B: KernelBuffer<u32>, R: Record> KernelBuffer<R> for RecordBuffer<B, R> {
    fn len(&self) -> usize {
        RecordBuffer::len(self)
    }

    fn kernel_arg(&self) -> KernelArg {
        self.words.kernel_arg()
    }
}
