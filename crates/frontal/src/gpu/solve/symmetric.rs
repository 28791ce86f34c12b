//! Solves with factors of a symmetric matrix that the CPU made.

use std::sync::Arc;

use luge_dense::FrontalScalar;
use luge_device::{Buffer, Stream};

use super::{Kind, Solve, SolveState, SymmetricFactors, Vectors};
use crate::gpu::{DeviceFrontalError, DeviceScalar, DeviceTree};
use crate::ldlt::FrontalLdlt;
use crate::storage::Lower;

/// Factors L·D·Lᵀ from the CPU on the device, which solves as with those that the device makes: what tests of the solves
/// compare.
#[doc(hidden)]
#[derive(Debug)]
pub struct UploadedLdlt<T: DeviceScalar> {
    tree: Arc<DeviceTree<Lower>>,
    panels: Buffer<T>,
    diagonal: Buffer<T>,
    state: SolveState<T>,
    vectors: Vectors<T>,
    /// None: a solve takes memory of its own.
    elements: Buffer<T>,
}

impl<T: DeviceScalar + FrontalScalar> UploadedLdlt<T> {
    /// Copies factors of B to the device.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If pivots were delayed, or the factors are those of another tree.
    #[track_caller]
    pub fn upload(
        stream: &Stream,
        tree: &Arc<DeviceTree<Lower>>,
        factors: &FrontalLdlt<T>,
    ) -> Result<Self, DeviceFrontalError> {
        let (panels, columns) = factors
            .without_delays(&tree.symbolic)
            .expect("factors of this tree, without delayed pivots");
        let fronts = tree.symbolic.tree.fronts();
        let mut row_places = vec![0u32; columns.len()];
        for front in fronts {
            for e in front.pivot_range() {
                row_places[columns[e] as usize] = e as u32 - front.start;
            }
        }
        let row_places = stream.upload(&row_places)?;
        let mut state = SolveState::new(stream, tree)?;
        state.refresh_symmetric(stream, tree, &row_places)?;
        Ok(Self {
            panels: stream.upload(panels)?,
            diagonal: stream.upload(&factors.d())?,
            state,
            vectors: Vectors::new(stream)?,
            elements: stream.alloc(0)?,
            tree: Arc::clone(tree),
        })
    }

    /// Enqueues a solve in place for `nrhs` right-hand sides of A's order, one after another.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If `x` has not n · `nrhs` values.
    #[track_caller]
    pub fn solve(
        &mut self,
        stream: &Stream,
        x: &mut Buffer<f64>,
        nrhs: usize,
        factors: SymmetricFactors,
    ) -> Result<(), DeviceFrontalError> {
        let solve = Solve {
            tree: &self.tree,
            panels: &self.panels,
            order: &self.state.order,
            kind: Kind::Symmetric {
                factors,
                diagonal: &self.diagonal,
            },
            scales: true,
        };
        solve.enqueue((&mut self.vectors, &mut self.elements), stream, x, nrhs)
    }
}
