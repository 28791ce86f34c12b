//! Launches of solves, the same for all kinds of factors but for the kernel and two of its arguments.

use std::ops::Range;

use luge_device::{Buffer, DeviceError, LaunchConfig, SliceMut, Stream};
use luge_gpu_kernels::frontal::solve as kernels;
use luge_gpu_kernels::frontal::solve::layout::{
    CONJUGATED, CouplingsBuffers, FEWER, FactoredBuffers, GOES_ON, HERMITIAN, ListsBuffers, MANY,
    MAX_NRHS, PlacesBuffers, THREADS, VectorsBuffers, control as words, factors,
};
use luge_sparse::Form;

use super::links::{Pass, passes};
use super::plan::DeviceLists;
use super::{Vectors, vector_entries};
use crate::gpu::scalar::{RealOf, SolveArguments, SolveKernel};
use crate::gpu::streamed::StoredPanels;
use crate::gpu::{DeviceFrontalError, DeviceScalar, DeviceTree, WideOf};
use crate::storage::Storage;

/// Bytes of the vectors of a launch from which on it takes fewer right-hand sides.
const VECTOR_BYTES: usize = 1 << 30;

/// Right-hand sides of a launch at most, if the vectors of one take so many bytes, and the elements of a factorization
/// `of_elements`.
fn most_at_once(bytes_of_one: usize, of_elements: usize) -> usize {
    let chunks = VECTOR_BYTES.max(of_elements) / (MANY * bytes_of_one);
    chunks.clamp(1, MAX_NRHS / MANY) * MANY
}

/// No bit of the kernels.
const TRANSPOSED: u32 = 1 << 31;

/// Which of the factors of P·B·Pᵀ = L·D·Lᵀ a solve is with. The solves with [`L`](Self::L), [`D`](Self::D) and
/// [`TRANSPOSED_L`](Self::TRANSPOSED_L) one after the other are the one with [`ALL`](Self::ALL).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymmetricFactors(u32);

impl SymmetricFactors {
    /// L·X = P·R; the entry of X for a pivot takes the place of its column.
    pub const L: Self = Self(factors::L);
    /// D·X = R, each pivot's entry in the place of its column; zero where the pivot is zero.
    pub const D: Self = Self(factors::D);
    /// Lᵀ·P·X = R, with each pivot's entry of R in the place of its column; of a Hermitian matrix with Lᴴ.
    pub const TRANSPOSED_L: Self = Self(factors::TRANSPOSED_L);
    /// D·Lᵀ·P·X = R, or with Lᴴ.
    pub const D_AND_TRANSPOSED_L: Self = Self(factors::D | factors::TRANSPOSED_L);
    /// B·X = R.
    pub const ALL: Self = Self(factors::ALL);
    /// Bᵀ·X = R, which is another matrix only if B is complex and Hermitian.
    pub const ALL_TRANSPOSED: Self = Self(factors::ALL | TRANSPOSED);

    fn has(self, factor: u32) -> bool {
        self.0 & factor != 0
    }

    /// The word of the kernels for a matrix of this form.
    fn word(self, form: Form) -> u32 {
        let given = self.0 & !TRANSPOSED;
        match (form, self.has(TRANSPOSED)) {
            (Form::Symmetric, _) => given,
            (Form::Hermitian, false) => given | HERMITIAN,
            (Form::Hermitian, true) => given | HERMITIAN | CONJUGATED,
        }
    }
}

/// A kind of factors, with what it has of its own.
#[derive(Debug, Clone, Copy)]
pub(in crate::gpu) enum Kind<'a, T: DeviceScalar> {
    /// L·U, or its transpose.
    General {
        transpose: bool,
        /// Entries right of the diagonal blocks.
        coupling: &'a Buffer<T>,
    },
    /// L·D·Lᵀ, or some of its factors.
    Symmetric {
        factors: SymmetricFactors,
        /// Two values for each pivot: its entry of D, and the one that couples it to the next pivot.
        diagonal: &'a Buffer<T>,
    },
}

impl<T: DeviceScalar> Kind<'_, T> {
    fn is_transposed(self) -> bool {
        matches!(
            self,
            Self::General {
                transpose: true,
                ..
            }
        )
    }

    /// Whether right-hand sides are scaled where the matrix is, and whether solutions are.
    fn scales(self) -> [bool; 2] {
        match self {
            Self::General { .. } => [true, true],
            Self::Symmetric { factors: of, .. } => {
                [of.has(factors::L), of.has(factors::TRANSPOSED_L)]
            }
        }
    }
}

/// Factors of one matrix, to solve with.
#[derive(Debug)]
pub(in crate::gpu) struct Solve<'a, T: DeviceScalar, S: Storage> {
    pub tree: &'a DeviceTree<S>,
    pub panels: &'a mut Buffer<T>,
    /// Where `panels` are those of one link of the tree at a time.
    pub stored_panels: Option<&'a mut StoredPanels<T>>,
    /// The exchanges of rows of each front as one permutation.
    pub order: &'a Buffer<u32>,
    pub kind: Kind<'a, T>,
    /// Whether right-hand sides and solutions are those of A, not of the scaled matrix.
    pub scales: bool,
}

