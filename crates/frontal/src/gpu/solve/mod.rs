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

/// The vectors of a launch.
#[derive(Debug)]
pub(super) struct Vectors<T: DeviceScalar> {
    entered: Buffer<T>,
    unknowns: Buffer<T>,
    eliminated: Buffer<T>,
    carried: Buffer<T>,
    /// Of segments of long rows right of the diagonal blocks.
    sums: Buffer<T>,
    control: Buffer<u32>,
}

impl<T: DeviceScalar> SolveState<T> {
    /// For factors that are not there yet.
    pub(super) fn new(stream: &Stream, tree: &DeviceTree) -> Result<Self, DeviceFrontalError> {
        Ok(Self {
            order: stream.alloc(tree.symbolic.tree.n())?,
            coupling: stream.alloc(tree.solve.coupling_entries.len())?,
        })
    }

    /// Takes from the values `a` of A, and from the exchanges if they are `new_pivots`, what solves need.
    pub(super) fn refresh(
        &mut self,
        stream: &Stream,
        tree: &DeviceTree,
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
pub(super) fn vector_entries(tree: &DeviceTree) -> usize {
    3 * tree.symbolic.tree.n() + tree.symbolic.tree.rows.len() + tree.solve.num_segments()
}

/// Right-hand sides of a launch at most, if the vectors of one take so many bytes.
fn most_at_once(bytes_of_one: usize) -> usize {
    let chunks = VECTOR_BYTES / (MANY * bytes_of_one);
    chunks.clamp(1, MAX_NRHS / MANY) * MANY
}

impl<T: DeviceScalar> Vectors<T> {
    /// Vectors for `lanes` right-hand sides: those there are, if they suffice.
    fn of<'a>(
        kept: &'a mut Option<Self>,
        stream: &Stream,
        tree: &DeviceTree,
        lanes: usize,
    ) -> Result<&'a mut Self, DeviceFrontalError> {
        let (n, rows) = (tree.symbolic.tree.n(), tree.symbolic.tree.rows.len());
        let suffices = |v: &Self| v.unknowns.len() >= n * lanes;
        // Others are freed first: both need not exist at once.
        let vectors = match kept.take().filter(suffices) {
            Some(vectors) => vectors,
            None => Self {
                entered: stream.alloc(n * lanes)?,
                unknowns: stream.alloc(n * lanes)?,
                eliminated: stream.alloc(n * lanes)?,
                carried: stream.alloc(rows * lanes)?,
                sums: stream.alloc(tree.solve.num_segments() * lanes)?,
                control: stream.alloc(CONTROL_WORDS)?,
            },
        };
        Ok(kept.insert(vectors))
    }
}

impl<T: DeviceScalar> DeviceFrontalLu<T> {
    /// Solves in `vectors`, whose former content is of no use; with the scaled matrix itself unless `scales`.
    #[track_caller]
    pub(super) fn solve_with(
        &mut self,
        vectors: &mut Option<Vectors<T>>,
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
        let at_once = most_at_once(vector_entries(&self.tree) * size_of::<T>());
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
                vectors,
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
        vectors: &mut Option<Vectors<T>>,
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
        let resident = stream.device().max_resident_blocks(kernel, THREADS, 0)?;
        let blocks = plan.blocks(resident, n, chunks as u32);
        let config = LaunchConfig::linear(blocks, THREADS).cooperative();
        let SolveState { order, coupling } = &self.solve_state;
        let vectors = Vectors::of(vectors, stream, tree, chunks * together)?;
        stream.fill_zero(&mut vectors.control)?;
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
            entered: &mut vectors.entered,
            unknowns: &mut vectors.unknowns,
            eliminated: &mut vectors.eliminated,
            carried: &mut vectors.carried,
            sums: &mut vectors.sums,
            control: &mut vectors.control,
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
        for (bytes_of_one, expected) in [
            (8, 64),
            (1 << 24, 64),
            ((1 << 24) + 1, 56),
            ((1 << 27) / 2, 16),
            ((1 << 27) / 2 + 1, 8),
            (1 << 27, 8),
            (1 << 40, 8),
        ] {
            assert_eq!(most_at_once(bytes_of_one), expected, "{bytes_of_one}");
        }
    }
}
