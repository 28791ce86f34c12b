//! Solves with the factors.
//!
//! A solve is one launch for up to 64 right-hand sides (see `luge_gpu_kernels::frontal::solve`), on lists that
//! [`SolvePlan`] makes once for a tree. Right-hand sides and solutions stay on the device.

mod launch;
mod links;
mod packs;
mod plan;
mod shares;
mod symmetric;
mod tasks;

use std::mem;

use luge_device::{Buffer, BufferViewMut, DeviceError, LaunchConfig, Stream};
use luge_gpu_kernels::frontal::solve as kernels;
use luge_gpu_kernels::frontal::solve::layout::{CONTROL_WORDS, THREADS};

pub use launch::SymmetricFactors;
pub(super) use launch::{Kind, Solve};
pub(super) use plan::{SolvePlan, SolveRecords};
pub use symmetric::UploadedLdlt;

use super::{DeviceFrontalError, DeviceFrontalLu, DeviceScalar, DeviceTree, WideOf};
use crate::storage::{Lower, Storage};
use crate::tree::AssemblyTree;

/// What solves need of one matrix beside the panels of its factors.
#[derive(Debug)]
pub(super) struct SolveState<T: DeviceScalar> {
    /// The exchanges of rows of each front as one permutation.
    order: Buffer<u32>,
    /// Entries right of the diagonal blocks.
    coupling: Buffer<T>,
}

/// What launches work in.
///
/// Their vectors lie where the elements of a factorization were, which nobody needs any more, if there is room for them.
#[derive(Debug)]
pub(super) struct Vectors<T: DeviceScalar> {
    /// Vectors that have no room there.
    apart: Option<Buffer<T>>,
    controls: Controls,
}

/// What blocks of a launch count in: zero before it. A launch clears the words of the next solve, which takes no launch of its own.
#[derive(Debug)]
pub(super) struct Controls {
    own: Buffer<u32>,
    next: Buffer<u32>,
    /// Whether the own ones are zero once what is enqueued is done: not where a launch was not made.
    are_clear: bool,
}

impl Controls {
    fn new(stream: &Stream) -> Result<Self, DeviceError> {
        Ok(Self {
            own: stream.alloc(CONTROL_WORDS)?,
            next: stream.alloc(CONTROL_WORDS)?,
            are_clear: false,
        })
    }

    /// Before the first launch of a solve.
    fn begin(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        if !self.are_clear {
            stream.fill_zero(&mut self.own)?;
        }
        self.are_clear = false;
        Ok(())
    }

    /// All launches of the solve are enqueued.
    fn end(&mut self) {
        mem::swap(&mut self.own, &mut self.next);
        self.are_clear = true;
    }
}

impl<T: DeviceScalar> SolveState<T> {
    /// For factors that are not there yet.
    pub(super) fn new<S: Storage>(
        stream: &Stream,
        tree: &DeviceTree<S>,
    ) -> Result<Self, DeviceFrontalError> {
        Ok(Self {
            order: stream.alloc(tree.symbolic.tree.n())?,
            coupling: stream.alloc(tree.solve.coupling_entries.len())?,
        })
    }

    /// The exchanges of rows of each front as one permutation.
    pub(super) fn order(&self) -> &Buffer<u32> {
        &self.order
    }

    /// The entries right of the diagonal blocks.
    pub(super) fn coupling(&self) -> &Buffer<T> {
        &self.coupling
    }

    /// Takes from the values `a` of A, and from the exchanges if they are `new_pivots`, what solves need.
    pub(super) fn refresh<S: Storage>(
        &mut self,
        stream: &Stream,
        tree: &DeviceTree<S>,
        a: &Buffer<WideOf<T>>,
        pivot_rows: &Buffer<u32>,
        new_pivots: bool,
    ) -> Result<(), DeviceFrontalError> {
        let plan = &tree.solve;
        if new_pivots && !self.order.is_empty() {
            // SAFETY: the plan describes the fronts with these pivots.
            unsafe {
                kernels::prepare::compose_exchanges::launch(
                    stream,
                    &warp_a_front(tree),
                    &plan.fronts,
                    pivot_rows,
                    &mut self.order,
                )?;
            }
        }
        if !self.coupling.is_empty() {
            let config = LaunchConfig::for_elements(self.coupling.len(), THREADS);
            // SAFETY: the placement's entries are values of A; the factorization has checked how many there are.
            unsafe {
                kernels::prepare::coupling_values::launch::<T, _>(
                    stream,
                    &config,
                    &plan.coupling_entries,
                    &plan.coupling_exponents,
                    a,
                    &mut self.coupling,
                )?;
            }
        }
        Ok(())
    }
}

