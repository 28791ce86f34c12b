//! T3 supernodes in two phases (gSoFa, section 5), and relaxed ones by merging neighbours.
//!
//! Row s joins the supernode of rows r..s iff nnz(U(s, :)) = nnz(U(s−1, :)) − 1 and L(s, r) ≠ 0, and the
//! supernode has fewer than `max_size` rows (Definition 1). Otherwise s begins a supernode.
//!
//! # No search
//!
//! **L is full beside the diagonal.** Let rows r..s be a supernode. Then U(t, :) is U(r, :) without the
//! columns before t, for every t of it: by induction L(t, r) ≠ 0 carries what U(r, :) has from t on into
//! U(t, :), and this is U(t−1, :) without its diagonal entry, which has as many entries as U(t, :). As
//! U(t, :) has its diagonal entry, U(r, t) ≠ 0. So if L(s, r) ≠ 0, the path s → r → t fills L(s, t) for
//! every t from r to s−1.
//!
//! Two things follow. *L(s, r) ≠ 0 takes one look:* columns increase along a row, so the k-th entry left of
//! the diagonal of row s is in column s−k at most, and in that very column iff columns s−k..s are all there.
//! Whenever the definition asks for L(s, r), it is there iff entry number s−r left of the diagonal is in column
//! r. *Row s joins only if L(s, s−1) ≠ 0*, whatever r is.
//!
//! # Runs
//!
//! Say that row s **follows** if nnz(U(s, :)) = nnz(U(s−1, :)) − 1 and L(s, s−1) ≠ 0; a row that does not
//! follow is a **leader**. A leader begins a supernode whatever came before it, so a **run**, from one
//! leader to the row before the next, is cut into supernodes by its own rows alone: its leader begins the
//! first, and each row that may not join begins the next. Hence runs are independent, and it does not
//! matter who cuts them. (The counts alone would mark leaders enough, as in the paper; L(s, s−1) costs one
//! look and keeps runs short where counts agree by chance.) A run belongs to the block in whose chunk its leader lies, which follows it
//! beyond the end of the chunk; the blocks of the chunks that it enters leave its rows alone, because
//! they have no leader for them. So every row is written once, and neither chunks nor blocks can be seen
//! in the result.
//!
//! ```text
//! rows      0  1  2  3  4  5  6  7 | 8  9 10 11 12 13 14 15 |        chunk of 8, max_size 3
//! follows   .  x  .  x  x  x  x  x | x  x  .  .  x  x  .  x |
//! leaders   0     2                |      10 11       14    |        block 0 cuts 2..10, beyond its chunk
//! starts    x     x        x       | x     x  x        x    |
//! ```

use luge_kernel::prelude::*;

use crate::filled::Filled;
use crate::search::lower_bound;

/// Most rows of a chunk of [`mark_supernodes`](fn@mark_supernodes).
///
/// Size classes: runs of up to 32 rows that a thread cuts, longer ones and those that leave their chunk, which a warp
/// cuts (`mark_supernodes_matches_reference`); as many of both as the queues hold (`queues_of_a_full_chunk_hold`, both in
/// `tests/tests/supernode.rs`).
pub const MAX_CHUNK: usize = 1024;

/// Words of the bitmap of a chunk.
const WORDS: usize = MAX_CHUNK / 32;

/// A run that is cut by a warp has 33 rows at least, or leaves the chunk: no more than one does.
const MAX_LONG: usize = MAX_CHUNK / 33 + 1;

/// The most rows of a supernode that any kernel is asked for: squares of it fit in 32 bits.
pub const LARGEST_SUPERNODE: u32 = (1 << 16) - 1;

/// Places of the two queue lengths.
const NUM_LEADERS: usize = 0;
const NUM_LONG: usize = 1;

/// Rows of a filled pattern.
#[derive(Clone, Copy)]
struct Rows {
    n: usize,
    row_ptr: Global<u64>,
    diag_pos: Global<u64>,
    col_idx: Global<u32>,
}

