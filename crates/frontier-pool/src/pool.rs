//! The pool on a device: an arena, and the batches that it is divided for.

use luge_device::{Buffer, DeviceError, SliceMut, Stream};
use serde::Serialize;

use crate::division::{
    Batch, CELL_BYTES, Demand, Planner, Queues, Shape, largest_arena, smallest_arena,
};

/// Value of a label that nobody reached: larger than every value of every window.
pub const CLEARED: u32 = u32::MAX;

/// What a pool is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolOptions {
    /// Most bytes of device memory. The arena is smaller only if more could not be used.
    pub budget_bytes: u64,
    /// Whether every frontier needs a place in a queue.
    pub queues: Queues,
    /// Most bytes of page-locked host memory; they are allocated when a batch needs them.
    pub host_budget_bytes: u64,
    /// Most sources in a batch.
    pub max_sources: usize,
    /// Words that the traversal itself needs.
    pub shape: Shape,
    /// Words of 64 bits kept aside for the caller, the same for all batches.
    pub aside_words: usize,
    /// Number of values that the labels of a batch can have.
    pub window: u32,
}

/// Why there is no pool.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The budget does not get every source through, even one at a time.
    #[error("{available} bytes are allowed, and source {source_id} alone needs {smallest}")]
    BudgetTooSmall {
        /// The source that needs most.
        source_id: usize,
        /// The smallest budget that works, in bytes.
        smallest: u64,
        /// The budget.
        available: u64,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// What a pool did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PoolStatistics {
    /// Batches.
    pub batches: u64,
    /// Iterations of all batches.
    pub iterations: u64,
    /// Most sources in a batch.
    pub max_sources: u64,
    /// Most entries that a queue held.
    pub peak_entries: u64,
    /// Entries that stood in the host's memory.
    pub spilled_entries: u64,
    /// Bytes that these moved over the bus: each was written and read once.
    pub spilled_bytes: u64,
    /// Iterations whose queue had entries without a place, and was found by its bits.
    pub rescans: u64,
    /// Bytes of labels that were cleared.
    pub cleared_bytes: u64,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// Most bytes of the arena that a batch used, with what is kept aside.
    pub peak_bytes: u64,
    /// Bytes of page-locked host memory.
    pub host_bytes: u64,
}

impl PoolStatistics {
    /// Adds what the pool of another device did beside this one. What is the most of one device stays that; the host's memory is that of all.
    pub fn add(&mut self, other: &Self) {
        self.batches += other.batches;
        self.iterations += other.iterations;
        self.max_sources = self.max_sources.max(other.max_sources);
        self.peak_entries = self.peak_entries.max(other.peak_entries);
        self.spilled_entries += other.spilled_entries;
        self.spilled_bytes += other.spilled_bytes;
        self.rescans += other.rescans;
        self.cleared_bytes += other.cleared_bytes;
        self.arena_bytes = self.arena_bytes.max(other.arena_bytes);
        self.peak_bytes = self.peak_bytes.max(other.peak_bytes);
        self.host_bytes += other.host_bytes;
    }
}

/// What the traversal of a batch found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measured {
    /// Iterations.
    pub iterations: u64,
    /// Most entries that a queue held.
    pub peak_entries: u64,
    /// Entries that stood in the host's memory, over all iterations.
    pub spilled_entries: u64,
    /// Iterations whose queue was found by its bits.
    pub rescans: u64,
}

/// The memory of a batch.
#[derive(Debug)]
pub struct Regions<'a> {
    /// Smallest value that a label of this batch may have; every word of `labels` is at least a window
    /// above.
    pub base: u32,
    /// A word for each label.
    pub labels: SliceMut<'a, u32>,
    /// Two bitmaps with a bit for each label, zero.
    pub queued: SliceMut<'a, u32>,
    /// A bit for each mark, zero.
    pub marks: SliceMut<'a, u32>,
    /// The words of [`Shape::control_words`], zero.
    pub control: SliceMut<'a, u64>,
    /// The words of [`Shape::slot_words`] for each source, undefined.
    pub slots: SliceMut<'a, u64>,
    /// The places of the two queues in the arena, one queue after the other, undefined.
    pub queue: SliceMut<'a, u64>,
    /// The places of the two queues in the host's memory, one queue after the other, undefined.
    pub spill: SliceMut<'a, u64>,
    /// What is kept aside, as the caller left it.
    pub aside: SliceMut<'a, u64>,
}