impl<T: DeviceScalar, S: Storage> Solve<'_, T, S> {
    /// Solves in place in `x`, in `vectors` and the `elements`, whose former content is of no use.
    ///
    /// # Panics
    ///
    /// If `x` has not `nrhs` right-hand sides.
    #[track_caller]
    pub fn enqueue(
        mut self,
        (vectors, elements): (&mut Vectors<T>, &mut Buffer<T>),
        stream: &Stream,
        mut x: SliceMut<'_, WideOf<T>>,
        nrhs: usize,
    ) -> Result<(), DeviceFrontalError> {
        let n = self.tree.symbolic.tree.n();
        assert_eq!(x.len(), n * nrhs, "{nrhs} right-hand sides of length {n}");
        if x.is_empty() {
            return Ok(());
        }
        let bytes_of_one = vector_entries(self.tree) * size_of::<T>();
        let at_once = most_at_once(bytes_of_one, elements.len() * size_of::<T>());
        let zeros = match self.scales && self.kind.scales() == [true, true] {
            true => None,
            false => {
                let mut zeros = stream.alloc(n)?;
                stream.fill_zero(&mut zeros)?;
                Some(zeros)
            }
        };
        let mut first = 0;
        while first < nrhs {
            let count = at_once.min(nrhs - first);
            self.launch(
                (vectors, elements),
                stream,
                &mut x,
                first..first + count,
                zeros.as_ref(),
            )?;
            first += count;
        }
        Ok(())
    }

    /// Solves for these right-hand sides, with `zeros` in place of exponents that do not count.
    fn launch(
        &mut self,
        (vectors, elements): (&mut Vectors<T>, &mut Buffer<T>),
        stream: &Stream,
        x: &mut SliceMut<'_, WideOf<T>>,
        sides: Range<usize>,
        zeros: Option<&Buffer<i32>>,
    ) -> Result<(), DeviceFrontalError> {
        let tree = self.tree;
        let plan = &tree.solve;
        let n = tree.symbolic.tree.n();
        let whole = plan.lists(stream, &tree.symbolic, self.kind.is_transposed())?;
        let together = if sides.len() == 1 { 1 } else { MANY };
        let lanes = sides.len().next_multiple_of(together);
        let entries = vector_entries(tree) * lanes;
        let (controls, memory) = vectors.memory(elements, stream, entries)?;
        controls.begin(stream)?;
        let (mut entered, memory) = memory.split_at_mut(n * lanes);
        let (unknowns, memory) = memory.into_split_at(n * lanes);
        let (eliminated, memory) = memory.into_split_at(n * lanes);
        let (carried, memory) = memory.into_split_at(tree.symbolic.tree.rows.len() * lanes);
        let (mut sums, _) = memory.into_split_at(plan.num_segments() * lanes);
        // What is handed over is handed over by components.
        let handed = [unknowns, eliminated, carried].map(|part| part.into_elements::<RealOf<T>>());
        let [mut unknowns, mut eliminated, mut carried] = handed;
        let mut x = x.slice_mut(sides.start * n..sides.end * n);
        // All at once, unless the tree is in links.
        let mut passes: Vec<Option<Pass>> = passes(plan.links.len()).map(Some).collect();
        if passes.is_empty() {
            passes.push(None);
        }
        for (number, &pass) in passes.iter().enumerate() {
            if let (Some((link, _)), Some(stored)) = (pass, &mut self.stored_panels) {
                let next = passes.get(number + 1).copied().flatten();
                stored.bring(stream, link, next.map(|(link, _)| link), self.panels)?;
            }
            if number > 0 {
                stream.fill_zero(&mut controls.own.slice_mut(..words::EXPONENTS))?;
            }
            let what = Launch {
                lists: &whole,
                pass,
                goes_on: number > 0,
                nrhs: sides.len(),
                zeros,
            };
            let vectors = VectorsBuffers {
                x: &mut x,
                entered: &mut entered,
                unknowns: &mut unknowns,
                eliminated: &mut eliminated,
                carried: &mut carried,
                sums: &mut sums,
                control: &mut controls.own,
                next_control: &mut controls.next,
            };
            self.enqueue_launch(stream, &what, vectors)?;
        }
        controls.end();
        Ok(stream.make_way()?)
    }

    /// Enqueues a launch on these vectors.
    fn enqueue_launch<'a>(
        &'a self,
        stream: &Stream,
        what: &'a Launch<'_>,
        vectors: VectorsBuffers<'a, T>,
    ) -> Result<(), DeviceFrontalError> {
        let Self { tree, .. } = *self;
        let plan = &tree.solve;
        let (enter, leave) = if self.kind.is_transposed() {
            (&plan.cols, &plan.rows)
        } else {
            (&plan.rows, &plan.cols)
        };
        let together = if what.nrhs == 1 { 1 } else { MANY };
        let which = SolveKernel {
            many: what.nrhs > 1,
            strips: plan.has_strips || !T::SOLVES_WITHOUT_STRIPS,
        };
        let kernel = match self.kind {
            Kind::General { .. } => T::general_solve(which),
            Kind::Symmetric { .. } => T::symmetric_solve(which),
        };
        let shared_values = kernels::shared_values(together, which.strips);
        let shared_bytes = (shared_values * size_of::<T>()) as u32;
        let resident = stream.share_of_blocks(kernel, THREADS, shared_bytes)?;
        let blocks = plan.blocks(resident, tree.symbolic.tree.n(), what.nrhs);
        let config = LaunchConfig::linear(blocks, THREADS).cooperative();
        let config = config.with_shared(shared_bytes);
        let [enter_scales, leave_scales] = self.kind.scales().map(|scales| scales && self.scales);
        let [enter, leave] =
            [(enter, enter_scales), (leave, leave_scales)].map(|(placed, scales)| PlacesBuffers {
                places: &placed.places,
                exponents: what.zeros.filter(|_| !scales).unwrap_or(&placed.exponents),
            });
        let arguments = SolveArguments {
            nrhs: what.nrhs as u32,
            tree: FactoredBuffers {
                fronts: &plan.fronts,
                gather_ptr: &plan.gather_ptr,
                carry_to: &plan.carry_to,
                row_idx: &tree.row_idx,
                order: self.order,
                factors: &*self.panels,
            },
            lists: what.lists(stream, tree)?,
            enter,
            leave,
            vectors,
        };
        let bits = if what.goes_on { GOES_ON } else { 0 };
        let bits = bits | if plan.has_fewer() { FEWER } else { 0 };
        // SAFETY: lists, factors and exchanges are those of one tree; the plan puts no task before one that it waits for, in
        // this launch or in one before; the words before the exponents are zero, and in the first launch the whole control.
        unsafe {
            match self.kind {
                Kind::General {
                    transpose,
                    coupling,
                } => {
                    let couplings = CouplingsBuffers {
                        coupling,
                        idx: &what.lists.coupled_idx,
                        entries: &what.lists.coupled_entries,
                    };
                    let own = (u32::from(transpose) | bits, couplings);
                    T::launch_general_solve(stream, &config, which, own, arguments)?;
                }
                Kind::Symmetric { factors, diagonal } => {
                    let own = (factors.word(self.tree.form) | bits, diagonal);
                    T::launch_symmetric_solve(stream, &config, which, own, arguments)?;
                }
            }
        }
        Ok(())
    }
}

