//! Exact structures of L and U, panel by panel up the elimination forest.
//!
//! Row k of U is row k of B joined with the rows U(e, ·) beyond k of the pivots e < k with L(k, e) ≠ 0,
//! and column k of L is the same thing mirrored. Not all e are needed. Let p be the first pivot with
//! both U(e, p) ≠ 0 and L(p, e) ≠ 0, where e *meets* itself. Beyond p, row p has all of U(e, ·) and column p
//! all of L(·, e), so e takes part in rows and columns up to p only: the symmetric pruning of S. C. Eisenstat and
//! J. W. H. Liu ("Exploiting structural symmetry in unsymmetric sparse symbolic factorization", SIAM J.
//! Matrix Anal. Appl. 13, 1992), applied to both factors. The cost of a row is then near its size, where a
//! traversal of B from every row (see [`fill2`](super::fill2)) walks all of the row's subtree.
//!
//! # Panels
//!
//! At most 64 consecutive pivots are eliminated at once (see [`etree`](super::etree)). Of a panel with the
//! pivots `start..end` there are
//!
//! ```text
//! diagonal[k]   one word a pivot: bit j of row k is entry (k, start + j) of L+U
//! upper         columns ≥ end of the rows of U, increasing; each with a word whose bit k says that row k has it
//! lower         rows ≥ end of the columns of L, likewise; behind `upper` in the pool
//! live          pivots that do not meet inside of the panel, with entries of both beyond it
//! meets[k]      where a live pivot meets, NONE if nowhere; zero for the others
//! ```
//!
//! **What a panel is made of.** The entries of B in its rows and columns; and from each panel E below, for a
//! row k of this panel with an entry in a live pivot e of E, k ≤ `meets[e]`, the columns of U(e, ·)
//! that lie in or beyond this panel; and mirrored. Such an E is a child of this panel, or it has put itself into
//! this panel's list (`head`).
//!
//! **How it comes together.** The longest of all that contribute, a child or a lane of B, is sorted already: what of it
//! lies beyond the panel becomes the *base*. The others look their entries up in the base, and add their rows to
//! the word there. What is not in the base goes into a hash table in shared memory, is sorted, and merged with the base, which gives
//! a larger base. If the table was full, this is done again, until everything is found in the base. Upper and lower
//! structures go through all this together, the lower one behind the upper.
//!
//! **Inside a panel** elimination is that of a dense 64 × 64 matrix of bits, two rows a lane. It tells
//! which rows join which others (`joins`), and each column's word is closed under that, alone.
//!
//! # Order
//!
//! Everything of a panel is written by the block that eliminates it. A block goes from a leaf upwards as
//! long as it is the last child to finish: it releases its panel with an atomic decrement of `waiting[parent]`, and whoever
//! takes the last of those acquires all of them. So a block never waits, blocks need not be resident
//! together, and every panel is read only by ancestors, after it was finished.
//!
//! # Memory
//!
//! Structures are bump-allocated from a pool, by blocks in pieces: a block takes room for
//! what may come together, and keeps what it did not fill for its next panel. A pool that is too small is noticed by the host, which
//! reads how much was asked for: panels without room have empty structures, everything else runs to its end.
//!
//! # Size classes
//!
//! The tests are in `tests/tests/panels.rs`, and run on the simulator.
//!
//! | class | test |
//! |---|---|
//! | panels of up to 32 pivots, of up to 64 | `named_patterns_match_the_cpu` |
//! | tables that take all keys, and those that are full: [`ROUND`] keys, 3, 1 | `panels_match_the_reference` |
//! | no base, bases of up to `NEAR` entries, longer ones | `panels_match_the_reference`, `bases_as_long_as_what_is_kept_near` |
//! | structures below of up to `SHORT` entries, and longer ones | `panels_match_the_reference` |
//! | up to `MANY` children, and more; rows and structures that are the work of a block in [`expand`](super::expand) | `rows_and_structures_of_whole_blocks_match_the_cpu` |
//! | symmetric patterns, and others | `named_patterns_match_the_cpu` |
//!
//! # Modules
//!
//! | module | what it does |
//! |---|---|
//! | `block` | what a block works with: panels, the pool and the shared memory |
//! | `gather` | puts the structure of a panel together |
//! | `base` | its base: finds the longest that contributes, and writes what that brings |
//! | `entries` | what the entries of B bring |
//! | `below` | what the panels below bring |
//! | `table` | looks entries up in base and table, sorts the table, and merges it |
//! | `diagonal` | elimination inside of the panel |
//! | `above` | what is left to the panels above |

mod above;
mod base;
mod below;
mod block;
mod diagonal;
mod entries;
mod gather;
mod table;

use luge_kernel::prelude::*;

use self::block::{Block, KEYS, MAX_WARPS, NEAR, NOW, Room, SLOTS, STATE, Words};
use super::args::{NewStructures, PanelLinks, Panels, Pattern};
use super::etree::{NONE, PANEL};

/// Most keys that the table takes, if [`THREADS`] threads use it.
pub const ROUND: usize = 512;

/// Threads of a block, at most.
pub const THREADS: usize = 512;

/// Orders of matrices are below this, so that a bit is left to tell upper from lower.
pub const MAX_ORDER: usize = 1 << 31;

/// Number of words of the counters: panels handed out, pool entries and list nodes asked for, panels.
pub const COUNTERS: usize = 4;
const NEXT_PANEL: usize = 0;
/// Place of the pool entries asked for in the counters.
pub const ENTRIES: usize = 1;
/// Place of the list nodes asked for in the counters.
pub const NODES: usize = 2;
/// Place of the number of panels in the counters.
pub const PANELS: usize = 3;