/// One arena, divided anew for every batch of sources.
#[derive(Debug)]
pub struct FrontierPool {
    stream: Stream,
    planner: Planner,
    shape: Shape,
    arena: Buffer<u64>,
    spill: Buffer<u64>,
    aside: usize,
    window: u32,
    /// Windows below the last one.
    windows_left: u32,
    /// Words from the front that hold labels of earlier windows, or were cleared.
    clean_words: u64,
    statistics: PoolStatistics,
}

impl FrontierPool {
    /// The smallest budget that gets every source through, in bytes: it works, one byte less does not.
    pub fn smallest_budget(demand: &Demand, options: &PoolOptions) -> u64 {
        Self::smallest(demand, options).0
    }

    fn smallest(demand: &Demand, options: &PoolOptions) -> (u64, usize) {
        let (bytes, source) = smallest_arena(
            demand,
            options.shape,
            options.queues,
            spill_entries(options),
        )
        .unwrap_or((0, 0));
        (bytes + CELL_BYTES * options.aside_words as u64, source)
    }

    /// Allocates the arena on the stream.
    ///
    /// # Errors
    ///
    /// [`PoolError::BudgetTooSmall`]; [`PoolError::Device`].
    ///
    /// # Panics
    ///
    /// If the window is empty.
    #[track_caller]
    pub fn new(stream: &Stream, demand: Demand, options: &PoolOptions) -> Result<Self, PoolError> {
        assert!(options.window > 0, "labels need values");
        let (smallest, source_id) = Self::smallest(&demand, options);
        if options.budget_bytes < smallest {
            return Err(PoolError::BudgetTooSmall {
                source_id,
                smallest,
                available: options.budget_bytes,
            });
        }
        let aside = options.aside_words as u64;
        let most = largest_arena(&demand, options.shape) / CELL_BYTES + aside;
        let cells = (options.budget_bytes / CELL_BYTES).min(most);
        let arena = stream.alloc::<u64>(cells as usize)?;
        let spill = stream.alloc_mapped(0)?;
        Ok(Self {
            stream: stream.clone(),
            planner: Planner::new(
                demand,
                options.shape,
                cells - aside,
                (options.queues, spill_entries(options)),
                // A slot has a number of 32 bits.
                options.max_sources.min(u32::MAX as usize),
            ),
            shape: options.shape,
            arena,
            spill,
            aside: options.aside_words,
            window: options.window,
            windows_left: 0,
            clean_words: 0,
            statistics: PoolStatistics {
                arena_bytes: cells * CELL_BYTES,
                ..PoolStatistics::default()
            },
        })
    }

    /// The next batch from source `first` on, not past source `end`; see [`Planner::next`].
    ///
    /// # Panics
    ///
    /// If `first` is not before `end`.
    #[track_caller]
    pub fn plan(&self, first: usize, end: usize) -> Batch {
        self.planner.next(first, end)
    }

    /// What the sources need.
    pub fn demand(&self) -> &Demand {
        self.planner.demand()
    }

    /// What has been done so far.
    pub fn statistics(&self) -> PoolStatistics {
        self.statistics
    }

