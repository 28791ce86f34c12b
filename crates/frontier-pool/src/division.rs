//! How the arena is divided among the sources of a batch, and how many sources a batch has.
//!
//! Plain arithmetic on the host, in units of eight bytes ("cells"): nothing here touches a device.

use std::ops::Range;

/// Sources that supernode detection wants together (gSoFa, section 5): batches end at multiples of
/// it where they can.
pub const CHUNK: usize = 128;

/// Sources above which a batch rather stays smaller than that its queues leave the arena.
pub const COMFORTABLE_SOURCES: usize = 128 * CHUNK;

/// Labels that share a cell of the arena.
const LABELS_PER_CELL: u64 = 2;

/// Labels whose two `queued` bits share a cell: a 32-bit word of each of the two bitmaps.
const QUEUED_PER_CELL: u64 = 32;

/// Marks that share a cell.
const MARKS_PER_CELL: u64 = 64;

/// Bytes of a cell, and of a frontier entry: a vertex and its tracker.
pub const CELL_BYTES: u64 = 8;

/// What each source of a traversal needs, as prefix sums over the sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    labels: Vec<u64>,
    marks: Vec<u64>,
}

impl Demand {
    /// `(labels, marks)` of each source in order: a label is a 32-bit word and may stand in a queue of
    /// frontiers once, a mark is a bit.
    pub fn new(sources: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let (mut labels, mut marks) = (vec![0], vec![0]);
        let (mut label, mut mark) = (0u64, 0u64);
        for source in sources {
            label += u64::from(source.0);
            mark += u64::from(source.1);
            labels.push(label);
            marks.push(mark);
        }
        Self { labels, marks }
    }

    /// Number of sources.
    pub fn num_sources(&self) -> usize {
        self.labels.len() - 1
    }

    /// Labels of a run of sources.
    pub fn labels(&self, sources: Range<usize>) -> u64 {
        self.labels[sources.end] - self.labels[sources.start]
    }

    /// Marks of a run of sources.
    pub fn marks(&self, sources: Range<usize>) -> u64 {
        self.marks[sources.end] - self.marks[sources.start]
    }
}

/// Words of 64 bits that the traversal itself needs in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Zero at the start of a batch: counters, barriers.
    pub control_words: usize,
    /// For each source of a batch.
    pub slot_words: usize,
}

/// Whether every frontier needs a place in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queues {
    /// Capacity and spill together are at least the labels: no entry is without a place.
    Whole,
    /// Queues may be of any size: the traversal finds frontiers without a place by their `queued` bits.
    Partial,
}

impl Queues {
    /// Entries of a queue that must lie in the arena, for that many labels and with room for `spill` elsewhere.
    fn least(self, labels: u64, spill: u64) -> u64 {
        match self {
            Self::Whole => labels.saturating_sub(spill),
            Self::Partial => 0,
        }
    }
}

/// Cells of what a batch needs whatever the queues.
fn fixed_cells(shape: Shape, labels: u64, marks: u64, sources: u64) -> u64 {
    labels.div_ceil(LABELS_PER_CELL)
        + zeroed_cells(shape, labels, marks)
        + shape.slot_words as u64 * sources
}

/// Cells that are zero at the start of a batch.
fn zeroed_cells(shape: Shape, labels: u64, marks: u64) -> u64 {
    shape.control_words as u64 + labels.div_ceil(QUEUED_PER_CELL) + marks.div_ceil(MARKS_PER_CELL)
}

/// The smallest arena that gets every source through, alone in its batch, and the source that needs
/// it, with room for `spill` entries of each of the two queues elsewhere. In bytes; exact.
///
/// `None` if there are no sources.
pub fn smallest_arena(
    demand: &Demand,
    shape: Shape,
    queues: Queues,
    spill: u64,
) -> Option<(u64, usize)> {
    (0..demand.num_sources())
        .map(|source| {
            let run = source..source + 1;
            let (labels, marks) = (demand.labels(run.clone()), demand.marks(run));
            let cells = fixed_cells(shape, labels, marks, 1) + 2 * queues.least(labels, spill);
            (cells * CELL_BYTES, source)
        })
        // Of equals the first.
        .reduce(|most, next| if next.0 > most.0 { next } else { most })
}

