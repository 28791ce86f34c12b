//! The shadow of memory: who accessed each cell last.

/// One tracked cell.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cell {
    pub launch: u32,
}