/// Structures of L and U of the panels, see the module.
///
/// `symmetric` not zero: the pattern of B is symmetric, and so is that of L+U; then only upper structures are
/// made, and columns of B, `lower_len` and `lower_head` are not used. `limit` (at most [`ROUND`]): keys
/// from which the table is full. `base_min`: shortest contributor that becomes a base. Neither changes the result.
///
/// Threads: a block a panel, taken from `counters[0]`; then its parent, if it was the last to finish. Within a
/// block: warps over the panels below, lanes over their entries, or over short panels; threads over entries of B, slots and
/// entries of structures; lanes of warp 0 over the rows of the diagonal block, two each. Writes and their order: see the
/// module. A list's nodes are pushed by atomic exchange of its head, and read when all who push have
/// finished. Shared memory: 47 KiB.
///
/// Launch: 1-D, blocks of a multiple of 32 threads. Preconditions: rows and columns of B increase
/// strictly; panels, parents and children are those of [`etree`](super::etree); `waiting` holds the number of
/// children; `counters` is zero, heads are [`NONE`]. After it, the structures hold if `counters` asked for
/// no more than there is.
#[kernel(
    max_threads(512),
    min_blocks(1),
    require(
        limit >= 1,
        limit as usize <= ROUND,
        base_min >= 1,
        panels.panel_of.len() < MAX_ORDER,
        links.counters.len() == COUNTERS,
        panels.num_panels.len() == 1,
        pattern.row_ptr.len() == panels.panel_of.len() + 1,
        made.diagonal.len() == panels.panel_of.len(),
        links.meets.len() == panels.panel_of.len(),
        made.mask.len() == made.index.len(),
        links.node_panel.len() == links.node_next.len(),
        panels.panel_start.len() == links.waiting.len() + 1,
        panels.child_ptr.len() == links.waiting.len() + 1,
        panels.panel_parent.len() == links.waiting.len(),
        made.at.len() == links.waiting.len(),
        made.upper_len.len() == links.waiting.len(),
        links.upper_head.len() == links.waiting.len(),
        links.live.len() == links.waiting.len(),
        symmetric != 0 || pattern.col_ptr.len() == pattern.row_ptr.len(),
        symmetric != 0 || made.lower_len.len() == links.waiting.len(),
        symmetric != 0 || links.lower_head.len() == links.waiting.len()
    )
)]
pub unsafe fn eliminate_panels(
    symmetric: u32,
    limit: u32,
    base_min: u32,
    pattern: Pattern,
    panels: Panels,
    links: PanelLinks,
    made: NewStructures,
) {
    let keys = shared_array![u32; SLOTS];
    let words = Words(shared_array![u32; 2 * SLOTS]);
    let found = shared_array![u64; KEYS];
    let sorted = shared_array![u64; KEYS];
    let near = shared_array![u32; NEAR];
    let state = shared_array![u32; STATE];
    let kept = shared_array![u32; 2 * MAX_WARPS];
    let inside_columns = Words(shared_array![u32; 2 * PANEL as usize]);
    let inside_rows = Words(shared_array![u32; 2 * PANEL as usize]);
    let reaching = Words(shared_array![u32; 4]);
    let met = shared_array![u32; PANEL as usize];
    let lane_begin = shared_array![u64; 2 * PANEL as usize];
    let lane_before = shared_array![u32; 2 * (PANEL as usize + 1)];
    let block = Block {
        sides: if symmetric != 0 { 1 } else { 2 },
        limit,
        base_min,
        pattern,
        panels,
        links,
        made,
        keys,
        words,
        found,
        sorted,
        near,
        state,
        kept,
        inside_columns,
        inside_rows,
        reaching,
        met,
        lane_begin,
        lane_before,
    };
    let tid = thread::thread_idx_x();
    let num_panels = panels.num_panels.get(0);
    if thread::index_1d() == 0 {
        links.counters.set(PANELS, u64::from(num_panels));
    }
    let mut room = Room { at: 0, end: 0 };
    loop {
        thread::sync_threads();
        if tid == 0 {
            let next = links.counters.atomic(NEXT_PANEL);
            let q = next.fetch_add(1, Ordering::Relaxed, Scope::Device);
            state.set(
                NOW,
                if q < u64::from(num_panels) {
                    q as u32
                } else {
                    NONE
                },
            );
        }
        thread::sync_threads();
        let mut q = state.get(NOW);
        if q == NONE {
            break;
        }
        if panels.child_ptr.get(q as usize + 1) > panels.child_ptr.get(q as usize) {
            continue;
        }
        while q != NONE {
            let panel = block.panel(q as usize);
            let width = panel.end - panel.start;
            for k in thread::block_stride(PANEL as usize) {
                inside_columns.set(k, 0);
                inside_rows.set(k, if k < width as usize { 1 << k } else { 0 });
                met.set(k, NONE);
            }
            if tid == 0 {
                reaching.set(0, 0);
                reaching.set(1, 0);
            }
            // The barriers in `gather` order these writes before their uses.
            let it = block.gather(panel, &mut room);
            thread::sync_threads();
            block.eliminate_diagonal(panel);
            block.close(panel, it);
            let live_pivots = block.find_meets(panel, it);
            block.enter_lists(panel, it, live_pivots);
            q = block.hand_up(panel);
        }
    }
}
