//! The large fronts: tasks on them and on their tiles, and what is added up in each.

use luge_gpu_kernels::frontal::plan::{
    NONE as NO_FRONT, Piece, Sum, Task, WHOLE, WIDE_TILE, Wait, cell, element_column,
    element_entries, halves,
};
use luge_sparse::etree::NONE;

use super::{Entries, LaunchOf, Plan, Planner, longest_first};
use crate::gpu::classes::{FrontClass, Shape};
use crate::gpu::tiles::Tiling;
use crate::shares::{collected, joined, mapped, shares, split};
use crate::storage::Storage;

/// What comes of some consecutive large fronts. Offsets are within the share.
#[derive(Default)]
struct LargeShare {
    /// Seconds of the path from the beginning of each task to the root.
    paths: Vec<f64>,
    /// Unit of each task.
    units: Vec<u32>,
    tasks: Vec<Task>,
    pieces: Vec<Piece>,
    sums: Vec<Sum>,
    addends: Vec<u32>,
    num_flags: u32,
}

/// How many of each come before a share of large fronts.
#[derive(Clone, Copy, Default)]
struct Offsets {
    tasks: u32,
    pieces: u32,
    flags: u32,
    sums: u32,
    addends: u32,
}

/// One list of all shares, which lose it, with room for so many `more`.
fn all<T: Copy + Send + Sync>(
    shares: &mut [(u32, LargeShare)],
    list: fn(&mut LargeShare) -> &mut Vec<T>,
    more: usize,
) -> Vec<T> {
    let lists = shares
        .iter_mut()
        .map(|(_, share)| std::mem::take(list(share)));
    joined(lists.collect(), more)
}