impl Launch<'_> {
    /// Who works on what in it.
    fn lists<'a, S: Storage>(
        &'a self,
        stream: &Stream,
        tree: &'a DeviceTree<S>,
    ) -> Result<ListsBuffers<'a>, DeviceError> {
        let (symbolic, of_thread) = (tree.symbolic.tree(), tree.solve.of_thread);
        match self.pass {
            None if self.nrhs == 1 => Ok(self.lists.buffers()),
            None => {
                let shares = self.lists.shares(stream, symbolic, of_thread, None)?;
                Ok(shares.in_place(self.lists.buffers(), true))
            }
            Some((link, up)) if self.nrhs == 1 => Ok(tree.solve.links[link].buffers(up)),
            Some((link, up)) => tree.solve.links[link].shares(stream, symbolic, of_thread, up),
        }
    }
}

/// One of the launches of a solve.
struct Launch<'a> {
    /// Those of the whole tree.
    lists: &'a DeviceLists,
    /// If the tree is in links.
    pass: Option<Pass>,
    /// Whether it goes on with the vectors of the one before.
    goes_on: bool,
    nrhs: usize,
    /// In place of exponents that do not count.
    zeros: Option<&'a Buffer<i32>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_vectors_are_solved_for_in_smaller_groups() {
        assert_eq!((MANY, MAX_NRHS), (8, 64));
        // 64 vectors of 2²⁴ bytes have 2³⁰.
        for (bytes_of_one, of_elements, expected) in [
            (8, 0, 64),
            (1 << 24, 1 << 20, 64),
            ((1 << 24) + 1, 0, 56),
            ((1 << 24) + 1, 1 << 31, 64),
            ((1 << 27) / 2, 0, 16),
            ((1 << 27) / 2 + 1, 0, 8),
            ((1 << 27) / 2 + 1, 1 << 31, 24),
            (1 << 27, 0, 8),
            (1 << 40, 1 << 31, 8),
        ] {
            assert_eq!(
                most_at_once(bytes_of_one, of_elements),
                expected,
                "{bytes_of_one}, {of_elements}"
            );
        }
    }
}
