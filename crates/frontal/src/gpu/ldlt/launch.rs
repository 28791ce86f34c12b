//! The launches of LDLᵀ.

use std::ops::Range;

use luge_device::{Buffer, DeviceError, KernelDesc, LaunchConfig, Stream};
use luge_gpu_kernels::frontal::ldlt as kernels;
use luge_gpu_kernels::frontal::plan::SymmetricWorkBuffers;
use luge_sparse::Form;

use super::signs::Signs;
use crate::gpu::DeviceScalar;
use crate::gpu::launch::{Arguments, FrontKernels, Fronts, OwnValues};
use crate::gpu::scalar::RealOf;

/// How a launch comes by its pivots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It searches them.
    Search,
    /// They are known.
    Known,
    /// They are the diagonal, and have to be positive.
    Definite,
    /// They are the diagonal, each of the sign that is expected of it.
    Signed,
}

/// The kernels of LDLᵀ.
pub(super) struct LdltKernels<'a, T: DeviceScalar> {
    pub mode: Mode,
    pub form: Form,
    /// In fronts of one tile, and of several.
    pub known_l: [RealOf<T>; 2],
    pub diagonal: &'a mut Buffer<T>,
    pub found_places: &'a mut Buffer<u32>,
    pub signs: Option<&'a mut Signs<T>>,
}

impl<T: DeviceScalar> FrontKernels<T> for LdltKernels<'_, T> {
    type On<'b>
        = LdltKernels<'b, T>
    where
        Self: 'b;

    fn on<'b>(&'b self, there: &'b mut OwnValues<T>) -> LdltKernels<'b, T> {
        assert!(
            self.signs.is_none(),
            "what is expected of pivots is on one device"
        );
        LdltKernels {
            mode: self.mode,
            form: self.form,
            known_l: self.known_l,
            diagonal: &mut there.diagonal,
            found_places: &mut there.found_places,
            signs: None,
        }
    }

    fn fetch(
        &mut self,
        stream: &Stream,
        there: &OwnValues<T>,
        pivots: Range<usize>,
    ) -> Result<(), DeviceError> {
        let entries = 2 * pivots.start..2 * pivots.end;
        let from = there.diagonal.slice(entries.clone());
        stream.copy_across(&mut self.diagonal.slice_mut(entries), &from)?;
        if self.mode == Mode::Search {
            let from = there.found_places.slice(pivots.clone());
            stream.copy_across(&mut self.found_places.slice_mut(pivots), &from)?;
        }
        Ok(())
    }

    fn leave_panels(&self) -> bool {
        true
    }

    fn desc(&self, fronts: Fronts) -> Option<&'static KernelDesc> {
        (fronts == Fronts::Narrow).then(|| match self.mode {
            Mode::Search => kernels::ldlt_fronts_search::desc::<T>(),
            Mode::Known | Mode::Definite => kernels::ldlt_fronts::desc::<T>(),
            Mode::Signed => kernels::ldlt_fronts_signed::desc::<T>(),
        })
    }

    unsafe fn launch(
        &mut self,
        stream: &Stream,
        config: &LaunchConfig,
        fronts: Fronts,
        arguments: Arguments<'_, T>,
    ) -> Result<(), DeviceError> {
        assert_eq!(
            fronts,
            Fronts::Narrow,
            "fronts of a symmetric matrix have one kernel"
        );
        let Arguments { work, small, large } = arguments;
        let symmetric = SymmetricWorkBuffers {
            known_l: self.known_l[0],
            known_l_of_tile: self.known_l[1],
            definite: (self.mode == Mode::Definite).into(),
            hermitian: (self.form == Form::Hermitian).into(),
            diagonal: &mut *self.diagonal,
            found_places: &mut *self.found_places,
        };
        // SAFETY: the caller's contract.
        unsafe {
            match (self.mode, &mut self.signs) {
                (Mode::Search, _) => kernels::ldlt_fronts_search::launch::<T, _>(
                    stream, config, work, symmetric, small, large,
                ),
                (Mode::Signed, Some(signs)) => kernels::ldlt_fronts_signed::launch::<T, _>(
                    stream,
                    config,
                    work,
                    symmetric,
                    signs.buffers(),
                    small,
                    large,
                ),
                _ => kernels::ldlt_fronts::launch::<T, _>(
                    stream, config, work, symmetric, small, large,
                ),
            }
        }
    }
}