impl<S: Storage> Planner<'_, S> {
    /// Makes tasks of the large fronts, which are `large`; where entries come from and go to is written to `sources` and
    /// `places`.
    pub(super) fn plan_large(
        &self,
        large: &[u32],
        sources: &mut [u32],
        places: &mut [u32],
    ) -> Plan {
        let rows = |s: &u32| u64::from(self.fronts[*s as usize].size());
        let mut before = Vec::with_capacity(large.len() + 1);
        before.push(0);
        for s in large {
            // As a front costs something whatever its size.
            before.push(before[before.len() - 1] + 64 + rows(s));
        }
        let ranges = shares(self.threads, large.len(), |i| before[i]);
        let num_entries = |range: &std::ops::Range<usize>| -> usize {
            let fronts = large[range.clone()].iter();
            fronts.map(|&s| self.entry_range(s as usize).len()).sum()
        };
        let counts: Vec<usize> = ranges.iter().map(num_entries).collect();
        let mut next = (self.layout.source.len() - sources.len()) as u32;
        let of_sources = split(sources, counts.iter().copied());
        let of_places = split(places, counts.iter().copied());
        let mut parts = Vec::with_capacity(ranges.len());
        for ((range, source), places) in ranges.into_iter().zip(of_sources).zip(of_places) {
            let count = source.len() as u32;
            let entries = Entries {
                source,
                places,
                next,
                written: 0,
            };
            parts.push((range, entries));
            next += count;
        }
        let parts = mapped(parts, |(range, entries)| {
            self.describe_large(&large[range], entries)
        });
        self.put_together(large, parts)
    }

    /// Makes tasks of some large fronts.
    fn describe_large(&self, large: &[u32], mut entries: Entries<'_>) -> LargeShare {
        let mut share = LargeShare::default();
        let mut tiles = FrontTiles::default();
        let mut sums = SumsByPlace::default();
        for &s in large {
            let s = s as usize;
            let front = self.fronts[s];
            if front.is_given {
                continue;
            }
            let (shape, class) = (Shape::from(&front), self.classes[s]);
            let is_whole = class == FrontClass::Whole;
            let tiling = class.tiling(shape).stored_as::<S>();
            let arrivals: u32 = self
                .tree
                .children(s)
                .iter()
                .map(|&c| self.arrivals_of(c as usize))
                .sum();
            self.sort_into_tiles(s, &tiling, &mut tiles);
            let above = match front.parent {
                NONE => 0.0,
                parent => self.path[parent as usize],
            };
            let parent = match front.parent {
                NONE => NO_FRONT,
                parent => self.large[parent as usize],
            };
            let slot = self.layout.slot[s];
            let first_wait = self.elements.await_ptr[s];
            let num_waits = self.elements.await_ptr[s + 1] - first_wait;
            let first_flag = share.num_flags;
            if !is_whole {
                share.num_flags += tiling.num_flags();
            }
            for tile in tiling.tiles() {
                let number = tile.number as usize;
                let first_entry = entries.next;
                for &entry in &tiles.entries[tiles.entry_ptr[number]..tiles.entry_ptr[number + 1]] {
                    entries.push(entry);
                }
                let first_piece = share.pieces.len() as u32;
                share.pieces.extend_from_slice(&tiles.pieces[number]);
                let first_sum = share.sums.len() as u32;
                let num_long =
                    sums.collect(&tiles.addends[number], &mut share.sums, &mut share.addends);
                // The path from here to the root: what is left of the front comes first.
                let left = self.costs.rest_seconds(shape, class, tile);
                share.paths.push(above + left);
                share.units.push(self.elements.unit[s]);
                share.tasks.push(Task {
                    front: self.large[s],
                    tile: if is_whole {
                        WHOLE
                    } else {
                        halves(tile.row, tile.column)
                    },
                    pivots: front.pivots,
                    below: front.below,
                    slot,
                    element: self.elements.place[s],
                    entries: first_entry,
                    num_entries: entries.next - first_entry,
                    pieces: first_piece,
                    num_pieces: share.pieces.len() as u32 - first_piece,
                    start: front.start,
                    parent,
                    flags: first_flag,
                    arrivals,
                    sums: first_sum,
                    num_sums: share.sums.len() as u32 - first_sum,
                    num_long,
                    waits: first_wait,
                    num_waits,
                });
            }
        }
        share
    }

    /// Puts shares one after another, and their tasks in order.
    fn put_together(&self, large: &[u32], shares: Vec<LargeShare>) -> Plan {
        let mut plan = Plan::default();
        let mut starts = Vec::with_capacity(shares.len());
        let mut next = Offsets::default();
        for share in shares {
            let start = next;
            next.tasks += share.tasks.len() as u32;
            next.pieces += share.pieces.len() as u32;
            next.flags += share.num_flags;
            next.sums += share.sums.len() as u32;
            next.addends += share.addends.len() as u32;
            starts.push((start, share));
        }
        plan.num_flags = next.flags;
        // Offsets within a share become those among all.
        let mut shares = mapped(starts, |(start, mut share)| {
            for task in &mut share.tasks {
                task.pieces += start.pieces;
                task.flags += start.flags;
                task.sums += start.sums;
            }
            for sum in &mut share.sums {
                sum.first += start.addends;
            }
            (start.tasks, share)
        });
        plan.pieces = all(&mut shares, |share| &mut share.pieces, 0);
        plan.sums = all(&mut shares, |share| &mut share.sums, 2);
        plan.addends = all(&mut shares, |share| &mut share.addends, 1);
        // The end of the last sum's addends, and what threads without a sum read.
        let first = next.addends;
        plan.sums.extend([Sum { place: 0, first }; 2]);
        plan.addends.push(0);
        // What a task waits for is in no later unit; in its own it was made before, and has no shorter path.
        let place = |t: usize| {
            let number = shares.partition_point(|&(first, _)| first as usize <= t) - 1;
            let (first, share) = &shares[number];
            (share, t - *first as usize)
        };
        let path = |t: usize| {
            let (share, at) = place(t);
            (share.units[at], share.paths[at])
        };
        let by_path = longest_first(self.threads, path, next.tasks as usize);
        let in_order = |at: usize| {
            let (share, at) = place(by_path[at] as usize);
            share.tasks[at]
        };
        plan.tasks = collected(self.threads, by_path.len(), in_order);
        plan.waits = self.waits(&plan.tasks, large);
        let classes = self.classes.iter().filter(|class| class.is_large());
        let is_wide: Vec<bool> = classes.map(|&class| class == FrontClass::Wide).collect();
        // The first launch is for small fronts too, and may have no task.
        plan.launches.push(LaunchOf {
            is_wide: false,
            tasks: 0..0,
        });
        let same = |a: &Task, b: &Task| is_wide[a.front as usize] == is_wide[b.front as usize];
        let mut end = 0;
        for tasks in plan.tasks.chunk_by(same) {
            let is_wide = is_wide[tasks[0].front as usize];
            let range = end..end + tasks.len() as u32;
            end = range.end;
            match plan.launches.last_mut() {
                Some(launch) if launch.is_wide == is_wide => launch.tasks = range,
                _ => plan.launches.push(LaunchOf {
                    is_wide,
                    tasks: range,
                }),
            }
        }
        plan
    }

    /// What writers of elements wait for: all tasks on a front that add pieces of elements.
    fn waits(&self, tasks: &[Task], large: &[u32]) -> Vec<Wait> {
        let mut num_reading = vec![0; large.len()];
        for task in tasks {
            num_reading[task.front as usize] += u32::from(task.num_pieces > 0);
        }
        let awaited = self.elements.awaited.iter();
        let waits = awaited.map(|&s| {
            let front = self.large[s as usize];
            let count = num_reading[front as usize];
            Wait { front, count }
        });
        waits.collect()
    }

    /// How often front `s` tells its large parent of its element.
    fn arrivals_of(&self, s: usize) -> u32 {
        if self.fronts[s].is_given {
            return 0;
        }
        match self.classes[s] {
            FrontClass::Small | FrontClass::Whole => 1,
            class @ (FrontClass::Tiled | FrontClass::Wide) => {
                let tiling = class.tiling(Shape::from(&self.fronts[s]));
                tiling.stored_as::<S>().num_element_tiles()
            }
        }
    }

    /// Sorts the entries of B and the elements of the children of a front into its tiles. Of a symmetric matrix that is the
    /// lower triangle: rows of a child ascend in the parent too, so its lower triangle goes there.
    fn sort_into_tiles(&self, s: usize, tiling: &Tiling, tiles: &mut FrontTiles) {
        let front = self.fronts[s];
        let sides = tiling.sides() as usize;
        tiles.tile_of.clear();
        for t in 0..tiling.sides() {
            tiles.tile_of.resize(tiling.range(t).end as usize, t);
        }
        tiles.entry_ptr.clear();
        tiles.entry_ptr.resize(sides * sides + 1, 0);
        tiles.unsorted.clear();
        for e in self.entry_range(s) {
            let (row, column) = self.cell(&front, e);
            let (ti, tj) = (tiles.tile_of[row as usize], tiles.tile_of[column as usize]);
            let number = ti as usize * sides + tj as usize;
            let (i, j) = (row - tiling.start(ti), column - tiling.start(tj));
            let entry = self.entry(&front, e, (row, column), i, j);
            tiles.unsorted.push((number as u32, entry));
            tiles.entry_ptr[number + 1] += 1;
        }
        for number in 0..sides * sides {
            tiles.entry_ptr[number + 1] += tiles.entry_ptr[number];
        }
        if sides > 1 {
            tiles.unsorted.sort_by_key(|&(number, _)| number);
        }
        tiles.entries.clear();
        let entries = tiles.unsorted.iter().map(|&(_, entry)| entry);
        tiles.entries.extend(entries);

        if tiles.pieces.len() < sides * sides {
            tiles.pieces.resize(sides * sides, Vec::new());
            tiles.addends.resize(sides * sides, Vec::new());
        }
        for list in &mut tiles.pieces[..sides * sides] {
            list.clear();
        }
        for list in &mut tiles.addends[..sides * sides] {
            list.clear();
        }
        let mut cuts = Vec::new();
        for &c in self.tree.children(s) {
            let child = self.fronts[c as usize];
            let element = self.elements.place[c as usize];
            let below = child.below;
            let relative = &self.tree.relative[child.row_range()];
            // Such elements have places that costs do not change, and so has the order of sums.
            let end = element + element_entries(S::SYMMETRIC, below);
            if below <= self.limits.gathered && end <= u64::from(u32::MAX) {
                for (q, &column) in relative.iter().enumerate() {
                    let tj = tiles.tile_of[column as usize];
                    let column = column - tiling.start(tj);
                    let first = if S::SYMMETRIC { q } else { 0 };
                    let of_column = element + element_column(S::SYMMETRIC, q as u32, below);
                    for (i, &row) in relative.iter().enumerate().skip(first) {
                        let ti = tiles.tile_of[row as usize];
                        let row = row - tiling.start(ti);
                        let addend = of_column as u32 + i as u32;
                        tiles.addends[ti as usize * sides + tj as usize]
                            .push(((row, column), addend));
                    }
                }
                continue;
            }
            // Where the child's rows pass from one tile to the next: tile, first row, number of rows.
            cuts.clear();
            for (i, &row) in relative.iter().enumerate() {
                let tile = tiles.tile_of[row as usize];
                match cuts.last_mut() {
                    Some((last, _, count)) if *last == tile => *count += 1,
                    _ => cuts.push((tile, i as u32, 1u32)),
                }
            }
            for (q, &(tj, column, columns)) in cuts.iter().enumerate() {
                let first = if S::SYMMETRIC { q } else { 0 };
                for &(ti, row, rows) in &cuts[first..] {
                    tiles.pieces[ti as usize * sides + tj as usize].push(Piece {
                        element,
                        relative: child.rows,
                        below,
                        row,
                        column,
                        sizes: halves(rows, columns),
                    });
                }
            }
        }
    }
}

