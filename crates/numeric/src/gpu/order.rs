//! The order in which updates are added where factors must be the same bits in every run.

use luge_device::{Buffer, DeviceError, Stream};
use luge_gpu_kernels::numeric::ordered::UpdatesBuffers;
use luge_levelize::gpu::DeviceLevels;
use luge_symbolic::gpu::DeviceFilled;

use super::mapping::TargetWork;

/// The entries of U above the diagonal, by the level of their row, then by column, then by row: what each column of
/// a level's sub-columns gets, on the host.
///
/// ```text
/// target_ptr    | level 0 ..                | level 1 ..       by level
/// target_cols   | j0        | j1 | j2       | ..               columns that are updated
/// updates       | k0 k1 k2  | k0 | k1 k3    | ..               positions of U(k, j), at update_ptr
/// ```
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UpdateOrder {
    pub target_ptr: Vec<u64>,
    pub target_cols: Vec<u32>,
    pub update_ptr: Vec<u64>,
    pub updates: Vec<u64>,
    /// One for each level.
    pub work: Vec<TargetWork>,
}

impl UpdateOrder {
    /// Of a pattern whose columns are sorted. One pass over the entries of U; `level_of[k]` < `num_levels`.
    pub fn new(col_ptr: &[u64], row_idx: &[u32], level_of: &[u32], num_levels: usize) -> Self {
        let n = level_of.len();
        let diagonals: Vec<u64> = (0..n)
            .map(|j| {
                let column = &row_idx[col_ptr[j] as usize..col_ptr[j + 1] as usize];
                col_ptr[j] + column.partition_point(|&i| (i as usize) < j) as u64
            })
            .collect();
        let level_at = |p: u64| level_of[row_idx[p as usize] as usize] as usize;
        let mut next = vec![0u64; num_levels + 1];
        for j in 0..n {
            for p in col_ptr[j]..diagonals[j] {
                next[level_at(p) + 1] += 1;
            }
        }
        for level in 0..num_levels {
            next[level + 1] += next[level];
        }
        let starts = next.clone();
        // Columns are visited in increasing order, and so are the rows of each, so that order holds within a level.
        let mut updates = vec![0; starts[num_levels] as usize];
        let mut cols = vec![0u32; updates.len()];
        for j in 0..n {
            for p in col_ptr[j]..diagonals[j] {
                let at = &mut next[level_at(p)];
                updates[*at as usize] = p;
                cols[*at as usize] = j as u32;
                *at += 1;
            }
        }
        let mut order = Self {
            target_ptr: vec![0],
            ..Self::default()
        };
        for level in starts.windows(2) {
            let mut work = TargetWork::default();
            let range = level[0] as usize..level[1] as usize;
            for at in range.clone() {
                let j = cols[at] as usize;
                if at == range.start || cols[at - 1] != cols[at] {
                    order.target_cols.push(cols[at]);
                    order.update_ptr.push(at as u64);
                    work.targets += 1;
                    work.spread += col_ptr[j + 1] - updates[at] - 1;
                }
                let k = row_idx[updates[at] as usize] as usize;
                work.updates += 1;
                work.rows += col_ptr[k + 1] - diagonals[k] - 1;
            }
            order.target_ptr.push(order.target_cols.len() as u64);
            order.work.push(work);
        }
        order.update_ptr.push(updates.len() as u64);
        order.updates = updates;
        order
    }

    /// That of a pattern on the device, which is copied to the host for it.
    pub fn of(
        stream: &Stream,
        filled: &DeviceFilled,
        levels: &DeviceLevels,
    ) -> Result<Self, DeviceError> {
        Ok(Self::new(
            &stream.download(filled.col_ptr())?,
            &stream.download(filled.row_idx())?,
            &stream.download(levels.level_of())?,
            levels.num_levels() as usize,
        ))
    }

    /// Bytes of it on the device.
    pub fn bytes(&self) -> u64 {
        let words = self.target_ptr.len() + self.update_ptr.len() + self.updates.len();
        8 * words as u64 + 4 * self.target_cols.len() as u64
    }

    pub fn upload(&self, stream: &Stream) -> Result<DeviceOrder, DeviceError> {
        Ok(DeviceOrder {
            target_ptr: stream.upload(&self.target_ptr)?,
            target_cols: stream.upload(&self.target_cols)?,
            update_ptr: stream.upload(&self.update_ptr)?,
            updates: stream.upload(&self.updates)?,
        })
    }
}

/// An [`UpdateOrder`] on the device.
#[derive(Debug)]
pub(super) struct DeviceOrder {
    pub target_ptr: Buffer<u64>,
    pub target_cols: Buffer<u32>,
    pub update_ptr: Buffer<u64>,
    pub updates: Buffer<u64>,
}

impl DeviceOrder {
    /// The order as the kernel takes it.
    pub fn buffers(&self) -> UpdatesBuffers<'_> {
        UpdatesBuffers {
            target_ptr: &self.target_ptr,
            target_cols: &self.target_cols,
            update_ptr: &self.update_ptr,
            updates: &self.updates,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_grouped_by_level_and_column() {
        // Columns 0 and 1 are in level 0 and update columns 2 and 3; column 2, in level 1, updates column 3.
        //   x . x x
        //   . x x x
        //   x x x x
        //   . . x x
        let col_ptr = [0, 2, 4, 8, 12];
        let row_idx = [0, 2, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3];
        let order = UpdateOrder::new(&col_ptr, &row_idx, &[0, 0, 1, 2], 3);
        assert_eq!(order.updates, [4, 5, 8, 9, 10]);
        assert_eq!(order.update_ptr, [0, 2, 4, 5]);
        assert_eq!(order.target_cols, [2, 3, 3]);
        assert_eq!(order.target_ptr, [0, 2, 3, 3]);
        let work = TargetWork {
            targets: 2,
            updates: 4,
            rows: 4,
            spread: 6,
        };
        assert_eq!(order.work[0], work);
        assert_eq!(order.work[2], TargetWork::default());
    }

    #[test]
    fn nothing_has_no_updates() {
        let order = UpdateOrder::new(&[0], &[], &[], 0);
        assert_eq!((order.target_ptr, order.update_ptr), (vec![0], vec![0]));
    }
}
