//! A part of a tree for a device of its own: whole subtrees, or what is above some.

use luge_sparse::etree::NONE;

use crate::layout::Layout;
use crate::tree::{AssemblyTree, Front};

/// Where the factors of a part of a tree are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slots {
    /// In their places among those of the whole tree.
    Whole,
    /// By themselves, one front after the other.
    Own,
}

/// Some fronts of a tree with the pivots, rows and entries that they have in the whole. Children that are not among them
/// are [given](Front::is_given), roots that have a parent in the whole leave their elements to others.
#[derive(Debug)]
pub(crate) struct Portion {
    pub tree: AssemblyTree,
    pub layout: Layout,
    /// The number of each front in the whole tree, ascending.
    pub fronts: Vec<u32>,
}

impl Portion {
    /// The fronts of a tree that are `chosen`, with the children of theirs that are not. `candidates`, ascending, has all of these.
    pub fn new(
        (whole, layout): (&AssemblyTree, &Layout),
        candidates: impl Iterator<Item = usize>,
        chosen: impl Fn(usize) -> bool,
        slots: Slots,
    ) -> Self {
        let mut own = Layout {
            slot: Vec::new(),
            slots: 0,
            entry_ptr: vec![0],
            source: Vec::new(),
            target: Vec::new(),
        };
        let (mut of_whole, mut fronts) = (Vec::<u32>::new(), Vec::new());
        let (mut rows, mut relative) = (Vec::new(), Vec::new());
        for s in candidates {
            let front = &whole.fronts[s];
            let is_chosen = chosen(s);
            if !is_chosen && (front.parent == NONE || !chosen(front.parent as usize)) {
                continue;
            }
            of_whole.push(s as u32);
            fronts.push(Front {
                rows: rows.len() as u64,
                is_given: !is_chosen,
                ..*front
            });
            rows.extend_from_slice(whole.rows_below(s));
            relative.extend_from_slice(&whole.relative[front.row_range()]);
            own.add(layout, s, is_chosen, slots);
        }
        for front in &mut fronts {
            let parent = of_whole.binary_search(&front.parent);
            front.parent = parent.map_or(NONE, |parent| parent as u32);
        }
        if slots == Slots::Whole {
            own.slots = layout.slots;
        }
        own.slot.push(own.slots);
        Self {
            tree: whole.part(fronts, rows, relative),
            layout: own,
            fronts: of_whole,
        }
    }
}

impl Layout {
    /// Adds front `s` of the layout of a whole tree; only where it is, unless it `has_entries`.
    fn add(&mut self, whole: &Self, s: usize, has_entries: bool, slots: Slots) {
        self.slot.push(match slots {
            Slots::Whole => whole.slot[s],
            Slots::Own => self.slots,
        });
        if has_entries {
            self.slots += whole.slot[s + 1] - whole.slot[s];
            let entries = whole.entry_ptr[s] as usize..whole.entry_ptr[s + 1] as usize;
            self.source
                .extend_from_slice(&whole.source[entries.clone()]);
            self.target.extend_from_slice(&whole.target[entries]);
        }
        self.entry_ptr.push(self.source.len() as u32);
    }
}
