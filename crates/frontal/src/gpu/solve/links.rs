//! Who works on what in the links of a tree, one after the other.

use luge_device::{DeviceError, RecordBuffer, Stream, Uploads};
use luge_gpu_kernels::frontal::solve::layout::{Level, ListsBuffers};

use super::plan::{DeviceLists, Lists};
use crate::gpu::cost::DeviceCosts;
use crate::tree::AssemblyTree;

/// What is done on one link of a tree: in one launch on the way up, in another on the way down.
#[derive(Debug, PartialEq)]
pub(super) struct LinkRecords {
    /// With the level of a way up.
    lists: Lists,
    down: Vec<Level>,
}

/// [`LinkRecords`] on the device.
#[derive(Debug)]
pub(super) struct LinkLists {
    lists: DeviceLists,
    down: RecordBuffer<Level>,
    down_on_host: Vec<Level>,
}

impl LinkLists {
    pub fn upload<'a>(
        uploads: &mut Uploads<'a>,
        link: &'a LinkRecords,
        costs: &DeviceCosts,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            lists: DeviceLists::upload(uploads, &link.lists, costs)?,
            down: uploads.add_records(&link.down)?,
            down_on_host: link.down.clone(),
        })
    }

    /// The lists of the way up, or of the way down.
    pub fn buffers(&self, up: bool) -> ListsBuffers<'_> {
        let lists = self.lists.buffers();
        if up {
            return lists;
        }
        ListsBuffers {
            levels: &self.down,
            ..lists
        }
    }

    /// Likewise those for several right-hand sides.
    pub fn shares(
        &self,
        stream: &Stream,
        tree: &AssemblyTree,
        of_thread: usize,
        up: bool,
    ) -> Result<ListsBuffers<'_>, DeviceError> {
        let shares = self
            .lists
            .shares(stream, tree, of_thread, Some(&self.down_on_host))?;
        Ok(shares.in_place(self.lists.buffers(), up))
    }
}

impl Lists {
    /// Those of each level by themselves, none of which has couplings.
    pub fn links(&self) -> Vec<LinkRecords> {
        let mut begin = Level::default();
        let links = self.levels.iter().map(|&end| {
            let from = std::mem::replace(&mut begin, end);
            fn of<V: Clone>(all: &[V], begin: u32, end: u32) -> Vec<V> {
                all[begin as usize..end as usize].to_vec()
            }
            let mut lists = Self {
                levels: Vec::new(),
                warps_up: of(&self.warps_up, from.warps_up, end.warps_up),
                warps_down: of(&self.warps_down, from.warps_down, end.warps_down),
                blocks_up: of(&self.blocks_up, from.blocks_up, end.blocks_up),
                blocks_down: of(&self.blocks_down, from.blocks_down, end.blocks_down),
                singles: of(&self.singles, from.singles, end.singles),
                coupled: Vec::new(),
                segments: Vec::new(),
                coupled_idx: Vec::new(),
                coupled_entries: Vec::new(),
            };
            // Fronts of one pivot are done with on the way up.
            lists.levels.push(Level {
                warps_up: lists.warps_up.len() as u32,
                blocks_up: lists.blocks_up.len() as u32,
                singles: lists.singles.len() as u32,
                ..Level::default()
            });
            let down = vec![Level {
                warps_down: lists.warps_down.len() as u32,
                blocks_down: lists.blocks_down.len() as u32,
                ..Level::default()
            }];
            LinkRecords { lists, down }
        });
        links.collect()
    }
}

/// A pass over one link: its number, and whether it is upwards.
pub(super) type Pass = (usize, bool);

/// The passes of a solve: up through the links from the first to the last, and down again.
pub(super) fn passes(links: usize) -> impl Iterator<Item = Pass> {
    let up = (0..links).map(|link| (link, true));
    up.chain((0..links).rev().map(|link| (link, false)))
}
