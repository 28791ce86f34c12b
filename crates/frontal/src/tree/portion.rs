//! A part of a tree for a device of its own: whole subtrees, or what is above some.

use luge_sparse::etree::NONE;

use super::parts::list_children;
use super::{AssemblyTree, Front};
use crate::layout::Layout;

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
    /// The fronts of a tree that are `chosen`, with the children of theirs that are not.
    pub fn new(
        (whole, layout): (&AssemblyTree, &Layout),
        chosen: impl Fn(usize) -> bool,
        slots: Slots,
    ) -> Self {
        let mut numbers = vec![NONE; whole.fronts.len()];
        let mut portion = Self {
            tree: AssemblyTree {
                pattern: whole.pattern.clone(),
                perm: whole.perm.clone(),
                fronts: Vec::new(),
                children: Vec::new(),
                rows: Vec::new(),
                relative: Vec::new(),
                max_front: 0,
            },
            layout: Layout {
                slot: Vec::new(),
                slots: 0,
                entry_ptr: vec![0],
                source: Vec::new(),
                target: Vec::new(),
            },
            fronts: Vec::new(),
        };
        for (s, front) in whole.fronts.iter().enumerate() {
            let parent = front.parent;
            let is_chosen = chosen(s);
            let is_child_of_one = parent != NONE && chosen(parent as usize);
            if is_chosen || is_child_of_one {
                numbers[s] = portion.fronts.len() as u32;
                portion.fronts.push(s as u32);
                portion.add((whole, layout), s, !is_chosen, slots);
            }
        }
        let Self {
            tree,
            layout: own,
            fronts,
        } = &mut portion;
        if slots == Slots::Whole {
            own.slots = layout.slots;
        }
        own.slot.push(own.slots);
        for (front, &s) in tree.fronts.iter_mut().zip(&*fronts) {
            let parent = whole.fronts[s as usize].parent;
            front.parent = numbers.get(parent as usize).copied().unwrap_or(NONE);
            // `list_children` adds the depths of the parents.
            front.depth = 1;
        }
        tree.children = list_children(&mut tree.fronts);
        tree.max_front = tree.fronts.iter().map(Front::size).max().unwrap_or(0);
        portion
    }

    /// Adds front `s` of the whole tree.
    fn add(
        &mut self,
        (whole, layout): (&AssemblyTree, &Layout),
        s: usize,
        is_given: bool,
        slots: Slots,
    ) {
        let Self {
            tree, layout: own, ..
        } = self;
        let front = &whole.fronts[s];
        tree.fronts.push(Front {
            rows: tree.rows.len() as u64,
            is_given,
            ..*front
        });
        tree.rows.extend_from_slice(whole.rows_below(s));
        let relative = &whole.relative[front.row_range()];
        tree.relative.extend_from_slice(relative);
        own.slot.push(match slots {
            Slots::Whole => layout.slot[s],
            Slots::Own => own.slots,
        });
        if !is_given {
            own.slots += layout.slot[s + 1] - layout.slot[s];
            let entries = layout.entry_ptr[s] as usize..layout.entry_ptr[s + 1] as usize;
            own.source
                .extend_from_slice(&layout.source[entries.clone()]);
            own.target.extend_from_slice(&layout.target[entries]);
        }
        own.entry_ptr.push(own.source.len() as u32);
    }
}