    /// What is kept aside, between batches.
    pub fn aside(&mut self) -> SliceMut<'_, u64> {
        let start = self.arena.len() - self.aside;
        self.arena.slice_mut(start..)
    }

    /// Makes the memory ready for a batch that [`plan`](Self::plan) answered.
    ///
    /// # Errors
    ///
    /// Those of the device.
    pub fn open(&mut self, batch: &Batch) -> Result<Regions<'_>, PoolError> {
        if (self.spill.len() as u64) < 2 * batch.spill {
            // The old memory first: two together may be more than is allowed.
            self.spill = self.stream.alloc_mapped(0)?;
            self.spill = self.stream.alloc_mapped(2 * batch.spill as usize)?;
            let bytes = CELL_BYTES * self.spill.len() as u64;
            self.statistics.host_bytes = self.statistics.host_bytes.max(bytes);
            tracing::debug!(bytes, "host memory for frontiers");
        }
        if self.windows_left == 0 {
            self.windows_left = u32::MAX / self.window;
            self.clean_words = 0;
        }
        self.windows_left -= 1;
        let base = self.windows_left * self.window;

        let rest = batch.queues as usize;
        let (front, rest_of_arena) = self.arena.split_at_mut(rest);
        let mut front = front.into_elements::<u32>();
        if self.clean_words < batch.labels {
            let mut unclean = front.slice_mut(self.clean_words as usize..batch.labels as usize);
            self.stream.fill_bytes(&mut unclean, 0xff)?;
            self.statistics.cleared_bytes += 4 * (batch.labels - self.clean_words);
            self.clean_words = batch.labels;
        }
        self.clean_words = self.clean_words.min(2 * batch.queues);
        let (labels, _) = front.into_split_at(batch.labels as usize);
        let (queue, rest_of_arena) =
            rest_of_arena.into_split_at((batch.zeroed - batch.queues) as usize);
        let (mut zeroed, rest_of_arena) =
            rest_of_arena.into_split_at((batch.slots - batch.zeroed) as usize);
        self.stream.fill_zero(&mut zeroed)?;
        let (control, zeroed) = zeroed.into_split_at(self.shape.control_words);
        let (queued, marks) =
            zeroed.into_split_at(batch.labels.div_ceil(u32::BITS.into()) as usize);
        let (slots, aside) = rest_of_arena.into_split_at((batch.end - batch.slots) as usize);
        let (spill, _) = self.spill.split_at_mut(2 * batch.spill as usize);
        Ok(Regions {
            base,
            labels,
            queued: queued.into_elements(),
            marks: marks.into_elements(),
            control,
            slots,
            queue,
            spill,
            aside,
        })
    }

    /// Ends a batch: the traversal is over, and this is what it measured.
    pub fn close(&mut self, batch: &Batch, measured: Measured) {
        self.planner.measured(batch, measured.peak_entries);
        let statistics = &mut self.statistics;
        statistics.batches += 1;
        statistics.iterations += measured.iterations;
        statistics.max_sources = statistics.max_sources.max(batch.sources.len() as u64);
        statistics.peak_entries = statistics.peak_entries.max(measured.peak_entries);
        statistics.spilled_entries += measured.spilled_entries;
        statistics.spilled_bytes += 2 * CELL_BYTES * measured.spilled_entries;
        statistics.rescans += measured.rescans;
        let used = batch.used_bytes() + CELL_BYTES * self.aside as u64;
        statistics.peak_bytes = statistics.peak_bytes.max(used);
        tracing::debug!(
            first = batch.sources.start,
            sources = batch.sources.len(),
            labels = batch.labels,
            capacity = batch.capacity,
            iterations = measured.iterations,
            peak = measured.peak_entries,
            spilled = measured.spilled_entries,
            rescans = measured.rescans,
            occupancy = self.planner.occupancy(),
            "batch"
        );
    }
}