/// The arena in which all sources are at work at once and no queue ever leaves it, in bytes.
pub fn largest_arena(demand: &Demand, shape: Shape) -> u64 {
    let all = 0..demand.num_sources();
    let (labels, marks) = (demand.labels(all.clone()), demand.marks(all.clone()));
    CELL_BYTES * (fixed_cells(shape, labels, marks, all.len() as u64) + 2 * labels)
}

/// A run of sources, and where in the arena what they need lies, in cells.
///
/// ```text
/// 0
/// | labels | not used … | queues | control, queued, marks | slots | kept aside |
///                                 `------- zeroed -------´
/// ```
///
/// Labels begin at the front whatever the batch, so that those of earlier batches stand in the way
/// of nothing but labels; the rest is pushed against the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The sources.
    pub sources: Range<usize>,
    /// Labels of all of them.
    pub labels: u64,
    /// Marks of all of them.
    pub marks: u64,
    /// Entries of each of the two queues that lie in the arena.
    pub capacity: u64,
    /// Entries of each queue for which there must be room elsewhere. With [`Queues::Whole`], capacity and
    /// spill together are at least the labels.
    pub spill: u64,
    /// Where the queues begin.
    pub queues: u64,
    /// Where what is zeroed begins.
    pub zeroed: u64,
    /// Where the slots begin.
    pub slots: u64,
    /// Where the slots end.
    pub end: u64,
}

impl Batch {
    /// Bytes of the arena that the batch uses.
    pub fn used_bytes(&self) -> u64 {
        CELL_BYTES * (self.labels.div_ceil(LABELS_PER_CELL) + self.end - self.queues)
    }
}

/// Divides an arena into batches.
#[derive(Debug, Clone)]
pub struct Planner {
    demand: Demand,
    shape: Shape,
    /// Cells for batches.
    cells: u64,
    queues: Queues,
    /// Most entries of each queue that may lie elsewhere.
    spill: u64,
    max_sources: usize,
    /// Entries that a queue is expected to hold for each label.
    occupancy: f64,
    /// Where batches of the first walk over the sources ended, and what their queues held for each label.
    history: Vec<(usize, f64)>,
}

impl Planner {
    /// Batches of at most `max_sources` (at least one) sources in an arena of `cells` cells, with room
    /// for `spill` entries of each queue elsewhere. The arena must be at least the
    /// [`smallest_arena`].
    pub fn new(
        demand: Demand,
        shape: Shape,
        cells: u64,
        (queues, spill): (Queues, u64),
        max_sources: usize,
    ) -> Self {
        Self {
            demand,
            shape,
            cells,
            queues,
            spill,
            max_sources: max_sources.max(1),
            occupancy: 1.0,
            history: Vec::new(),
        }
    }

    /// What the sources need.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Entries that a queue is expected to hold for each label, at most one.
    pub fn occupancy(&self) -> f64 {
        self.occupancy
    }

    /// Takes note of the most entries that a queue of a batch held. The next batch is expected to
    /// grow half as much again for each of its labels; expectations fall by half a batch at most. When the same
    /// sources are walked from again, what they held is expected of them, too.
    pub fn measured(&mut self, batch: &Batch, peak_entries: u64) {
        if batch.labels > 0 {
            let occupancy = (1.5 * peak_entries as f64 / batch.labels as f64).min(1.0);
            self.occupancy = occupancy.max(self.occupancy / 2.0);
            if self
                .history
                .last()
                .is_none_or(|&(end, _)| end <= batch.sources.start)
            {
                self.history.push((batch.sources.end, occupancy));
            }
        }
    }

    /// What the queues of a batch of `sources` are expected to hold for each label.
    fn expected(&self, sources: Range<usize>) -> f64 {
        let from = self
            .history
            .partition_point(|&(end, _)| end <= sources.start);
        let mut occupancy = self.occupancy;
        for &(end, known) in &self.history[from..] {
            occupancy = occupancy.max(known);
            if end >= sources.end {
                break;
            }
        }
        occupancy
    }

