//! Pivots of expected signs: what is expected, and which were replaced.

use std::sync::Arc;

use luge_device::{Buffer, DeviceError, Stream};
use luge_gpu_kernels::frontal::plan::{ExpectedPivotsBuffers, report as words};
use luge_sparse::num_traits::Float;
use luge_sparse::{PivotPolicy, RealScalar, Scalar};

use super::{DeviceFrontalLdlt, DeviceSymmetricQuality, Report};
use crate::gpu::launch::Workspace;
use crate::gpu::scalar::RealOf;
use crate::gpu::{DeviceFrontalError, DeviceScalar, DeviceTree, WideOf};
use crate::storage::{Lower, Storage};

/// By what the pivots of a matrix are replaced that have not the [expected sign](luge_sparse::PivotKind::Signed), on the device
/// in the order of elimination. Factors of several matrices may share it.
#[derive(Debug)]
pub struct ExpectedPivots<T: DeviceScalar> {
    pivots: Buffer<T>,
}

impl<T: DeviceScalar> ExpectedPivots<T> {
    /// Copies to the device what is `expected` of the pivot of each column of A.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Panics
    ///
    /// If there is not one number for each column, or one that is zero, subnormal or infinite as a `T`.
    #[track_caller]
    pub fn upload<S: Storage>(
        stream: &Stream,
        tree: &DeviceTree<S>,
        expected: &[f64],
    ) -> Result<Self, DeviceError> {
        let n = tree.columns.len();
        assert_eq!(expected.len(), n, "what is expected of each pivot");
        let of_column = |&column: &u32| RealOf::<T>::from_f64(expected[column as usize]);
        let pivots: Vec<RealOf<T>> = tree.columns.iter().map(of_column).collect();
        assert!(
            pivots.iter().all(|&pivot| Float::is_normal(pivot)),
            "pivots are expected to be normal numbers"
        );
        let pivots: Vec<T> = pivots.into_iter().map(Scalar::from_real).collect();
        let pivots = stream.upload(&pivots)?;
        Ok(Self { pivots })
    }

    /// Bytes on the device of what is expected of `n` pivots.
    pub fn bytes(n: usize) -> u64 {
        (n * size_of::<T>()) as u64
    }
}

/// What factors of pivots with expected signs have beside others.
#[derive(Debug)]
pub(super) struct Signs<T: DeviceScalar> {
    expected: Arc<ExpectedPivots<T>>,
    /// Pivots that the last launch replaced, as many as its report counts.
    replaced: Buffer<u32>,
    /// Columns of A whose pivots the last factorization that was reported replaced, ascending.
    columns: Vec<usize>,
}

impl<T: DeviceScalar> Signs<T> {
    fn new(stream: &Stream, expected: &Arc<ExpectedPivots<T>>) -> Result<Self, DeviceError> {
        Ok(Self {
            expected: Arc::clone(expected),
            replaced: stream.alloc(expected.pivots.len())?,
            columns: Vec::new(),
        })
    }

    /// Of other factors with the same pivots.
    pub fn beside(&self, stream: &Stream) -> Result<Self, DeviceError> {
        Self::new(stream, &self.expected)
    }

    /// What the kernel takes.
    pub fn buffers(&mut self) -> ExpectedPivotsBuffers<'_, T> {
        ExpectedPivotsBuffers {
            pivots: &self.expected.pivots,
            replaced: &mut self.replaced,
        }
    }
}

impl<T: DeviceScalar> DeviceFrontalLdlt<T> {
    /// Bytes on the device of which pivots of `n` were replaced, where signs are expected of them.
    pub fn signed_bytes(n: usize) -> u64 {
        (n * size_of::<u32>()) as u64
    }

    /// Factorizes B for the values `a` of A with pivots of order 1 in the order of the tree, each with the sign that is `expected`
    /// of it, in memory that was made for the same tree on the same stream. One launch; refactorizations by a policy of signed
    /// pivots are too.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::NotFinite`] for values or factors that are not finite; [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If `a` has fewer values than the placement of the tree refers to, `expected` is for another order, or the policy is not one
    /// of [signed](luge_sparse::PivotKind::Signed) pivots.
    #[track_caller]
    pub fn factorize_signed(
        workspace: &Arc<Workspace<T>>,
        stream: &Stream,
        tree: &Arc<DeviceTree<Lower>>,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
        expected: &Arc<ExpectedPivots<T>>,
    ) -> Result<(Self, DeviceSymmetricQuality), DeviceFrontalError> {
        assert!(super::is_signed(pivots), "a policy of signed pivots");
        let mut factors = Self::unfactorized(stream, tree, workspace)?;
        factors.signs = Some(Signs::new(stream, expected)?);
        let upload =
            |_: crate::gpu::MovedTree<'_, Lower>| unreachable!("columns stay in their places");
        let quality = factors.factorize_anew(stream, a, pivots, &upload)?;
        Ok((factors, quality))
    }

    /// Columns of A whose pivots were replaced because they had not the [expected sign](luge_sparse::PivotKind::Signed),
    /// ascending; `None` if no signs were expected.
    pub fn perturbed(&self) -> Option<&[usize]> {
        self.signs.as_ref().map(|signs| &signs.columns[..])
    }

    /// Fetches which pivots the last launch replaced.
    pub(super) fn note_replaced(
        &mut self,
        stream: &Stream,
        report: &Report,
    ) -> Result<(), DeviceError> {
        let count = report.count(words::NUM_PERTURBED);
        let Some(signs) = &mut self.signs else {
            return Ok(());
        };
        signs.columns.clear();
        if count > 0 {
            let pivots = stream.download(&signs.replaced.slice(0..count))?;
            let column = |pivot: u32| self.tree.columns[pivot as usize] as usize;
            signs.columns.extend(pivots.into_iter().map(column));
            signs.columns.sort_unstable();
        }
        Ok(())
    }
}