/// Entries of each of the two queues that the host's memory may hold.
fn spill_entries(options: &PoolOptions) -> u64 {
    options.host_budget_bytes / (2 * CELL_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_device::{Device, SimulatorOptions};
    use proptest::prelude::*;

    const SHAPE: Shape = Shape {
        control_words: 8,
        slot_words: 2,
    };

    fn options(budget_bytes: u64, window: u32) -> PoolOptions {
        PoolOptions {
            budget_bytes,
            queues: Queues::Whole,
            host_budget_bytes: 1 << 20,
            max_sources: usize::MAX,
            shape: SHAPE,
            aside_words: 3,
            window,
        }
    }

    fn stream() -> Stream {
        let device = Device::simulator(SimulatorOptions::default());
        device.create_stream().unwrap()
    }

    /// A batch as a traversal would use it, with the worst values that it may leave behind.
    fn use_up(stream: &Stream, pool: &mut FrontierPool, batch: &Batch, window: u32) {
        let mut regions = pool.open(batch).unwrap();
        let labels = stream.download(&regions.labels).unwrap();
        assert_eq!(labels.len() as u64, batch.labels);
        let reached = |&label: &u32| u64::from(label) < u64::from(regions.base) + u64::from(window);
        assert!(!labels.iter().any(reached), "a label of this window");
        let zeros = |values: Vec<u32>| assert!(values.iter().all(|&v| v == 0));
        zeros(stream.download(&regions.queued).unwrap());
        zeros(stream.download(&regions.marks).unwrap());
        assert_eq!(stream.download(&regions.control).unwrap(), [0; 8]);
        assert!(regions.queued.len() >= 2 * labels.len().div_ceil(32));
        assert!(32 * regions.marks.len() as u64 >= batch.marks);
        assert_eq!(regions.slots.len(), 2 * batch.sources.len());
        let places = regions.queue.len() / 2 + regions.spill.len() / 2;
        assert!(places as u64 >= batch.labels);

        let lowest = vec![regions.base; labels.len()];
        stream.copy_from_host(&mut regions.labels, &lowest).unwrap();
        stream.fill_zero(&mut regions.queue).unwrap();
        stream.fill_zero(&mut regions.spill).unwrap();
        stream.fill_zero(&mut regions.slots).unwrap();
        stream.fill_bytes(&mut regions.marks, 0x55).unwrap();
        stream.fill_bytes(&mut regions.control, 0x55).unwrap();
        stream.fill_bytes(&mut regions.queued, 0x55).unwrap();
        assert_eq!(stream.download(&regions.aside).unwrap(), [7, 8, 9]);
        pool.close(
            batch,
            Measured {
                iterations: 2,
                peak_entries: batch.labels / 3,
                spilled_entries: 1,
                rescans: 0,
            },
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_batch_finds_its_memory_as_if_it_were_new(
            sources in proptest::collection::vec((0u32..60, 0u32..90), 1..300),
            more in prop_oneof![Just(0u64), 0u64..3000, 0u64..40_000],
            window in prop_oneof![1_000u32..2_000, Just(u32::MAX), Just(u32::MAX / 3)],
            starts in proptest::collection::vec(0usize..300, 0..6),
        ) {
            let stream = stream();
            let n = sources.len();
            let demand = Demand::new(sources);
            let smallest = FrontierPool::smallest_budget(&demand, &options(0, window));
            let budget = smallest + more;
            let mut pool = FrontierPool::new(&stream, demand, &options(budget, window)).unwrap();
            let arena = stream.device().allocated_bytes();
            prop_assert!(arena <= budget);
            stream.copy_from_host(&mut pool.aside(), &[7, 8, 9]).unwrap();
            // All batches, and some out of order.
            for first in starts.into_iter().map(|first| first % n).chain([0]) {
                let mut first = first;
                while first < n {
                    let batch = pool.plan(first, n);
                    use_up(&stream, &mut pool, &batch, window);
                    first = batch.sources.end;
                }
            }
            prop_assert_eq!(stream.device().peak_bytes(), arena);
            let statistics = pool.statistics();
            prop_assert_eq!(statistics.arena_bytes, arena);
            prop_assert!(statistics.peak_bytes <= arena);
            prop_assert!(statistics.host_bytes <= 1 << 20);
            prop_assert_eq!(statistics.iterations, 2 * statistics.batches);
            prop_assert_eq!(statistics.spilled_bytes, 16 * statistics.batches);
        }
    }

    #[test]
    fn a_budget_that_is_too_small_is_told_the_smallest() {
        let stream = stream();
        let demand = Demand::new([(10, 5), (400, 0), (20, 900)]);
        let smallest = FrontierPool::smallest_budget(&demand, &options(0, 100));
        // 200 cells of labels, 13 of queued bits, control, slot, and three aside.
        assert_eq!(smallest, 8 * (200 + 13 + 8 + 2 + 3));
        assert!(FrontierPool::new(&stream, demand.clone(), &options(smallest, 100)).is_ok());
        let refused = FrontierPool::new(&stream, demand.clone(), &options(smallest - 1, 100));
        assert!(matches!(
            refused,
            Err(PoolError::BudgetTooSmall { source_id: 1, smallest: named, available })
                if named == smallest && available == smallest - 1
        ));
        // Without host memory the queues must fit.
        let alone = PoolOptions {
            host_budget_bytes: 15,
            ..options(0, 100)
        };
        let all = FrontierPool::smallest_budget(&demand, &alone);
        assert_eq!(all, smallest + 8 * 2 * 400);
        // But if bits will do.
        let partial = PoolOptions {
            queues: Queues::Partial,
            ..alone
        };
        assert_eq!(FrontierPool::smallest_budget(&demand, &partial), smallest);
    }

    /// The host's memory is that of all devices, their arenas are apart.
    #[test]
    fn statistics_of_devices_are_added() {
        let of = |unit: u64| PoolStatistics {
            batches: unit,
            iterations: 2 * unit,
            max_sources: 100 - unit,
            peak_entries: 200 + unit,
            spilled_entries: 3 * unit,
            spilled_bytes: 4 * unit,
            rescans: 5 * unit,
            cleared_bytes: 6 * unit,
            arena_bytes: 300 - unit,
            peak_bytes: 400 + unit,
            host_bytes: 7 * unit,
        };
        let mut both = of(1);
        both.add(&of(10));
        let expected = PoolStatistics {
            max_sources: 99,
            peak_entries: 210,
            arena_bytes: 299,
            peak_bytes: 410,
            ..of(11)
        };
        assert_eq!(both, expected);
    }

    #[test]
    fn labels_are_cleared_once_in_all_windows() {
        let stream = stream();
        let demand = Demand::new(vec![(64, 64); 16]);
        // Three windows below the cleared value.
        let window = u32::MAX / 3;
        let one_at_a_time = PoolOptions {
            max_sources: 1,
            aside_words: 0,
            ..options(1 << 20, window)
        };
        let mut pool = FrontierPool::new(&stream, demand, &one_at_a_time).unwrap();
        for source in 0..16 {
            let batch = pool.plan(source, 16);
            pool.open(&batch).unwrap();
            pool.close(&batch, Measured::default());
        }
        assert_eq!(pool.statistics().cleared_bytes, 6 * 64 * 4);
    }

    #[test]
    fn labels_that_are_clear_are_not_cleared_again() {
        let stream = stream();
        let demand = Demand::new([(64, 0), (200, 0)]);
        let one_at_a_time = PoolOptions {
            max_sources: 1,
            aside_words: 0,
            ..options(1 << 20, 1000)
        };
        let mut pool = FrontierPool::new(&stream, demand, &one_at_a_time).unwrap();
        // The first 64 of the 200 labels were cleared for the other batch.
        for (source, labels) in [(0, 64), (1, 200), (0, 200)] {
            let batch = pool.plan(source, source + 1);
            pool.open(&batch).unwrap();
            pool.close(&batch, Measured::default());
            assert_eq!(pool.statistics().cleared_bytes, 4 * labels);
        }
    }

    #[test]
    fn nothing_needs_nothing() {
        let stream = stream();
        let demand = Demand::new([]);
        assert_eq!(FrontierPool::smallest_budget(&demand, &options(0, 1)), 24);
        assert!(FrontierPool::new(&stream, demand, &options(24, 1)).is_ok());
    }
}