impl Rows {
    /// Entries of U in row `s`, its diagonal included.
    #[inlined]
    fn unz(self, s: usize) -> u64 {
        self.row_ptr.get(s + 1) - self.diag_pos.get(s)
    }

    /// Whether row `s` of L has all columns from `r` < `s` to its diagonal.
    #[inlined]
    fn is_full_from(self, s: usize, r: usize) -> bool {
        let back = (s - r) as u64;
        let diagonal = self.diag_pos.get(s);
        diagonal - self.row_ptr.get(s) >= back
            && self.col_idx.get((diagonal - back) as usize) as usize == r
    }

    /// Whether row `s` follows the row above it.
    #[inlined]
    fn follows(self, s: usize) -> bool {
        s > 0 && self.unz(s) + 1 == self.unz(s - 1) && self.is_full_from(s, s - 1)
    }
}

/// Cuts runs into supernodes.
#[derive(Clone, Copy)]
struct Cutter {
    rows: Rows,
    max_size: usize,
    starts: GlobalMut<u32>,
}

impl Cutter {
    /// Whether row `s`, which follows, joins the supernode of rows `r..s`.
    #[inlined]
    fn joins(self, s: usize, r: usize) -> bool {
        s - r < self.max_size && self.rows.is_full_from(s, r)
    }

    /// One thread cuts the run of `leader` and the `followers` rows after it.
    #[inlined]
    fn cut(self, leader: usize, followers: usize) {
        self.starts.set(leader, 1);
        let mut r = leader;
        let mut s = leader + 1;
        while s <= leader + followers {
            let joins = self.joins(s, r);
            if !joins {
                r = s;
            }
            self.starts.set(s, u32::from(!joins));
            s += 1;
        }
    }

    /// A warp cuts the run of `leader`, however long it is: each lane has one row of a window of 32, and
    /// all vote on the first that may not join.
    #[inlined]
    fn cut_by_warp(self, leader: usize) {
        let lane = thread::lane_id();
        if lane == 0 {
            self.starts.set(leader, 1);
        }
        let mut r = leader;
        let mut window = leader + 1;
        loop {
            let s = window + lane as usize;
            let follows = s < self.rows.n && self.rows.follows(s);
            let followers = warp::ballot(warp::FULL_MASK, follows).trailing_ones();
            // Rows of the window that begin a supernode, and how many are decided.
            let mut starts = 0u32;
            let mut decided = 0;
            while decided < followers {
                let open = lane >= decided && lane < followers;
                let refused = warp::ballot(warp::FULL_MASK, open && !self.joins(s, r));
                if refused == 0 {
                    break;
                }
                let first = refused.trailing_zeros();
                starts |= 1 << first;
                r = window + first as usize;
                decided = first + 1;
            }
            if lane < followers {
                self.starts.set(s, (starts >> lane) & 1);
            }
            if followers < warp::WARP_SIZE {
                break;
            }
            window += warp::WARP_SIZE as usize;
        }
    }
}

