//! Solves with the factors.
//!
//! A solve is one launch for up to 64 right-hand sides (see `luge_gpu_kernels::frontal::solve`), on lists that
//! [`SolvePlan`] makes once for a tree. Right-hand sides and solutions stay on the device.

mod plan;

use std::ops::Range;

use luge_device::{Buffer, LaunchConfig, Stream};
use luge_gpu_kernels::frontal::solve as kernels;
use luge_gpu_kernels::frontal::solve::layout::{
    CONTROL_WORDS, CouplingsBuffers, FactoredBuffers, MANY, MAX_NRHS, PlacesBuffers, THREADS,
    VectorsBuffers,
};

pub(super) use plan::{SolvePlan, SolveRecords};

use super::{DeviceFrontalError, DeviceFrontalLu, DeviceScalar, DeviceTree};
use crate::storage::Storage;

/// Bytes of the vectors of a launch from which on it takes fewer right-hand sides.
const VECTOR_BYTES: usize = 1 << 30;

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
    control: Buffer<u32>,
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

    /// Takes from the values `a` of A, and from the exchanges if they are `new_pivots`, what solves need.
    pub(super) fn refresh<S: Storage>(
        &mut self,
        stream: &Stream,
        tree: &DeviceTree<S>,
        a: &Buffer<f64>,
        pivot_rows: &Buffer<u32>,
        new_pivots: bool,
    ) -> Result<(), DeviceFrontalError> {
        let plan = &tree.solve;
        if new_pivots && !self.order.is_empty() {
            let threads = tree.symbolic.tree.num_supernodes() * 32;
            let config = LaunchConfig::for_elements(threads, THREADS);
            // SAFETY: the plan describes the fronts with these pivots.
            unsafe {
                kernels::prepare::compose_exchanges::launch(
                    stream,
                    &config,
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

/// Entries of the vectors for one right-hand side.
pub(super) fn vector_entries<S: Storage>(tree: &DeviceTree<S>) -> usize {
    3 * tree.symbolic.tree.n() + tree.symbolic.tree.rows.len() + tree.solve.num_segments()
}

/// Right-hand sides of a launch at most, if the vectors of one take so many bytes, and the elements of a factorization
/// `of_elements`.
fn most_at_once(bytes_of_one: usize, of_elements: usize) -> usize {
    let chunks = VECTOR_BYTES.max(of_elements) / (MANY * bytes_of_one);
    chunks.clamp(1, MAX_NRHS / MANY) * MANY
}

impl<T: DeviceScalar> Vectors<T> {
    /// For no launch yet.
    pub(super) fn new(stream: &Stream) -> Result<Self, DeviceFrontalError> {
        Ok(Self {
            apart: None,
            control: stream.alloc(CONTROL_WORDS)?,
        })
    }

    /// Bytes on the device of those for one right-hand side, beside elements of so many entries.
    pub(super) fn bytes<S: Storage>(tree: &DeviceTree<S>, of_elements: u64) -> u64 {
        let entries = vector_entries(tree) as u64;
        let apart = if entries > of_elements { entries } else { 0 };
        apart * size_of::<T>() as u64 + 4 * CONTROL_WORDS as u64
    }

    /// The control, and memory for `entries` values: the `elements` or what there is apart from them, if it suffices.
    fn memory<'a>(
        &'a mut self,
        elements: &'a mut Buffer<T>,
        stream: &Stream,
        entries: usize,
    ) -> Result<(&'a mut Buffer<u32>, &'a mut Buffer<T>), DeviceFrontalError> {
        if elements.len() >= entries {
            return Ok((&mut self.control, elements));
        }
        // Others are freed first: both need not exist at once.
        let apart = match self.apart.take().filter(|apart| apart.len() >= entries) {
            Some(apart) => apart,
            None => stream.alloc(entries)?,
        };
        Ok((&mut self.control, self.apart.insert(apart)))
    }
}

impl<T: DeviceScalar> DeviceFrontalLu<T> {
    /// Solves in `vectors` and the `elements`, whose former content is of no use; with the scaled matrix itself unless
    /// `scales`.
    #[track_caller]
    pub(super) fn solve_with(
        &mut self,
        (vectors, elements): (&mut Vectors<T>, &mut Buffer<T>),
        stream: &Stream,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
        scales: bool,
    ) -> Result<(), DeviceFrontalError> {
        let n = self.tree.symbolic.tree.n();
        assert_eq!(x.len(), n * nrhs, "{nrhs} right-hand sides of length {n}");
        if x.is_empty() {
            return Ok(());
        }
        let bytes_of_one = vector_entries(&self.tree) * size_of::<T>();
        let at_once = most_at_once(bytes_of_one, elements.len() * size_of::<T>());
        let zeros = match scales {
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
                x,
                first..first + count,
                transpose,
                zeros.as_ref(),
            )?;
            first += count;
        }
        Ok(())
    }

    /// Solves for these right-hand sides, with `zeros` in place of the exponents of the scaling if they are given.
    fn launch(
        &mut self,
        (vectors, elements): (&mut Vectors<T>, &mut Buffer<T>),
        stream: &Stream,
        x: &mut Buffer<f64>,
        sides: Range<usize>,
        transpose: bool,
        zeros: Option<&Buffer<i32>>,
    ) -> Result<(), DeviceFrontalError> {
        let nrhs = sides.len();
        let tree = &*self.tree;
        let plan = &tree.solve;
        let n = tree.symbolic.tree.n();
        let lists = plan.lists(stream, &tree.symbolic, transpose)?;
        let (enter, leave) = if transpose {
            (&plan.cols, &plan.rows)
        } else {
            (&plan.rows, &plan.cols)
        };
        let together = if nrhs == 1 { 1 } else { MANY };
        let chunks = nrhs.div_ceil(together);
        let kernel = if nrhs == 1 {
            kernels::solve_fronts_single::desc::<T>()
        } else {
            kernels::solve_fronts_many::desc::<T>()
        };
        let shared_bytes = (kernels::shared_values(together) * size_of::<T>()) as u32;
        let device = stream.device();
        let resident = device.max_resident_blocks(kernel, THREADS, shared_bytes)?;
        let blocks = plan.blocks(resident, n, chunks as u32);
        let config = LaunchConfig::linear(blocks, THREADS)
            .cooperative()
            .with_shared(shared_bytes);
        let SolveState { order, coupling } = &self.solve_state;
        let lanes = chunks * together;
        let entries = vector_entries(tree) * lanes;
        let (control, memory) = vectors.memory(elements, stream, entries)?;
        stream.fill_zero(control)?;
        let (mut entered, memory) = memory.split_at_mut(n * lanes);
        let (mut unknowns, memory) = memory.into_split_at(n * lanes);
        let (mut eliminated, memory) = memory.into_split_at(n * lanes);
        let (mut carried, memory) = memory.into_split_at(tree.symbolic.tree.rows.len() * lanes);
        let (mut sums, _) = memory.into_split_at(plan.num_segments() * lanes);
        let mut x = x.slice_mut(sides.start * n..sides.end * n);
        let factored = FactoredBuffers {
            fronts: &plan.fronts,
            gather_ptr: &plan.gather_ptr,
            carry_to: &plan.carry_to,
            row_idx: &tree.row_idx,
            order,
            factors: &self.factors,
        };
        let couplings = CouplingsBuffers {
            coupling,
            idx: &lists.coupled_idx,
            entries: &lists.coupled_entries,
        };
        let enter = PlacesBuffers {
            places: &enter.places,
            exponents: zeros.unwrap_or(&enter.exponents),
        };
        let leave = PlacesBuffers {
            places: &leave.places,
            exponents: zeros.unwrap_or(&leave.exponents),
        };
        let vectors = VectorsBuffers {
            x: &mut x,
            entered: &mut entered,
            unknowns: &mut unknowns,
            eliminated: &mut eliminated,
            carried: &mut carried,
            sums: &mut sums,
            control,
        };
        macro_rules! launch {
            ($kernel:ident) => {
                kernels::$kernel::launch::<T, _>(
                    stream,
                    &config,
                    transpose.into(),
                    nrhs as u32,
                    factored,
                    lists.buffers(),
                    couplings,
                    enter,
                    leave,
                    vectors,
                )?
            };
        }
        // SAFETY: lists, factors and exchanges are those of one tree; the plan puts no task before one that it waits for;
        // the control is zero.
        unsafe {
            if nrhs == 1 {
                launch!(solve_fronts_single);
            } else {
                launch!(solve_fronts_many);
            }
        }
        Ok(())
    }
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
