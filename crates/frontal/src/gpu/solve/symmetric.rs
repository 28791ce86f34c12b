//! Solves with factors of a symmetric matrix, made on the device or by the CPU.

use std::sync::Arc;

use luge_dense::FrontalScalar;
use luge_device::{Buffer, BufferViewMut, Stream};

use super::{Kind, Solve, SymmetricFactors, Vectors, invert_places};
use crate::gpu::{DeviceFrontalError, DeviceFrontalLdlt, DeviceScalar, DeviceTree, WideOf};
use crate::ldlt::FrontalLdlt;
use crate::storage::Lower;

impl<T: DeviceScalar> DeviceFrontalLdlt<T> {
    /// Enqueues a solve of A·X = R in place, for `nrhs` right-hand sides of A's order, one after another.
    ///
    /// Right-hand sides may be of any magnitude. The unknown of a zero pivot is zero before the substitution with Lᵀ, so
    /// a consistent singular system is solved. The bits of a solution depend on the factors, its right-hand side and
    /// whether it comes alone. Nothing is waited for: errors of the device may come later.
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
        x: &mut impl BufferViewMut<WideOf<T>>,
        nrhs: usize,
    ) -> Result<(), DeviceFrontalError> {
        self.solve_in_workspace(stream, x, nrhs, SymmetricFactors::ALL, true)
    }

    /// As [`solve`](Self::solve), with some of the factors of the scaled matrix: right-hand sides are scaled if L is among
    /// them, and solutions if Lᵀ is.
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// As [`solve`](Self::solve).
    #[track_caller]
    pub fn solve_with(
        &mut self,
        stream: &Stream,
        x: &mut impl BufferViewMut<WideOf<T>>,
        nrhs: usize,
        factors: SymmetricFactors,
    ) -> Result<(), DeviceFrontalError> {
        self.solve_in_workspace(stream, x, nrhs, factors, true)
    }

    /// As [`solve_with`](Self::solve_with) for one right-hand side, with the scaled matrix, its rows and columns in the order of A.
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// As [`solve`](Self::solve).
    #[track_caller]
    pub fn solve_scaled(
        &mut self,
        stream: &Stream,
        x: &mut impl BufferViewMut<WideOf<T>>,
        factors: SymmetricFactors,
    ) -> Result<(), DeviceFrontalError> {
        self.solve_in_workspace(stream, x, 1, factors, false)
    }

    #[track_caller]
    fn solve_in_workspace(
        &mut self,
        stream: &Stream,
        x: &mut impl BufferViewMut<WideOf<T>>,
        nrhs: usize,
        factors: SymmetricFactors,
        scales: bool,
    ) -> Result<(), DeviceFrontalError> {
        self.take_memory(stream)?;
        let solve = Solve {
            tree: &self.tree,
            panels: &mut self.panels.factors,
            stored_panels: self.panels.stored.as_mut(),
            order: &self.panels.order,
            kind: Kind::Symmetric {
                factors,
                diagonal: &self.panels.diagonal,
            },
            scales,
        };
        solve.enqueue(self.workspace.lock().memory(), stream, x.view_mut(), nrhs)
    }
}

/// Factors L·D·Lᵀ from the CPU on the device, which solves as with those that the device makes: what tests of the solves
/// compare.
#[doc(hidden)]
#[derive(Debug)]
pub struct UploadedLdlt<T: DeviceScalar> {
    tree: Arc<DeviceTree<Lower>>,
    panels: Buffer<T>,
    diagonal: Buffer<T>,
    order: Buffer<u32>,
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
        let mut order = stream.alloc(row_places.len())?;
        invert_places(stream, tree, &row_places, &mut order)?;
        Ok(Self {
            panels: stream.upload(panels)?,
            diagonal: stream.upload(&factors.d())?,
            order,
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
        x: &mut impl BufferViewMut<WideOf<T>>,
        nrhs: usize,
        factors: SymmetricFactors,
    ) -> Result<(), DeviceFrontalError> {
        let solve = Solve {
            tree: &self.tree,
            panels: &mut self.panels,
            stored_panels: None,
            order: &self.order,
            kind: Kind::Symmetric {
                factors,
                diagonal: &self.diagonal,
            },
            scales: true,
        };
        let memory = (&mut self.vectors, &mut self.elements);
        solve.enqueue(memory, stream, x.view_mut(), nrhs)
    }
}
