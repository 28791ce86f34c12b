//! What the kernels of a factorization count, and the barrier of their grid.

use luge_device::{Buffer, DeviceError, SliceMut, Stream};
use luge_gpu_kernels::grid::GRID_BARRIER_WORDS;
use luge_gpu_kernels::numeric::{counter, extreme};

use crate::error::NumericError;
use crate::pivots::PivotReport;

/// Words before the barrier: extremes, then counters.
const BARRIER: usize = extreme::LEN + counter::LEN.div_ceil(2);

const WORDS: usize = BARRIER + GRID_BARRIER_WORDS.div_ceil(2);

/// Extremes, counters and barrier in one buffer: one operation of the device puts them at their start, and one transfer
/// brings them to the host.
#[derive(Debug)]
pub(super) struct Monitor {
    words: Buffer<u64>,
    start: Buffer<u64>,
}

impl Monitor {
    /// Bytes of device memory.
    pub const BYTES: u64 = 2 * 8 * WORDS as u64;

    pub fn new(stream: &Stream) -> Result<Self, DeviceError> {
        Ok(Self {
            words: stream.alloc(WORDS)?,
            start: stream.upload(&Counted::START.pack())?,
        })
    }

    /// Enqueues what goes before a factorization.
    pub fn restart(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        stream.copy(&mut self.words, &self.start)
    }

    pub fn barrier(&mut self) -> SliceMut<'_, u32> {
        let words = self.words.slice_mut(BARRIER..).into_elements();
        words.into_split_at(GRID_BARRIER_WORDS).0
    }

    /// Counters and extremes.
    pub fn counted(&mut self) -> (SliceMut<'_, u32>, SliceMut<'_, u64>) {
        let (extremes, counters) = self.words.slice_mut(..BARRIER).into_split_at(extreme::LEN);
        (
            counters.into_elements().into_split_at(counter::LEN).0,
            extremes,
        )
    }

    /// Waits for the factorization, and answers what it counted.
    pub fn read(&self, stream: &Stream) -> Result<Counted, DeviceError> {
        Ok(Counted::unpack(&stream.download(&self.words)?))
    }
}

/// Counters and extremes on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    counters: [u32; counter::LEN],
    extremes: [u64; extreme::LEN],
}

impl Counted {
    /// Before the first column.
    pub const START: Self = {
        let mut counters = [u32::MAX; counter::LEN];
        counters[counter::NUM_PERTURBED] = 0;
        let mut extremes = [0; extreme::LEN];
        extremes[extreme::MIN_PIVOT] = f64::INFINITY.to_bits();
        Self { counters, extremes }
    };

    fn pack(self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[..extreme::LEN].copy_from_slice(&self.extremes);
        let pairs = self.counters.chunks(2);
        for (word, pair) in words[extreme::LEN..BARRIER].iter_mut().zip(pairs) {
            let mut bytes = [0; 8];
            for (to, from) in bytes.chunks_exact_mut(4).zip(pair) {
                to.copy_from_slice(&from.to_ne_bytes());
            }
            *word = u64::from_ne_bytes(bytes);
        }
        words
    }

    fn unpack(words: &[u64]) -> Self {
        let mut counted = Self::START;
        counted.extremes.copy_from_slice(&words[..extreme::LEN]);
        let pairs = counted.counters.chunks_mut(2);
        for (pair, word) in pairs.zip(&words[extreme::LEN..BARRIER]) {
            let bytes = word.to_ne_bytes();
            for (to, from) in pair.iter_mut().zip(bytes.chunks_exact(4)) {
                *to = u32::from_ne_bytes([from[0], from[1], from[2], from[3]]);
            }
        }
        counted
    }

    /// The report on the pivots of a matrix B with entries up to `max_b`, or the first column that is of no use.
    pub fn report(&self, max_b: f64) -> Result<PivotReport, NumericError> {
        let zero = self.counters[counter::FIRST_ZERO];
        let not_finite = self.counters[counter::FIRST_NOT_FINITE];
        // What comes after a bad column is bad too, so the smaller of the two is the first offender. A
        // zero pivot makes its own L infinite: that column is reported as singular.
        if zero != u32::MAX && zero <= not_finite {
            return Err(NumericError::ZeroPivot {
                column: zero as usize,
            });
        }
        if not_finite != u32::MAX {
            return Err(NumericError::NotFinite {
                column: not_finite as usize,
            });
        }
        let extreme = |which: usize| f64::from_bits(self.extremes[which]);
        let first = self.counters[counter::FIRST_PERTURBED];
        Ok(PivotReport {
            num_perturbed: self.counters[counter::NUM_PERTURBED] as usize,
            first_perturbed: (first != u32::MAX).then_some(first as usize),
            element_growth: if max_b > 0.0 {
                extreme(extreme::MAX_U) / max_b
            } else {
                1.0
            },
            min_pivot: extreme(extreme::MIN_PIVOT),
            max_pivot: extreme(extreme::MAX_PIVOT),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_what_was_packed() {
        let counted = Counted {
            counters: [1, 2, u32::MAX, 4],
            extremes: [5, u64::MAX, 7],
        };
        assert_eq!(Counted::unpack(&counted.pack()), counted);
    }

    #[test]
    fn nothing_has_no_element_growth() {
        let report = Counted::START.report(0.0).unwrap();
        assert_eq!((report.num_perturbed, report.element_growth), (0, 1.0));
        assert_eq!((report.min_pivot, report.max_pivot), (f64::INFINITY, 0.0));
    }
}
