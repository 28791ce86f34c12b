//! Where the plan of a tree goes: to the devices of a group, to one, or there in links where it has no room for the factors.

use luge_device::{DeviceError, Stream};
use luge_frontal::Storage;
use luge_frontal::gpu::{DeviceTree, Mapping, Room};

use crate::backend::gpu::GpuBackend;
use crate::device_forest::Forest;
use crate::error::Error;
use crate::options::DealOut;

/// How often a tree is divided anew where its plan leaves too little.
const ATTEMPTS: usize = 4;

/// A plan on devices.
pub(crate) struct Uploaded<S: Storage> {
    pub tree: DeviceTree<S>,
    /// What there is room for, if the tree is in links because there is none for all.
    pub room: Option<Room>,
    /// How much faster a group is predicted to be than one device, where it can be.
    pub predicted_speedup: Option<f64>,
}

impl<S: Storage> Uploaded<S> {
    /// The plan on the devices of a group, if its subtrees are to be dealt out and there is room for that; else on the first,
    /// and if there is no room, in links.
    pub(crate) fn new(
        forest: &Forest<S>,
        backend: &GpuBackend,
        count: usize,
    ) -> Result<Self, Error> {
        let in_symbolic = |e| Error::from_device(e, "symbolic");
        let stream = backend.stream();
        // Before any plan is there, for the predictions count it.
        let available: Vec<u64> = std::iter::once(backend.available_bytes())
            .chain(backend.peers().iter().map(|peer| peer.available_bytes()))
            .collect::<Result<_, _>>()?;
        let mapping = forest.mapping(1 + backend.peers().len());
        let speedup = mapping.as_ref().map(Mapping::speedup);
        let wanted = mapping.filter(|mapping| match backend.deal_out() {
            DealOut::Auto => mapping.pays(),
            DealOut::Never => false,
            DealOut::Always => true,
        });
        if let Some(mapping) = wanted {
            let peers: Vec<Stream> = backend
                .peers()
                .iter()
                .map(|peer| peer.stream().clone())
                .collect();
            let dealt = forest
                .upload_dealt(&mapping, (stream, &peers), count)
                .map_err(in_symbolic)?;
            let of_peers = dealt.bytes_of_peers(forest.value_bytes());
            let has_room = std::iter::once((0, forest.device_bytes_of(&dealt)))
                .chain(of_peers)
                .all(|(device, bytes)| bytes <= available[device]);
            if has_room {
                return Ok(Self {
                    tree: dealt,
                    room: None,
                    predicted_speedup: speedup,
                });
            }
        }
        let [asked, on_first] = [forest.device_bytes(), available[0]];
        let out_of_memory = Error::OutOfMemory {
            asked,
            available: on_first,
            phase: "numeric",
        };
        let mut room = None;
        if asked > on_first {
            let bytes = forest.room_for_links(on_first);
            let bytes = bytes.filter(|_| backend.host_factors());
            let peers = backend.peers().iter().zip(&available[1..]);
            let peers = peers.map(|(peer, &bytes)| (peer.stream().clone(), bytes));
            room = bytes.map(|bytes| Room {
                bytes,
                peers: peers.collect(),
            });
            if room.is_none() {
                return Err(out_of_memory);
            }
        }
        let plan = (&forest.symbolic, &forest.memory);
        for _ in 0..ATTEMPTS {
            let tree = match forest.upload(plan, room.as_ref(), stream, count) {
                Ok(tree) => tree,
                // Not even the largest front has room.
                Err(DeviceError::OutOfMemory { .. }) if room.is_some() => break,
                Err(e) => return Err(in_symbolic(e)),
            };
            if let Some(room) = &mut room {
                // Plans of many links may take more than is predicted of one, so what there is counts.
                let missing = forest
                    .bytes_beside_plan(&tree)
                    .saturating_sub(backend.available_bytes()?);
                if missing > 0 {
                    room.bytes = room.bytes.saturating_sub(missing);
                    continue;
                }
            }
            return Ok(Self {
                tree,
                room,
                predicted_speedup: speedup,
            });
        }
        Err(out_of_memory)
    }
}