    /// The next batch from source `first` on, not past source `end`.
    ///
    /// In order of rising pressure:
    ///
    /// 1. the queues in the arena take the worst case, every label in a queue at once, with as many
    ///    sources as fit: taken if these are [`COMFORTABLE_SOURCES`], or all that are left;
    /// 2. smaller queues, for what earlier batches tell to expect; the rest of the worst case has room
    ///    elsewhere, or is found by its bits. Taken if these are a [`CHUNK`];
    /// 3. whatever queues fit, so that it is expected to happen, with sources up to a chunk;
    /// 4. which are fewer and fewer, down to one.
    ///
    /// # Panics
    ///
    /// If `first` is not before `end` or a single source does not fit.
    #[track_caller]
    pub fn next(&self, first: usize, end: usize) -> Batch {
        let wanted = self.max_sources.min(end - first);
        assert!(wanted > 0, "a batch without sources");
        let comfortable = wanted.min(COMFORTABLE_SOURCES);
        let chunk = wanted.min(CHUNK);
        let within = self.most(first, wanted, |_, labels| labels);
        let fitting = if within >= comfortable {
            within
        } else {
            let expected = self.most(first, comfortable, |sources, labels| {
                ((self.expected(sources) * labels as f64).ceil() as u64).min(labels)
            });
            if expected >= chunk {
                expected
            } else {
                self.most(first, chunk, |_, _| 0)
            }
        };
        assert!(fitting > 0, "source {first} does not fit the arena");
        let mut last = first + fitting;
        if last < end && last - last % CHUNK > first {
            last -= last % CHUNK;
        }
        self.divide(first..last)
    }

    /// Cells left for the queues by a run of sources.
    fn left(&self, sources: Range<usize>) -> Option<u64> {
        let labels = self.demand.labels(sources.clone());
        let marks = self.demand.marks(sources.clone());
        self.cells
            .checked_sub(fixed_cells(self.shape, labels, marks, sources.len() as u64))
    }

    /// The most sources from `first` on, up to `wanted`, for which queues of `entries(sources, labels)` fit the
    /// arena, and at least what cannot lie elsewhere.
    fn most(
        &self,
        first: usize,
        wanted: usize,
        entries: impl Fn(Range<usize>, u64) -> u64,
    ) -> usize {
        let fits = |count: usize| {
            let sources = first..first + count;
            let labels = self.demand.labels(sources.clone());
            let capacity = entries(sources, labels).max(self.queues.least(labels, self.spill));
            self.left(first..first + count)
                .is_some_and(|left| 2 * capacity <= left)
        };
        // What is needed grows with every source.
        let (mut fitting, mut failing) = (0, wanted + 1);
        while failing - fitting > 1 {
            let middle = fitting + (failing - fitting) / 2;
            if fits(middle) {
                fitting = middle;
            } else {
                failing = middle;
            }
        }
        fitting
    }

