//! How the devices of a group share the sources.
//!
//! gSoFa deals chunks of 128 sources out in turn, for neighbours cost alike and later ones more. Here a chunk is many times that,
//! since a launch over 128 sources leaves most of a device idle: the sources are cut where the labels and marks that they need
//! add up to the same, a few chunks for each device.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use luge_frontier_pool::Demand;
use serde::Serialize;

/// Chunks for each device.
const CHUNKS: usize = 8;

/// Chunks begin with multiples of this.
const SIDE: usize = 128;

/// Which device walks from which sources. The result does not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dealing {
    /// Whoever is done takes the next chunk, by one counter.
    #[default]
    Stealing,
    /// The chunks go to the devices in turn.
    Interleaved,
}

/// Deals the sources out, and counts what is done.
#[derive(Debug)]
pub(super) struct Dealer {
    chunks: Vec<Range<usize>>,
    dealing: Dealing,
    num_devices: usize,
    /// The device that each chunk went to, of those that were taken.
    owner: Mutex<Vec<Option<usize>>>,
    /// Sources that were walked from, or need not be any more, in both stages.
    done: AtomicU64,
    is_stopped: AtomicBool,
}

impl Dealer {
    pub(super) fn new(demand: &Demand, num_devices: usize, dealing: Dealing) -> Self {
        let chunks = chunks(demand, num_devices);
        Self {
            owner: Mutex::new(vec![None; chunks.len()]),
            chunks,
            dealing,
            num_devices,
            done: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Whether there are several devices.
    pub(super) fn has_several(&self) -> bool {
        self.num_devices > 1
    }

    /// The sources that device `number` walks from next; it has `taken` so many chunks before.
    pub(super) fn next(&self, number: usize, taken: &mut usize) -> Option<Range<usize>> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return None;
        }
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let chunk = match self.dealing {
            Dealing::Stealing => owner.iter().position(Option::is_none)?,
            Dealing::Interleaved => number + *taken * self.num_devices,
        };
        let sources = self.chunks.get(chunk)?.clone();
        owner[chunk] = Some(number);
        *taken += 1;
        Some(sources)
    }

    /// Gives no more chunks.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// The chunks in the order of their sources, each with the device that walked from them.
    ///
    /// # Panics
    ///
    /// If one was not taken.
    pub(super) fn owners(&self) -> Vec<(Range<usize>, usize)> {
        let owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let chunks = self.chunks.iter().zip(&*owner);
        let owned = chunks.map(|(chunk, owner)| match owner {
            Some(owner) => (chunk.clone(), *owner),
            None => unreachable!("the sources {chunk:?} were not walked from"),
        });
        owned.collect()
    }

    pub(super) fn add_done(&self, sources: usize) {
        self.done.fetch_add(sources as u64, Ordering::Relaxed);
    }

    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

/// The sources, cut where their demands add up to the same; at once for one device.
fn chunks(demand: &Demand, num_devices: usize) -> Vec<Range<usize>> {
    let n = demand.num_sources();
    if num_devices == 1 {
        return std::iter::once(0..n).collect();
    }
    let before = |source: usize| {
        u128::from(demand.labels(0..source) + demand.marks(0..source)) + source as u128
    };
    let count = (CHUNKS * num_devices) as u128;
    let mut chunks = Vec::new();
    let mut start = 0;
    for number in 1..=count {
        let wanted = before(n) * number / count;
        let (mut low, mut high) = (start, n);
        while low < high {
            let middle = low.midpoint(high);
            if before(middle) < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let end = low.next_multiple_of(SIDE).min(n);
        if end > start {
            chunks.push(start..end);
            start = end;
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sources that need as much as their number says.
    fn growing(n: u32) -> Demand {
        Demand::new((0..n).map(|source| (source, 0)))
    }

    #[test]
    fn chunks_cover_the_sources_and_cost_alike() {
        assert_eq!(chunks(&growing(1000), 1), [0..1000]);
        for n in [1, 127, 128, 129, 5000, 100_000] {
            for num_devices in [2, 3, 5] {
                let demand = growing(n);
                let chunks = chunks(&demand, num_devices);
                let mut next = 0;
                for chunk in &chunks {
                    assert_eq!(chunk.start, next);
                    assert!(!chunk.is_empty() && chunk.start % SIDE == 0);
                    next = chunk.end;
                }
                assert_eq!(next, n as usize);
                if n == 100_000 {
                    assert_eq!(chunks.len(), CHUNKS * num_devices);
                    let cost = |chunk: &Range<usize>| demand.labels(chunk.clone());
                    let most = chunks.iter().map(cost).max().unwrap();
                    let even = demand.labels(0..n as usize) / chunks.len() as u64;
                    assert!(most < even * 5 / 4, "{most} of {even}");
                }
            }
        }
    }

    #[test]
    fn every_chunk_goes_to_one_device() {
        for dealing in [Dealing::Stealing, Dealing::Interleaved] {
            let dealer = Dealer::new(&growing(10_000), 3, dealing);
            let mut taken = [0; 3];
            let mut left = vec![2, 0, 1];
            // The third device is fast.
            while let Some(number) = left.pop() {
                if dealer.next(number, &mut taken[number]).is_some() {
                    left.insert(0, number);
                }
            }
            let owners = dealer.owners();
            for (number, &taken) in taken.iter().enumerate() {
                let own = owners.iter().filter(|(_, owner)| *owner == number);
                assert_eq!(own.count(), taken);
                assert!(taken > 0);
            }
            if dealing == Dealing::Interleaved {
                assert!(
                    owners
                        .iter()
                        .enumerate()
                        .all(|(at, (_, owner))| at % 3 == *owner)
                );
            }
        }
        let dealer = Dealer::new(&growing(10_000), 2, Dealing::Stealing);
        dealer.stop();
        assert_eq!(dealer.next(0, &mut 0), None);
    }
}