/// Rows of a tile at most, and columns.
const TILE_ROWS: usize = WIDE_TILE as usize;

/// Row and column in the tile, and number among the entries of all elements.
type Addend = ((u32, u32), u32);

/// Sorts addends by the place that they are added to.
struct SumsByPlace {
    /// A bit for each place that has addends, column by column.
    has_addends: [u64; (TILE_ROWS * TILE_ROWS).div_ceil(64)],
    /// Their number, and then where the next goes.
    next: Vec<u32>,
    /// Those numbers, from the largest to the smallest.
    counts: Vec<u32>,
}

/// Sums of at most so many addends are added up by one thread each.
const SHORT: u32 = 32;

impl Default for SumsByPlace {
    fn default() -> Self {
        Self {
            has_addends: [0; (TILE_ROWS * TILE_ROWS).div_ceil(64)],
            next: vec![0; TILE_ROWS * TILE_ROWS],
            counts: Vec::new(),
        }
    }
}

impl SumsByPlace {
    /// Adds the sums of a tile, those of many addends first, ascending by column and row, and their addends, which keep their
    /// order in each. Tells how many have many.
    fn collect(&mut self, unsorted: &[Addend], sums: &mut Vec<Sum>, addends: &mut Vec<u32>) -> u32 {
        let number = |(row, column): (u32, u32)| column as usize * TILE_ROWS + row as usize;
        let mut most = 0;
        for &(cell, _) in unsorted {
            let number = number(cell);
            self.has_addends[number / 64] |= 1 << (number % 64);
            self.next[number] += 1;
            most = most.max(self.next[number]);
        }
        let mut end = addends.len() as u32;
        let mut num_long = 0;
        if most > SHORT {
            let short = self.most_of_short();
            num_long = self.push(|count| count > short, sums, &mut end);
        }
        self.push(|_| true, sums, &mut end);
        addends.resize(end as usize, 0);
        for &(cell, addend) in unsorted {
            let next = &mut self.next[number(cell)];
            addends[*next as usize] = addend;
            *next += 1;
        }
        for &(cell, _) in unsorted {
            self.next[number(cell)] = 0;
        }
        num_long
    }