/// Which rows begin a T3 supernode: `starts[s]` is 1 or 0 (gSoFa, section 5; see the
/// [module](self) for the proof that chunks do not matter).
///
/// Phase I: a warp takes 32 consecutive rows of the chunk; their votes are one word of the bitmap in
/// shared memory, bit s: row s follows the row above. The other rows, leaders, go to a queue in
/// shared memory. Phase II: a thread takes a leader from the queue, reads the length of its run from
/// the bitmap, and cuts it into supernodes. A run of more than 32 rows, or one that may go on
/// behind the chunk, is put in a second queue and cut by a warp.
///
/// Threads: block b takes chunks b, b + grid, …. Writes: a row is written by the thread or warp that
/// has its run. Order: barriers between the phases and after the last; places in the queues are
/// given by atomic addition. Shared memory: 4.4 KiB. Cost: each row is looked at two or three times;
/// a warp spends a round on each window of 32 rows of its run and one more on each supernode that ends
/// there.
///
/// Launch: 1-D, a multiple of 32 threads. Preconditions: the pattern is closed under fill, its rows
/// are sorted and `diag_pos` has the positions of its diagonal.
#[kernel(
    max_threads(1024), min_blocks(1),
    require(
        max_size > 0,
        chunk > 0,
        chunk.is_multiple_of(32),
        chunk as usize <= MAX_CHUNK,
        row_ptr.len() == starts.len() + 1,
        diag_pos.len() == starts.len()
    )
)]
pub unsafe fn mark_supernodes(
    max_size: u32,
    chunk: u32,
    row_ptr: Global<u64>,
    diag_pos: Global<u64>,
    col_idx: Global<u32>,
    starts: GlobalMut<u32>,
) {
    let bits = shared_array![u32; WORDS];
    let leaders = shared_array![u32; MAX_CHUNK];
    let long = shared_array![u32; MAX_LONG];
    let lengths = shared_array![u32; 2];
    let rows = Rows {
        n: starts.len(),
        row_ptr,
        diag_pos,
        col_idx,
    };
    let cutter = Cutter {
        rows,
        max_size: max_size as usize,
        starts,
    };
    let lane = thread::lane_id();
    let warp = thread::thread_idx_x() / warp::WARP_SIZE;
    let warps = thread::block_dim_x() / warp::WARP_SIZE;
    let words = chunk / 32;

    let mut first = thread::block_idx_x() as usize * chunk as usize;
    while first < rows.n {
        if thread::thread_idx_x() == 0 {
            lengths.set(NUM_LEADERS, 0);
            lengths.set(NUM_LONG, 0);
        }
        thread::sync_threads();

        let mut word = warp;
        while word < words {
            let s = first + (word * 32 + lane) as usize;
            let inside = s < rows.n;
            let follows = inside && rows.follows(s);
            let following = warp::ballot(warp::FULL_MASK, follows);
            let leading = warp::ballot(warp::FULL_MASK, inside && !follows);
            let mut begin = 0;
            if lane == 0 {
                bits.set(word as usize, following);
                begin = lengths.atomic(NUM_LEADERS).fetch_add(
                    leading.count_ones(),
                    Ordering::Relaxed,
                    Scope::Block,
                );
            }
            begin = warp::shuffle(warp::FULL_MASK, begin, 0);
            if (leading >> lane) & 1 == 1 {
                let before = leading & ((1 << lane) - 1);
                leaders.set((begin + before.count_ones()) as usize, s as u32);
            }
            word += warps;
        }
        thread::sync_threads();

        for place in thread::block_stride(lengths.get(NUM_LEADERS) as usize) {
            let leader = leaders.get(place) as usize;
            // The bits of the 32 rows after the leader, as far as they are in the chunk.
            let next = (leader - first) as u32 + 1;
            let (word, shift) = (next / 32, next % 32);
            let mut ahead = 0;
            if word < words {
                ahead = bits.get(word as usize) >> shift;
            }
            if shift > 0 && word + 1 < words {
                ahead |= bits.get(word as usize + 1) << (32 - shift);
            }
            let followers = ahead.trailing_ones();
            let leaves = next + followers == chunk && first + (chunk as usize) < rows.n;
            if followers == 32 || leaves {
                let at = lengths
                    .atomic(NUM_LONG)
                    .fetch_add(1, Ordering::Relaxed, Scope::Block);
                long.set(at as usize, leader as u32);
            } else {
                cutter.cut(leader, followers as usize);
            }
        }
        thread::sync_threads();

        let num_long = lengths.get(NUM_LONG);
        let mut at = warp;
        while at < num_long {
            cutter.cut_by_warp(long.get(at as usize) as usize);
            at += warps;
        }
        // The next chunk overwrites the lengths.
        thread::sync_threads();
        first += thread::grid_dim_x() as usize * chunk as usize;
    }
}