    /// The division for a run of sources that fits.
    fn divide(&self, sources: Range<usize>) -> Batch {
        let labels = self.demand.labels(sources.clone());
        let marks = self.demand.marks(sources.clone());
        let left = self.left(sources.clone()).unwrap_or(0);
        let capacity = (left / 2).min(labels);
        let end = self.cells;
        let slots = end - (self.shape.slot_words * sources.len()) as u64;
        let zeroed = slots - zeroed_cells(self.shape, labels, marks);
        Batch {
            sources,
            labels,
            marks,
            capacity,
            spill: (labels - capacity).min(self.spill),
            queues: zeroed - 2 * capacity,
            zeroed,
            slots,
            end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHAPE: Shape = Shape {
        control_words: 8,
        slot_words: 2,
    };

    fn demands() -> impl Strategy<Value = Demand> {
        proptest::collection::vec((0u32..200, 0u32..300), 1..400).prop_map(Demand::new)
    }

    /// Everything that a batch promises.
    fn check(planner: &Planner, batch: &Batch) {
        assert!(!batch.sources.is_empty());
        assert_eq!(batch.labels, planner.demand.labels(batch.sources.clone()));
        assert_eq!(batch.marks, planner.demand.marks(batch.sources.clone()));
        // Each label has its place in each queue, or its bit tells.
        if planner.queues == Queues::Whole {
            assert!(batch.capacity + batch.spill >= batch.labels);
        }
        assert!(batch.spill <= planner.spill);
        // One after another, within the arena, and large enough.
        assert!(batch.labels.div_ceil(2) <= batch.queues);
        assert_eq!(batch.queues + 2 * batch.capacity, batch.zeroed);
        let queued = 2 * batch.labels.div_ceil(32) * 4;
        assert!((batch.slots - batch.zeroed) * 8 >= 64 + queued + batch.marks.div_ceil(32) * 4);
        assert_eq!(batch.end - batch.slots, 2 * batch.sources.len() as u64);
        assert_eq!(batch.end, planner.cells);
        assert!(batch.used_bytes() <= 8 * planner.cells);
    }

    proptest! {
        #[test]
        fn batches_cover_all_sources_within_any_arena(
            demand in demands(),
            queues in prop_oneof![Just(Queues::Whole), Just(Queues::Partial)],
            spill in prop_oneof![Just(0u64), 1u64..300, Just(1 << 40)],
            more in prop_oneof![Just(0u64), 0u64..2000, 0u64..100_000],
            max_sources in prop_oneof![Just(usize::MAX), 1usize..200],
            used in 0.0..1.0,
        ) {
            let n = demand.num_sources();
            let (smallest, _) = smallest_arena(&demand, SHAPE, queues, spill).unwrap();
            let cells = smallest / 8 + more;
            let mut planner = Planner::new(demand, SHAPE, cells, (queues, spill), max_sources);
            let mut first = 0;
            while first < n {
                let batch = planner.next(first, n);
                check(&planner, &batch);
                prop_assert_eq!(batch.sources.start, first);
                prop_assert!(batch.sources.len() <= max_sources);
                first = batch.sources.end;
                planner.measured(&batch, (used * batch.labels as f64) as u64);
                prop_assert!((0.0..=1.0).contains(&planner.occupancy()));
            }
            prop_assert_eq!(first, n);
        }

        #[test]
        fn the_smallest_arena_is_exact(
            demand in demands(),
            queues in prop_oneof![Just(Queues::Whole), Just(Queues::Partial)],
            spill in 0u64..300,
        ) {
            let (smallest, source) = smallest_arena(&demand, SHAPE, queues, spill).unwrap();
            let with = |cells| {
                Planner::new(demand.clone(), SHAPE, cells, (queues, spill), usize::MAX)
            };
            for source in 0..demand.num_sources() {
                prop_assert!(with(smallest / 8).most(source, 1, |_, _| 0) == 1);
            }
            prop_assert_eq!(with(smallest / 8 - 1).most(source, 1, |_, _| 0), 0);
        }

        #[test]
        fn the_largest_arena_takes_all_at_once_and_needs_no_spill(demand in demands()) {
            let cells = largest_arena(&demand, SHAPE) / 8;
            let n = demand.num_sources();
            let planner = Planner::new(demand, SHAPE, cells, (Queues::Whole, 0), usize::MAX);
            let batch = planner.next(0, n);
            check(&planner, &batch);
            prop_assert_eq!((batch.sources.clone(), batch.spill), (0..n, 0));
            prop_assert_eq!(batch.used_bytes(), 8 * cells);
        }
    }

    #[test]
    fn pressure_shrinks_queues_then_spills_then_takes_fewer_sources() {
        // 1024 sources of 320 labels and no marks: a source takes 160 + 10 + 2 cells and queues of up
        // to 640.
        let demand = Demand::new(vec![(320, 0); 1024]);
        let batch = |cells, occupancy| {
            let of = |queues| {
                let mut planner = Planner::new(demand.clone(), SHAPE, cells, queues, usize::MAX);
                planner.occupancy = occupancy;
                let batch = planner.next(0, 1024);
                check(&planner, &batch);
                (batch.sources.len(), batch.capacity)
            };
            // With bits as good as room without end elsewhere.
            assert_eq!(of((Queues::Partial, 0)), of((Queues::Whole, 1 << 40)));
            of((Queues::Partial, 0))
        };
        let all = 8 + 1024 * 172;
        let labels = 320 * 1024;
        // Everything fits; then queues shrink to what is expected.
        assert_eq!(batch(all + 2 * labels, 1.0), (1024, labels));
        assert_eq!(batch(all + labels, 0.25), (1024, labels / 2));
        assert_eq!(batch(all + labels / 2, 0.25), (1024, labels / 4));
        // Fewer sources down to a chunk.
        assert_eq!(batch(8 + 128 * (172 + 160), 0.25), (128, 128 * 80));
        // Then queues smaller than expected, whose entries spill.
        assert_eq!(batch(8 + 128 * (172 + 10), 0.25), (128, 128 * 5));
        assert_eq!(batch(8 + 128 * 172, 0.25), (128, 0));
        // Then fewer sources.
        assert_eq!(batch(8 + 100 * 172, 0.25), (100, 0));
        assert_eq!(batch(8 + 172, 0.25), (1, 0));
    }

    #[test]
    fn batches_end_at_chunks() {
        let demand = Demand::new(vec![(32, 0); 1000]);
        // 16 + 1 + 2 cells a source, 64 for the queues: room for 300 sources.
        let planner = Planner::new(demand, SHAPE, 8 + 300 * 83, (Queues::Whole, 0), usize::MAX);
        assert_eq!(planner.next(0, 1000).sources, 0..256);
        assert_eq!(planner.next(100, 1000).sources, 100..384);
        assert_eq!(planner.next(900, 1000).sources, 900..1000);
        assert_eq!(planner.next(100, 110).sources, 100..110);
    }

    #[test]
    fn expectations_follow_what_is_measured() {
        let demand = Demand::new(vec![(100, 0); 4]);
        let mut planner = Planner::new(demand, SHAPE, 10_000, (Queues::Whole, 0), 1);
        let batch = planner.next(0, 4);
        planner.measured(&batch, 10);
        assert_eq!(planner.occupancy(), 0.5);
        planner.measured(&batch, 10);
        planner.measured(&batch, 10);
        assert_eq!(planner.occupancy(), 0.15);
        planner.measured(&batch, 100);
        assert_eq!(planner.occupancy(), 1.0);
    }

    #[test]
    fn a_second_walk_expects_what_the_first_measured() {
        let demand = Demand::new(vec![(100, 0); 2]);
        let mut planner = Planner::new(demand, SHAPE, 10_000, (Queues::Whole, 0), 1);
        for (source, peak) in [(0, 40), (1, 0), (1, 0), (1, 0)] {
            let batch = planner.next(source, 2);
            planner.measured(&batch, peak);
        }
        assert!(planner.occupancy() < 0.1);
        assert_eq!(planner.expected(0..1), 0.6);
        assert_eq!(planner.expected(0..2), 0.6);
        assert_eq!(planner.expected(1..2), planner.occupancy());
    }

    #[test]
    fn every_batch_of_the_first_walk_is_remembered() {
        for peaks in [[40, 20, 10], [10, 40, 20], [10, 20, 40]] {
            let demand = Demand::new(vec![(100, 0); 3]);
            let mut planner = Planner::new(demand, SHAPE, 10_000, (Queues::Whole, 0), 1);
            for (source, peak) in peaks.into_iter().enumerate() {
                let batch = planner.next(source, 3);
                planner.measured(&batch, peak);
            }
            // What is expected whatever the source falls below all of them.
            for _ in 0..4 {
                let batch = planner.next(2, 3);
                planner.measured(&batch, 0);
            }
            for first in 0..3 {
                for end in first + 1..4 {
                    let most = peaks[first..end].iter().copied().max().unwrap_or(0);
                    assert!(planner.occupancy() < 0.15);
                    assert_eq!(
                        planner.expected(first..end),
                        1.5 * most as f64 / 100.0,
                        "sources {first}..{end} of {peaks:?}"
                    );
                }
            }
        }
    }
}