    /// Adds those of the sums that are left whose number of addends is `wanted`; the first begins at `end`, which goes on to where
    /// the last ends. Tells how many.
    fn push(&mut self, wanted: impl Fn(u32) -> bool, sums: &mut Vec<Sum>, end: &mut u32) -> u32 {
        let before = sums.len();
        for (word, left) in self.has_addends.iter_mut().enumerate() {
            let mut bits = *left;
            while bits != 0 {
                let bit = bits.trailing_zeros();
                let number = word * 64 + bit as usize;
                bits &= bits - 1;
                if wanted(self.next[number]) {
                    *left &= !(1 << bit);
                    let (row, column) = (number % TILE_ROWS, number / TILE_ROWS);
                    sums.push(Sum {
                        place: cell(row as u32, column as u32),
                        first: *end,
                    });
                    *end += std::mem::replace(&mut self.next[number], *end);
                }
            }
        }
        (sums.len() - before) as u32
    }

    /// The number of addends that a sum has to exceed for a warp to add it up. There are 32 times as many threads as warps, so the
    /// more sums there are, the more addends it takes.
    fn most_of_short(&mut self) -> u32 {
        self.counts.clear();
        for (word, bits) in self.has_addends.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let number = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let count = self.next[number];
                // No others are long, and these are few.
                if count > SHORT {
                    self.counts.push(count);
                }
            }
        }
        self.counts.sort_unstable_by(|a, b| b.cmp(a));
        let most = |long: usize| SHORT + 2 * long as u32;
        let counts = self.counts.iter().enumerate();
        let long = counts.take_while(|&(i, &count)| count > most(i + 1));
        most(long.count().max(1))
    }
}

