//! How numbers stand in files: little-endian, whatever the machine, arrays with their lengths before them.
//!
//! Short parts are made and read as a whole ([`Body`]). Long ones go through a [`Sink`] and come from a [`Source`], which keep
//! a checksum of all that passed and hold a stretch of it at most. A source gives what is there and asks for no more memory
//! than it was told to expect; what the numbers mean is checked by those who ask for them.

use std::io::{Read, Write};

use luge_sparse::etree::EliminationForest;
use luge_sparse::{CancelFlag, RealScalar, Reservation, Scalar, Scaling, bytes_of};

use crate::backend::Limits;
use crate::error::{Error, SavedError};
use crate::forests::is_posted;

pub(crate) fn damaged(what: &'static str) -> SavedError {
    SavedError::Damaged { what }
}

pub(crate) fn put(body: &mut Vec<u8>, numbers: &[u64]) {
    body.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

pub(crate) fn put_u32s(body: &mut Vec<u8>, numbers: &[u32]) {
    put(body, &[numbers.len() as u64]);
    body.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

pub(crate) fn put_scaling(body: &mut Vec<u8>, scaling: &Scaling) {
    for factors in [&scaling.rows, &scaling.cols] {
        put(body, &[factors.len() as u64]);
        body.extend(factors.iter().flat_map(|factor| factor.to_le_bytes()));
    }
}

pub(crate) fn put_forest(body: &mut Vec<u8>, forest: Option<&EliminationForest>) {
    body.push(u8::from(forest.is_some()));
    if let Some(forest) = forest {
        put_u32s(body, &forest.parent);
        put_u32s(body, &forest.counts);
    }
}

pub(crate) fn put_optional(body: &mut Vec<u8>, value: Option<u64>) {
    body.push(u8::from(value.is_some()));
    put(body, &[value.unwrap_or(0)]);
}

/// What is left of a body.
pub(crate) struct Body<'a> {
    rest: &'a [u8],
}

pub(crate) fn u32_of(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, &byte| value << 8 | u32::from(byte))
}

pub(crate) fn u64_of(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, &byte| value << 8 | u64::from(byte))
}

impl<'a> Body<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], SavedError> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(damaged("length"))?;
        self.rest = rest;
        Ok(bytes)
    }

    pub fn byte(&mut self) -> Result<u8, SavedError> {
        Ok(self.bytes(1)?[0])
    }

    pub fn truth(&mut self) -> Result<bool, SavedError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(damaged("yes or no")),
        }
    }

    pub fn u32(&mut self) -> Result<u32, SavedError> {
        self.bytes(4).map(u32_of)
    }

    pub fn u64(&mut self) -> Result<u64, SavedError> {
        self.bytes(8).map(u64_of)
    }

    pub fn f64(&mut self) -> Result<f64, SavedError> {
        self.u64().map(f64::from_bits)
    }

    pub fn size(&mut self) -> Result<usize, SavedError> {
        usize::try_from(self.u64()?).map_err(|_| damaged("size"))
    }

    /// A number below `end`.
    pub fn index(&mut self, end: usize) -> Result<usize, SavedError> {
        let index = self.size()?;
        if index < end {
            Ok(index)
        } else {
            Err(damaged("index"))
        }
    }

    pub fn optional_index(&mut self, end: usize) -> Result<Option<usize>, SavedError> {
        match self.optional()? {
            None => Ok(None),
            Some(index) if index < end as u64 => Ok(Some(index as usize)),
            Some(_) => Err(damaged("index")),
        }
    }

    pub fn optional(&mut self) -> Result<Option<u64>, SavedError> {
        let is_there = self.truth()?;
        let value = self.u64()?;
        Ok(is_there.then_some(value))
    }

    /// An array with its length before it. Nothing is allocated that is not there.
    pub fn array<T>(&mut self, size: usize, of: impl Fn(&[u8]) -> T) -> Result<Vec<T>, SavedError> {
        let len = usize::try_from(self.u64()?).ok();
        let len = len.and_then(|len| len.checked_mul(size));
        let bytes = self.bytes(len.ok_or(damaged("length"))?)?;
        Ok(bytes.chunks_exact(size).map(of).collect())
    }

    /// An array of this length.
    pub fn u32s(&mut self, len: usize) -> Result<Vec<u32>, SavedError> {
        let numbers = self.array(4, u32_of)?;
        if numbers.len() != len {
            return Err(damaged("length"));
        }
        Ok(numbers)
    }

    pub fn scaling(&mut self, n: usize) -> Result<Scaling, SavedError> {
        let mut factors = || {
            let factors = self.array(8, |bytes| f64::from_bits(u64_of(bytes)))?;
            let are_good = factors.iter().all(|f| f.is_finite() && *f > 0.0);
            if factors.len() != n || !are_good {
                return Err(damaged("scaling"));
            }
            Ok(factors)
        };
        Ok(Scaling {
            rows: factors()?,
            cols: factors()?,
        })
    }

    pub fn forest(&mut self, n: usize) -> Result<Option<EliminationForest>, SavedError> {
        if !self.truth()? {
            return Ok(None);
        }
        let forest = EliminationForest {
            parent: self.u32s(n)?,
            counts: self.u32s(n)?,
        };
        if !is_posted(&forest) {
            return Err(damaged("elimination forest"));
        }
        Ok(Some(forest))
    }
}

