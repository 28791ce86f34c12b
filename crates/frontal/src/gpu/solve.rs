//! Solves with the factors.

use luge_device::{Buffer, LaunchConfig, Stream};
use luge_gpu_kernels::frontal::lu as kernels;
use luge_gpu_kernels::frontal::solve as solve_kernels;

use super::{DeviceFrontalError, DeviceFrontalLu, DeviceScalar};

impl<T: DeviceScalar> DeviceFrontalLu<T> {
    /// Solves A·X = R, or Aᵀ·X = R, in place, for `nrhs` right-hand sides of A's order, one after another.
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
        transpose: bool,
    ) -> Result<(), DeviceFrontalError> {
        let tree = &*self.tree;
        let host = &*tree.tree;
        let n = host.n();
        assert_eq!(x.len(), n * nrhs, "{nrhs} right-hand sides of length {n}");
        if x.is_empty() {
            return Ok(());
        }
        let (enter, leave) = if transpose {
            (&tree.columns, &tree.rows_of_a)
        } else {
            (&tree.rows_of_a, &tree.columns)
        };
        let given = stream.download(x)?;
        let eliminated: Vec<T> = given
            .chunks_exact(n)
            .flat_map(|column| {
                enter
                    .iter()
                    .map(|&old| luge_sparse::Scalar::from_f64(column[old as usize]))
            })
            .collect();
        let mut on_device = stream.upload(&eliminated)?;
        let mut carried = stream.alloc(nrhs * host.rows.len())?;
        let (mut queue, mut schedule) = tree.to_solve.schedule(stream)?;
        let device = stream.device();
        let threads = kernels::THREADS;
        let blocks = (host.num_supernodes() as u32).div_ceil(threads / 32);
        let kernel = solve_kernels::solve_fronts_up::desc::<T>();
        let resident = device.max_resident_blocks(kernel, threads, 0)?;
        let config = LaunchConfig::linear(blocks.min(resident.max(1)), threads).cooperative();
        // SAFETY: the factors are those of the tree; queue, schedule and `pending` are as the kernel wants them, the
        // last left so by the factorization.
        unsafe {
            solve_kernels::solve_fronts_up::launch::<T, _>(
                stream,
                &config,
                transpose.into(),
                nrhs as u32,
                &tree.to_solve.leaves,
                &tree.starts,
                &tree.below,
                &tree.parents,
                &tree.child_ptr,
                &tree.children,
                &tree.rows,
                &tree.relative,
                &tree.slots,
                &self.factors,
                &self.pivot_rows,
                &mut on_device,
                &mut carried,
                &mut self.pending,
                &mut queue,
                &mut schedule,
            )?;
        }
        let mut done = stream.alloc_zeroed::<u32>(host.num_supernodes())?;
        let mut taken = stream.alloc_zeroed::<u32>(1)?;
        let kernel = solve_kernels::solve_fronts_down::desc::<T>();
        let resident = device.max_resident_blocks(kernel, threads, 0)?;
        let config = LaunchConfig::linear(blocks.min(resident.max(1)), threads);
        // SAFETY: the factors are those of the tree; `done` and `taken` are zero.
        unsafe {
            solve_kernels::solve_fronts_down::launch::<T, _>(
                stream,
                &config,
                transpose.into(),
                nrhs as u32,
                &tree.starts,
                &tree.below,
                &tree.parents,
                &tree.rows,
                &tree.row_idx,
                &tree.slots,
                &self.factors,
                &self.pivot_rows,
                &mut on_device,
                &mut done,
                &mut taken,
            )?;
        }
        let solution = stream.download(&on_device)?;
        let mut found = given;
        for (column, solution) in found.chunks_exact_mut(n).zip(solution.chunks_exact(n)) {
            for (&old, &value) in leave.iter().zip(solution) {
                column[old as usize] = luge_sparse::Scalar::to_f64(value);
            }
        }
        stream.copy_from_host(x, &found)?;
        Ok(())
    }
}