/// What belongs to each tile of a large front.
#[derive(Debug, Default)]
struct FrontTiles {
    /// Row of tiles of each row.
    tile_of: Vec<u32>,
    entry_ptr: Vec<usize>,
    /// Sources and places, tile by tile.
    entries: Vec<[u32; 2]>,
    /// The same with the number of the tile, in the order of the layout.
    unsorted: Vec<(u32, [u32; 2])>,
    pieces: Vec<Vec<Piece>>,
    addends: Vec<Vec<Addend>>,
}

#[cfg(test)]
mod tests {
    use luge_gpu_kernels::frontal::plan::row_and_column;
    use luge_kernel::record::Record;

    use super::*;

    #[test]
    fn an_offset_beyond_32_bits_is_two_words() {
        // Factors of more than 2³² entries fit into a device.
        let piece = Piece {
            element: 5 << 32 | 7,
            relative: 3,
            ..Piece::default()
        };
        assert_eq!(Piece::as_words(&[piece])[..4], [7, 5, 3, 0]);
    }

    #[test]
    fn addends_are_sorted_by_place() {
        let mut by_place = SumsByPlace::default();
        let sum = |(row, column), first| Sum {
            place: cell(row, column),
            first,
        };
        let (mut sums, mut addends) = (vec![sum((0, 0), 0)], vec![7]);
        let last = (WIDE_TILE - 1, WIDE_TILE - 1);
        let unsorted = [(last, 1), ((3, 2), 2), ((9, 0), 3), ((3, 2), 4)];
        // Twice: nothing of the first tile is left.
        assert_eq!(by_place.collect(&unsorted, &mut sums, &mut addends), 0);
        by_place.collect(&unsorted[..2], &mut sums, &mut addends);
        let expected = [
            sum((0, 0), 0),
            sum((9, 0), 1),
            sum((3, 2), 2),
            sum(last, 4),
            sum((3, 2), 5),
            sum(last, 6),
        ];
        assert_eq!(sums, expected);
        assert_eq!(addends, [7, 3, 2, 4, 1, 2, 1]);
    }

    #[test]
    fn sums_of_many_addends_come_first() {
        let mut by_place = SumsByPlace::default();
        let mut long_of = |counts: &[u32]| {
            let (mut sums, mut addends) = (Vec::new(), Vec::new());
            let mut unsorted = Vec::new();
            for (i, &count) in counts.iter().enumerate() {
                unsorted.extend((0..count).map(|a| ((i as u32, 1), a)));
            }
            let num_long = by_place.collect(&unsorted, &mut sums, &mut addends);
            assert_eq!(addends.len(), unsorted.len());
            let rows: Vec<u32> = sums.iter().map(|sum| row_and_column(sum.place).0).collect();
            for (sum, &row) in sums.iter().zip(&rows) {
                let first = sum.first as usize;
                let own = &addends[first..first + counts[row as usize] as usize];
                assert!(own.iter().copied().eq(0..counts[row as usize]));
            }
            (num_long, rows)
        };
        assert_eq!(long_of(&[3, 34, 2]), (0, vec![0, 1, 2]));
        assert_eq!(long_of(&[3, 35, 2]), (1, vec![1, 0, 2]));
        // The more there are, the more addends each has to have.
        assert_eq!(long_of(&[36, 3, 37, 100]), (2, vec![2, 3, 0, 1]));
        assert_eq!(long_of(&[39, 3, 37, 100]), (3, vec![0, 2, 3, 1]));
    }
}
