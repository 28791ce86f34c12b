//! How large grids and blocks are on a device.

use luge_device::{Backend, Device, DeviceError, LaunchConfig};
use luge_kernel::host::KernelDesc;

/// The shape of launches on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Threads of a block, a multiple of 32.
    pub threads: u32,
    /// Threads of a block whose work is done one piece after another, a multiple of 32.
    pub wide_threads: u32,
    /// Blocks that fill the device.
    pub blocks: u32,
    /// Blocks of a persistent kernel: each of its barriers waits for all of them.
    pub persistent_blocks: u32,
}

impl Geometry {
    /// Eight blocks of 256 threads a multiprocessor on a GPU, two for persistent kernels; on the
    /// simulator three of two warps, enough for each kind of order between threads (lanes, warps,
    /// blocks) to matter.
    pub fn of(device: &Device) -> Self {
        let properties = device.properties();
        match properties.backend {
            Backend::Cuda => Self {
                threads: 256,
                wide_threads: 512,
                blocks: 8 * properties.num_sms,
                persistent_blocks: 2 * properties.num_sms,
            },
            Backend::Simulator => Self {
                threads: 64,
                wide_threads: 64,
                blocks: 3,
                persistent_blocks: 3,
            },
        }
    }

    /// A grid for `items` of which a block takes `per_block` at once: as many blocks as that needs,
    /// but no more than fill the device, and at least one.
    pub fn strided(&self, items: usize, per_block: usize) -> LaunchConfig {
        let needed = items.div_ceil(per_block.max(1)).max(1);
        let blocks = needed.min(self.blocks as usize);
        LaunchConfig::linear(blocks as u32, self.threads)
    }

    /// A grid of one thread an item.
    pub fn threads_for(&self, items: usize) -> LaunchConfig {
        self.strided(items, self.threads as usize)
    }

    /// A grid for the entries of a pattern, eight a thread.
    pub fn entries_for(&self, entries: usize) -> LaunchConfig {
        self.strided(entries, 8 * self.threads as usize)
    }

    /// A grid of one warp an item.
    pub fn warps_for(&self, items: usize) -> LaunchConfig {
        self.strided(items, self.threads as usize / 32)
    }

    /// A cooperative grid of one warp an item, for kernels with many barriers: fewer blocks than can be resident
    /// together.
    ///
    /// # Errors
    ///
    /// What asking for the residency of `kernel` may answer.
    pub fn persistent(
        &self,
        device: &Device,
        kernel: &'static KernelDesc,
        items: usize,
    ) -> Result<LaunchConfig, DeviceError> {
        let most = self.persistent_blocks;
        self.cooperative(device, kernel, self.warps_for(items).grid[0].min(most))
    }

    /// A cooperative grid of one thread an item, for kernels with few barriers: as many blocks as can be resident
    /// together.
    ///
    /// # Errors
    ///
    /// What asking for the residency of `kernel` may answer.
    pub fn persistent_threads(
        &self,
        device: &Device,
        kernel: &'static KernelDesc,
        items: usize,
    ) -> Result<LaunchConfig, DeviceError> {
        self.cooperative(device, kernel, self.threads_for(items).grid[0])
    }

    fn cooperative(
        &self,
        device: &Device,
        kernel: &'static KernelDesc,
        wanted: u32,
    ) -> Result<LaunchConfig, DeviceError> {
        let resident = device.max_resident_blocks(kernel, self.threads, 0)?.max(1);
        Ok(LaunchConfig::linear(wanted.min(resident), self.threads).cooperative())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_never_empty_and_never_larger_than_the_device() {
        let geometry = Geometry {
            threads: 64,
            wide_threads: 64,
            blocks: 3,
            persistent_blocks: 2,
        };
        assert_eq!(geometry.threads_for(0).grid, [1, 1, 1]);
        assert_eq!(geometry.threads_for(65).grid, [2, 1, 1]);
        assert_eq!(geometry.warps_for(5).grid, [3, 1, 1]);
        assert_eq!(geometry.warps_for(1 << 40).grid, [3, 1, 1]);
    }
}