/// First rows of the supernodes, and behind them n, from the rows that begin one:
/// `supernode_ptr[offsets[s]] = s` where `starts[s]` is not zero.
///
/// Threads: one a row, grid-strided. Writes: the thread of a row that begins a supernode writes the
/// place of that supernode, that of row 0 the last place. Launch: 1-D, any size. Precondition:
/// `offsets` is the prefix sum of `starts`, whose total is `supernode_ptr.len() - 1`.
#[kernel(
    max_threads(1024),
    require(offsets.len() == starts.len() + 1, !supernode_ptr.is_empty())
)]
pub unsafe fn place_supernodes(
    starts: Global<u32>,
    offsets: Global<u64>,
    supernode_ptr: GlobalMut<u32>,
) {
    for s in thread::grid_stride(starts.len()) {
        if starts.get(s) != 0 {
            supernode_ptr.set(offsets.get(s) as usize, s as u32);
        }
        if s == 0 {
            supernode_ptr.set(supernode_ptr.len() - 1, starts.len() as u32);
        }
    }
}

/// How many explicit zeros a relaxed supernode may have.
#[derive(Clone, Copy, Debug, PartialEq, Record)]
#[repr(C)]
pub struct Tier {
    /// Rows up to which this holds.
    pub max_rows: u32,
    /// Most zeros among 1000 places.
    pub max_zeros: u32,
}

/// Which pairs of neighbouring supernodes may merge (`luge_reference::supernode::may_merge`):
/// `allowed[g]` is 1 if g and g+1 may, else 0, and then `zeros_together[g]` is the number of explicit zeros
/// of what they become.
///
/// The block of a supernode of m rows whose last row has u entries of U right of its diagonal holds
/// m·(m + u) places, and all but `zeros[g]` of them are entries of L+U. Every row but the last has its
/// parent, the first row below it in its column of L, in the supernode, so what it has right of the
/// supernode the last row has too; a merge keeps that, by its second condition. Therefore the entries of
/// a merged block are those of both and what L has in the second's rows and the first's columns, and
/// only the latter are counted here.
///
/// `tiers` are by increasing rows.
///
/// Threads: a warp a pair, its lanes take consecutive rows of the second supernode. Writes: lane 0 of the
/// warp of a pair; the last supernode, which has no right neighbour, counts as one that may not. Order: no
/// access conflicts. Shared memory: none. Launch: 1-D, a multiple of 32 threads. Preconditions:
/// `supernode_ptr` increases from 0 to n; the pattern is as for
/// [`mark_supernodes`](fn@mark_supernodes).
#[kernel(
    max_threads(1024),
    require(
        max_size <= LARGEST_SUPERNODE,
        filled.row_ptr.len() == filled.diag_pos.len() + 1,
        supernode_ptr.len() == zeros.len() + 1,
        allowed.len() == zeros.len(),
        zeros_together.len() == zeros.len()
    )
)]
pub unsafe fn judge_pairs(
    max_size: u32,
    filled: Filled,
    tiers: Records<Tier>,
    supernode_ptr: Global<u32>,
    zeros: Global<u64>,
    allowed: GlobalMut<u32>,
    zeros_together: GlobalMut<u64>,
) {
    let lane = thread::lane_id();
    let warps = (thread::num_threads_1d() / warp::WARP_SIZE) as usize;
    let num_supernodes = zeros.len();
    // Places of a block of `size` rows the last of which is row `last`.
    let stored = |size: u32, last: u32| {
        let right = filled.row_ptr.get(last as usize + 1) - filled.diag_pos.get(last as usize) - 1;
        u64::from(size) * (u64::from(size) + right)
    };
    let mut g = (thread::index_1d() / warp::WARP_SIZE) as usize;
    while g < num_supernodes {
        let mut may = false;
        let mut zeros_of_both = 0;
        let begin = supernode_ptr.get(g);
        let middle = supernode_ptr.get(g + 1);
        // Behind the last supernode there is none, so it gets no rows.
        let end = if g + 1 < num_supernodes {
            supernode_ptr.get(g + 2)
        } else {
            middle
        };
        let size = end - begin;
        if middle < end && size <= max_size {
            // Entries of L in the second's rows and the first's columns, fewer than size² < 2³²; and
            // whether one is in the last of these columns.
            let mut between = 0u32;
            let mut is_child = false;
            let mut s = middle + lane;
            while s < end {
                let diagonal = filled.diag_pos.get(s as usize);
                let from = |low: u64, column: u32| {
                    lower_bound(low, diagonal, |p| filled.col_idx.get(p as usize) < column)
                };
                let low = from(filled.row_ptr.get(s as usize), begin);
                let high = from(low, middle);
                between += (high - low) as u32;
                is_child |= high > low && filled.col_idx.get(high as usize - 1) == middle - 1;
                s += warp::WARP_SIZE;
            }
            between = warp::reduce_add(warp::FULL_MASK, between);
            if warp::vote_any(warp::FULL_MASK, is_child) {
                let together = stored(size, end - 1);
                let apart = stored(middle - begin, middle - 1) + stored(end - middle, end - 1);
                let entries = apart - zeros.get(g) - zeros.get(g + 1) + u64::from(between);
                zeros_of_both = together - entries;
                let mut tier = 0;
                while tier < tiers.len() && tiers.get(tier).max_rows() < size {
                    tier += 1;
                }
                may = tier < tiers.len()
                    && zeros_of_both * 1000 <= u64::from(tiers.get(tier).max_zeros()) * together;
            }
        }
        if lane == 0 {
            allowed.set(g, u32::from(may));
            zeros_together.set(g, zeros_of_both);
        }
        g += warps;
    }
}

