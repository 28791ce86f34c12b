//! How the devices of a group share the sources: in turn, [`CHUNK`] after [`CHUNK`], as gSoFa does it. Neighbours cost alike
//! and later ones more, so the shares do too.

use std::sync::atomic::{AtomicU64, Ordering};

use luge_gpu_kernels::symbolic::fill2::{CHUNK, source_of};
use luge_sparse::CancelFlag;

/// The sources of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// From the beginning of one of its chunks to that of the next.
    pub stride: u32,
    /// The first source.
    pub offset: u32,
    /// Number of sources.
    pub len: usize,
}

impl Share {
    /// That of device `number` of so many, of sources below `n`.
    pub(super) fn of(n: usize, number: usize, num_devices: usize) -> Self {
        let chunk = CHUNK as usize;
        let (stride, offset) = (chunk * num_devices, chunk * number);
        let rest = (n % stride).saturating_sub(offset).min(chunk);
        Self {
            stride: stride as u32,
            offset: offset as u32,
            len: n / stride * chunk + rest,
        }
    }

    /// The source of that number among these.
    pub(super) fn source(self, number: usize) -> usize {
        source_of(number as u32, self.stride, self.offset) as usize
    }

    pub(super) fn sources(self) -> impl Iterator<Item = usize> {
        (0..self.len).map(move |number| self.source(number))
    }
}

/// What the devices of a group tell each other.
#[derive(Debug)]
pub(super) struct Group {
    /// Raised by the caller, or by a device that failed: what the others do is of no use then.
    pub cancel: CancelFlag,
    /// Sources that were walked from, or need not be any more, in both stages.
    done: AtomicU64,
}

impl Group {
    /// A group that stops with the caller's flag.
    pub(super) fn new(cancel: &CancelFlag) -> Self {
        Self {
            cancel: cancel.child(),
            done: AtomicU64::new(0),
        }
    }

    pub(super) fn add_done(&self, sources: usize) {
        self.done.fetch_add(sources as u64, Ordering::Relaxed);
    }

    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_in_one_share_and_shares_are_alike() {
        for n in [0, 1, 127, 128, 129, 255, 256, 257, 5000] {
            for num_devices in [1, 2, 3, 5] {
                let mut owners = vec![None; n];
                for number in 0..num_devices {
                    let share = Share::of(n, number, num_devices);
                    let mut last = None;
                    for source in share.sources() {
                        assert!(last < Some(source));
                        last = Some(source);
                        assert_eq!(owners[source].replace(number), None);
                        assert_eq!(source / 128 % num_devices, number);
                    }
                    assert!(share.len.abs_diff(n / num_devices) <= 128);
                }
                assert!(owners.iter().all(Option::is_some));
            }
        }
        assert_eq!(Share::of(1000, 0, 1).source(999), 999);
    }
}