/// Makes of where the rows and columns of pivots went within their fronts the `order` that solves with symmetric factors
/// need.
pub(super) fn invert_places(
    stream: &Stream,
    tree: &DeviceTree<Lower>,
    row_places: &Buffer<u32>,
    order: &mut Buffer<u32>,
) -> Result<(), DeviceError> {
    if order.is_empty() {
        return Ok(());
    }
    // SAFETY: the plan describes the fronts with these pivots.
    unsafe {
        kernels::prepare::invert_places::launch(
            stream,
            &warp_a_front(tree),
            &tree.solve.fronts,
            row_places,
            order,
        )
    }
}

/// The launch of a kernel whose warps have a front each.
fn warp_a_front<S: Storage>(tree: &DeviceTree<S>) -> LaunchConfig {
    LaunchConfig::for_elements(tree.symbolic.tree.num_supernodes() * 32, THREADS)
}

/// Those of a tree without couplings.
pub(super) fn solve_entries(tree: &AssemblyTree) -> usize {
    3 * tree.n() + tree.rows.len()
}

/// Entries of the vectors for one right-hand side.
pub(super) fn vector_entries<S: Storage>(tree: &DeviceTree<S>) -> usize {
    solve_entries(&tree.symbolic.tree) + tree.solve.num_segments()
}

impl<T: DeviceScalar> Vectors<T> {
    /// For no launch yet.
    pub(super) fn new(stream: &Stream) -> Result<Self, DeviceFrontalError> {
        Ok(Self {
            apart: None,
            controls: Controls::new(stream)?,
        })
    }

    /// Bytes on the device of those for one right-hand side, beside elements of so many entries.
    pub(super) fn bytes<S: Storage>(tree: &DeviceTree<S>, of_elements: u64) -> u64 {
        let entries = vector_entries(tree) as u64;
        let apart = if entries > of_elements { entries } else { 0 };
        apart * size_of::<T>() as u64 + 2 * 4 * CONTROL_WORDS as u64
    }

    /// The controls, and memory for `entries` values: the `elements` or what there is apart from them, if it suffices.
    fn memory<'a>(
        &'a mut self,
        elements: &'a mut Buffer<T>,
        stream: &Stream,
        entries: usize,
    ) -> Result<(&'a mut Controls, &'a mut Buffer<T>), DeviceFrontalError> {
        if elements.len() >= entries {
            return Ok((&mut self.controls, elements));
        }
        // Others are freed first: both need not exist at once.
        let apart = match self.apart.take().filter(|apart| apart.len() >= entries) {
            Some(apart) => apart,
            None => stream.alloc(entries)?,
        };
        Ok((&mut self.controls, self.apart.insert(apart)))
    }
}

impl<T: DeviceScalar> DeviceFrontalLu<T> {
    /// Solves in `vectors` and the `elements`, whose former content is of no use; with the scaled matrix itself unless
    /// `scales`.
    #[track_caller]
    pub(super) fn solve_with(
        &mut self,
        memory: (&mut Vectors<T>, &mut Buffer<T>),
        stream: &Stream,
        x: &mut impl BufferViewMut<WideOf<T>>,
        nrhs: usize,
        transpose: bool,
        scales: bool,
    ) -> Result<(), DeviceFrontalError> {
        let SolveState { order, coupling } = &self.solve_state;
        let solve = Solve {
            tree: &self.tree,
            panels: &mut self.factors,
            stored_panels: self.stored_panels.as_mut(),
            order,
            kind: Kind::General {
                transpose,
                coupling,
            },
            scales,
        };
        solve.enqueue(memory, stream, x.view_mut(), nrhs)
    }
}
