//! What the kernels of the symbolic phase are given.

use luge_kernel::prelude::*;

/// The pattern of B by rows and by columns, increasing within each. Columns are those of the rows, and not looked at,
/// where B is symmetric.
#[derive(Clone, Copy, KernelArgs)]
pub struct Pattern {
    /// Offsets of the rows.
    pub row_ptr: Global<u64>,
    /// Column of each entry by rows.
    pub col_idx: Global<u32>,
    /// Offsets of the columns.
    pub col_ptr: Global<u64>,
    /// Row of each entry by columns.
    pub row_idx: Global<u32>,
}

/// The panels that [`plant_forest`](fn@super::etree::plant_forest) cuts the forest into.
#[derive(Clone, Copy, KernelArgs)]
pub struct FoundPanels {
    /// The panel of each vertex.
    pub panel_of: GlobalMut<u32>,
    /// First vertex of each panel, followed by n.
    pub panel_start: GlobalMut<u32>,
    /// The panel of the parent of a panel's last vertex, or [`NONE`](super::etree::NONE).
    pub panel_parent: GlobalMut<u32>,
    /// How many panels each is the parent of.
    pub children: GlobalMut<u32>,
    /// Where those begin in `child`.
    pub child_ptr: GlobalMut<u64>,
    /// The children of all panels, those of one in any order.
    pub child: GlobalMut<u32>,
    /// Number of panels.
    pub num_panels: GlobalMut<u32>,
}

/// The forest of panels.
#[derive(Clone, Copy, KernelArgs)]
pub struct Panels {
    /// Number of panels.
    pub num_panels: Global<u32>,
    /// First vertex of each, followed by n.
    pub panel_start: Global<u32>,
    /// The panel of each vertex.
    pub panel_of: Global<u32>,
    /// The parent of each panel, or [`NONE`](super::etree::NONE).
    pub panel_parent: Global<u32>,
    /// Where the children of each begin in `child`.
    pub child_ptr: Global<u64>,
    /// The children of all.
    pub child: Global<u32>,
}

/// What an elimination of panels counts and links.
#[derive(Clone, Copy, KernelArgs)]
pub struct PanelLinks {
    /// Children of each panel that have not finished.
    pub waiting: GlobalMut<u32>,
    /// See [`COUNTERS`](super::panels::COUNTERS).
    pub counters: GlobalMut<u64>,
    /// The list of each panel on the upper side, or [`NONE`](super::etree::NONE).
    pub upper_head: GlobalMut<u32>,
    /// Likewise on the lower side, where B is not symmetric.
    pub lower_head: GlobalMut<u32>,
    /// The panel of each node of a list.
    pub node_panel: GlobalMut<u32>,
    /// The next node.
    pub node_next: GlobalMut<u32>,
    /// Where each live pivot meets.
    pub meets: GlobalMut<u32>,
    /// The live pivots of each panel.
    pub live: GlobalMut<u64>,
}

/// Structures that are being made; see [`panels`](super::panels).
#[derive(Clone, Copy, KernelArgs)]
pub struct NewStructures {
    /// The pool: rows and columns of the entries.
    pub index: GlobalMut<u32>,
    /// The pool: their words.
    pub mask: GlobalMut<u64>,
    /// Where each panel's entries begin.
    pub at: GlobalMut<u32>,
    /// Number of upper ones.
    pub upper_len: GlobalMut<u32>,
    /// Number of lower ones, behind these, where B is not symmetric.
    pub lower_len: GlobalMut<u32>,
    /// A word a pivot: its row of the diagonal block.
    pub diagonal: GlobalMut<u64>,
}

/// [`NewStructures`] that are made.
#[derive(Clone, Copy, KernelArgs)]
pub struct Structures {
    /// The pool: rows and columns of the entries.
    pub index: Global<u32>,
    /// The pool: their words.
    pub mask: Global<u64>,
    /// Where each panel's entries begin.
    pub at: Global<u32>,
    /// Number of upper ones.
    pub upper_len: Global<u32>,
    /// Number of lower ones, behind these, where B is not symmetric.
    pub lower_len: Global<u32>,
    /// A word a pivot: its row of the diagonal block.
    pub diagonal: Global<u64>,
}

/// What [`offset_rows`](fn@super::expand::offset_rows) counts.
#[derive(Clone, Copy, KernelArgs)]
pub struct RowOffsets {
    /// Entries of each row of L+U.
    pub row_len: GlobalMut<u32>,
    /// Runs of each row of L; zero in the end.
    pub num_runs: GlobalMut<u32>,
    /// Where the rows begin, and the end of the last.
    pub row_ptr: GlobalMut<u64>,
    /// Where the runs of the rows begin, and the end of the last.
    pub run_ptr: GlobalMut<u64>,
}

/// The runs of all rows, and the rows that they become.
#[derive(Clone, Copy, KernelArgs)]
pub struct Runs {
    /// Where the runs of each row begin, and the end of the last.
    pub run_ptr: Global<u64>,
    /// The runs; see [`place_runs`](fn@super::expand::place_runs).
    pub runs: Global<u64>,
    /// Where each row of L+U begins, and the end of the last.
    pub row_ptr: Global<u64>,
}

/// Rows that are the work of blocks.
#[derive(Clone, Copy, KernelArgs)]
pub struct LongRows {
    /// The rows.
    pub rows: Global<u32>,
    /// How many there are, and how many are taken: see [`LONG_COUNTERS`](crate::long::LONG_COUNTERS).
    pub counters: GlobalMut<u32>,
    /// A map of all columns for each block.
    pub bits: GlobalMut<u32>,
    /// Words of such a map.
    pub words: u32,
}