/// Bytes that are written or read at a time, and between two looks at the cancel flag.
const STRETCH: usize = 1 << 16;

/// Where long arrays are written.
pub(crate) struct Sink<'a> {
    out: &'a mut dyn Write,
    cancel: &'a CancelFlag,
    checksum: crc32fast::Hasher,
    buffer: Vec<u8>,
}

impl<'a> Sink<'a> {
    pub fn new(out: &'a mut dyn Write, cancel: &'a CancelFlag) -> Self {
        Self {
            out,
            cancel,
            checksum: crc32fast::Hasher::new(),
            buffer: Vec::with_capacity(STRETCH),
        }
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= STRETCH {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.cancel.check()?;
        self.checksum.update(&self.buffer);
        self.out.write_all(&self.buffer).map_err(SavedError::from)?;
        self.buffer.clear();
        Ok(())
    }

    pub fn u64(&mut self, number: u64) -> Result<(), Error> {
        self.bytes(&number.to_le_bytes())
    }

    pub fn u32s(&mut self, numbers: &[u32]) -> Result<(), Error> {
        self.u64(numbers.len() as u64)?;
        let mut numbers = numbers.iter();
        numbers.try_for_each(|number| self.bytes(&number.to_le_bytes()))
    }

    pub fn sizes(&mut self, numbers: &[usize]) -> Result<(), Error> {
        self.u64(numbers.len() as u64)?;
        let mut numbers = numbers.iter();
        numbers.try_for_each(|&number| self.u64(number as u64))
    }

    pub fn truths(&mut self, truths: &[bool]) -> Result<(), Error> {
        self.u64(truths.len() as u64)?;
        let mut truths = truths.iter();
        truths.try_for_each(|&truth| self.bytes(&[u8::from(truth)]))
    }

    /// Components of the numbers in their own type, one after another.
    pub fn numbers<F: Scalar>(&mut self, numbers: &[F]) -> Result<(), Error> {
        self.u64(numbers.len() as u64)?;
        let per_stretch = STRETCH / size_of::<F>();
        for stretch in numbers.chunks(per_stretch) {
            for number in stretch {
                number.map_components(|component| {
                    put_component(&mut self.buffer, component);
                    component
                });
            }
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the checksum of all that was written before.
    pub fn seal(&mut self) -> Result<(), Error> {
        self.flush()?;
        let checksum = self.checksum.clone().finalize();
        self.bytes(&checksum.to_le_bytes())
    }

    /// Writes the checksum, and what is still in buffers.
    pub fn finish(mut self) -> Result<(), Error> {
        self.seal()?;
        self.flush()?;
        self.out.flush().map_err(|e| SavedError::from(e).into())
    }
}

fn put_component<R: RealScalar>(buffer: &mut Vec<u8>, component: R) {
    let wide = component.to_f64();
    if size_of::<R>() == size_of::<f32>() {
        // Exact, since it came from there.
        buffer.extend((wide as f32).to_le_bytes());
    } else {
        buffer.extend(wide.to_le_bytes());
    }
}

/// Where long arrays are read.
pub(crate) struct Source<'a> {
    from: &'a mut dyn Read,
    limits: &'a Limits,
    checksum: crc32fast::Hasher,
    buffer: Vec<u8>,
}

impl<'a> Source<'a> {
    pub fn new(from: &'a mut dyn Read, limits: &'a Limits) -> Self {
        Self {
            from,
            limits,
            checksum: crc32fast::Hasher::new(),
            buffer: Vec::new(),
        }
    }

    /// Within which limits is read.
    pub fn limits(&self) -> &'a Limits {
        self.limits
    }

    /// The next `len` bytes, at most a stretch.
    fn next(&mut self, len: usize) -> Result<&[u8], Error> {
        self.limits.cancel.check()?;
        self.buffer.clear();
        let mut part = (&mut *self.from).take(len as u64);
        let read = part
            .read_to_end(&mut self.buffer)
            .map_err(SavedError::from)?;
        if read < len {
            return Err(SavedError::Truncated.into());
        }
        self.checksum.update(&self.buffer);
        Ok(&self.buffer)
    }

    /// So many bytes, fewer where the file ends before.
    pub fn bytes_or_fewer(&mut self, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let mut part = (&mut *self.from).take(len as u64);
        part.read_to_end(&mut bytes).map_err(SavedError::from)?;
        self.checksum.update(&bytes);
        Ok(bytes)
    }

    /// So many bytes, which are held only as far as they are there.
    pub fn bytes(&mut self, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let stretch = self.next(STRETCH.min(len - bytes.len()))?;
            bytes.extend_from_slice(stretch);
        }
        Ok(bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Error> {
        self.next(8).map(u64_of)
    }

    /// A number of elements that is not above `most`.
    pub fn count(&mut self, most: u64) -> Result<usize, Error> {
        let count = self.u64()?;
        let fits = usize::try_from(count).ok().filter(|_| count <= most);
        fits.ok_or_else(|| damaged("length").into())
    }

    /// So many elements, each of so many bytes.
    fn elements<T>(
        &mut self,
        len: usize,
        size: usize,
        of: impl Fn(&[u8]) -> T,
    ) -> Result<Vec<T>, Error> {
        let mut elements = Vec::new();
        // What was announced may be more than any machine has.
        check(elements.try_reserve_exact(len).is_ok(), "length")?;
        let per_stretch = STRETCH / size;
        while elements.len() < len {
            let count = per_stretch.min(len - elements.len());
            let stretch = self.next(count * size)?;
            elements.extend(stretch.chunks_exact(size).map(&of));
        }
        Ok(elements)
    }

    /// An array of this length.
    fn array<T>(
        &mut self,
        len: usize,
        size: usize,
        of: impl Fn(&[u8]) -> T,
    ) -> Result<Vec<T>, Error> {
        let announced = self.u64()?;
        check(announced == len as u64, "length")?;
        self.elements(len, size, of)
    }

    pub fn u32s(&mut self, len: usize) -> Result<Vec<u32>, Error> {
        self.array(len, 4, u32_of)
    }

    /// An array that is at most so long, and what is reserved for it.
    pub fn u32s_up_to(&mut self, most: u64) -> Result<(Vec<u32>, Reservation), Error> {
        let len = self.count(most)?;
        let memory = self.limits.reserve(bytes_of::<u32>(len), "numeric")?;
        Ok((self.elements(len, 4, u32_of)?, memory))
    }

    pub fn sizes(&mut self, len: usize) -> Result<Vec<usize>, Error> {
        self.array(len, 8, |bytes| {
            usize::try_from(u64_of(bytes)).unwrap_or(usize::MAX)
        })
    }

    pub fn truths(&mut self, len: usize) -> Result<Vec<bool>, Error> {
        let bytes = self.array(len, 1, |bytes| bytes[0])?;
        check(bytes.iter().all(|&byte| byte <= 1), "yes or no")?;
        Ok(bytes.into_iter().map(|byte| byte == 1).collect())
    }

    pub fn numbers<F: Scalar>(&mut self, len: usize) -> Result<Vec<F>, Error> {
        self.array(len, size_of::<F>(), number::<F>)
    }

    /// Numbers that are at most so many, and what is reserved for them.
    pub fn numbers_up_to<F: Scalar>(&mut self, most: u64) -> Result<(Vec<F>, Reservation), Error> {
        let len = self.count(most)?;
        let memory = self.limits.reserve(bytes_of::<F>(len), "numeric")?;
        Ok((self.elements(len, size_of::<F>(), number::<F>)?, memory))
    }

    /// Reads a checksum, and compares it with that of all that was read before.
    pub fn check_seal(&mut self) -> Result<(), Error> {
        let expected = self.checksum.clone().finalize();
        let found = self.next(4).map(u32_of)?;
        if found != expected {
            return Err(SavedError::Checksum.into());
        }
        Ok(())
    }
}

fn number<F: Scalar>(bytes: &[u8]) -> F {
    let size = size_of::<F::Real>();
    F::from_components(|at| component(&bytes[at * size..(at + 1) * size]))
}

fn component<R: RealScalar>(bytes: &[u8]) -> R {
    if size_of::<R>() == size_of::<f32>() {
        R::from_f64(f64::from(f32::from_bits(u32_of(bytes))))
    } else {
        R::from_f64(f64::from_bits(u64_of(bytes)))
    }
}

/// Refuses a file in which `what` is not sound.
pub(crate) fn check(is_sound: bool, what: &'static str) -> Result<(), Error> {
    if is_sound {
        Ok(())
    } else {
        Err(damaged(what).into())
    }
}