/// Which supernodes remain, and which become part of the one before: `kept[g]` is 0 if the pair
/// (g−1, g) merges, else 1.
///
/// A pair with an even number merges if it may; one with an odd number if it may and the pairs on both
/// sides, with which it shares a supernode, may not. So no two that merge share one.
///
/// Threads: one a supernode, grid-strided; it writes `kept` of its own. Launch: 1-D, any size.
/// Precondition: `allowed` is as [`judge_pairs`](fn@judge_pairs) leaves it.
#[kernel(max_threads(1024), require(kept.len() == allowed.len()))]
pub unsafe fn choose_merges(allowed: Global<u32>, kept: GlobalMut<u32>) {
    for g in thread::grid_stride(kept.len()) {
        let mut merges = g > 0 && allowed.get(g - 1) == 1;
        if merges && g % 2 == 0 {
            // The pair has the odd number g−1 ≥ 1.
            merges = allowed.get(g - 2) == 0 && allowed.get(g) == 0;
        }
        kept.set(g, u32::from(!merges));
    }
}

/// The supernodes of the next sweep: those kept by [`choose_merges`](fn@choose_merges), without gaps.
///
/// Threads: one a supernode, grid-strided. Writes: the thread of a supernode that remains writes its
/// places, that of supernode 0 the end. Launch: 1-D, any size. Precondition: `offsets` is the prefix sum
/// of `kept`, whose total is `zeros_out.len()`.
#[kernel(
    max_threads(1024),
    require(
        offsets.len() == kept.len() + 1,
        supernode_ptr.len() == kept.len() + 1,
        zeros.len() == kept.len(),
        zeros_together.len() == kept.len(),
        ptr_out.len() == zeros_out.len() + 1
    )
)]
pub unsafe fn place_merged(
    kept: Global<u32>,
    offsets: Global<u64>,
    supernode_ptr: Global<u32>,
    zeros: Global<u64>,
    zeros_together: Global<u64>,
    ptr_out: GlobalMut<u32>,
    zeros_out: GlobalMut<u64>,
) {
    for g in thread::grid_stride(kept.len()) {
        if kept.get(g) == 1 {
            let at = offsets.get(g) as usize;
            let merged = g + 1 < kept.len() && kept.get(g + 1) == 0;
            ptr_out.set(at, supernode_ptr.get(g));
            let of_it = if merged {
                zeros_together.get(g)
            } else {
                zeros.get(g)
            };
            zeros_out.set(at, of_it);
        }
        if g == 0 {
            ptr_out.set(zeros_out.len(), supernode_ptr.get(kept.len()));
        }
    }
}
