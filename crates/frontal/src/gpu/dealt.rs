//! One tree on several devices: whole subtrees on each, and what is above them on the first.
//!
//! A factorization begins on all devices at once. Those but the first are sent the values of A and the pivots that are known;
//! when their subtrees are done they send the elements of the roots, for which the first device has places, and then the
//! factors, while the first device goes on above. So the factors are where those of one device are, with the same bits, and
//! solves know nothing of other devices. What is sent crosses by copies between two devices, in the order of the sender's
//! stream; events order the two.

use std::ops::Range;

use luge_device::{Buffer, DeviceError, Event, Slice, Stream, Uploads};
use luge_gpu_kernels::frontal::plan::element_entries;

use super::DeviceScalar;
use super::launch::{Counted, FrontKernels, Launches, OwnValues, Results, Rule};
use super::mapping::Mapping;
use super::memory::MemoryPlan;
use super::plan::{Plan, Source};
use super::scalar::{RealOf, WideOf};
use super::tree::DevicePlan;
use crate::portion::{Portion, Slots};
use crate::shares::{both, mapped};
use crate::storage::Storage;
use crate::symbolic::Symbolic;
use crate::tree::AssemblyTree;

/// The subtrees of one device.
#[derive(Debug)]
pub(super) struct Part {
    /// Number of the device in its group.
    pub device: usize,
    /// A stream of it, if it is not the first.
    pub peer: Option<Stream>,
    pub plan: DevicePlan,
    pub subtrees: Vec<Subtree>,
    /// Entries of its factors.
    pub slots: usize,
}

/// A subtree on one device, and what it leaves.
#[derive(Debug)]
pub(super) struct Subtree {
    root: u32,
    pub pivots: Range<usize>,
    /// Where its factors are among those of the whole tree, and among those of the part.
    slots: [Range<usize>; 2],
    /// Where its element is for what is above, and in the part. Of a root of the whole tree it has no entry.
    element: [Range<usize>; 2],
}

/// What a part works in.
#[derive(Debug)]
pub(super) struct PartMemory<T: DeviceScalar> {
    pub counted: Counted<T>,
    /// On another device than the first.
    there: Option<There<T>>,
}

#[derive(Debug)]
struct There<T: DeviceScalar> {
    values: Buffer<WideOf<T>>,
    factors: Buffer<T>,
    pivot_rows: Buffer<u32>,
    row_places: Buffer<u32>,
    own: OwnValues<T>,
    /// Of the first device: what is sent may be read.
    ready: Event,
    /// Of the other one: elements have been sent, and all else too.
    elements_sent: Event,
    all_sent: Event,
}

/// The plans of a tree that is dealt out: what is above the subtrees, and the parts.
pub(super) struct DealtPlan {
    pub above: DevicePlan,
    pub parts: Vec<Part>,
}

impl DealtPlan {
    /// Plans all parts, and copies each plan to its device; `peers` are streams of all but the first.
    pub fn upload<S: Storage>(
        (stream, peers): (&Stream, &[Stream]),
        symbolic: &Symbolic<S>,
        mapping: &Mapping,
        source: Source<'_>,
        memory: &MemoryPlan,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        let whole = symbolic.tree_and_layout();
        let fronts = whole.0.fronts();
        let devices: Vec<usize> = mapping
            .roots
            .iter()
            .enumerate()
            .flat_map(|(device, roots)| roots.iter().map(move |_| device))
            .collect();
        let subtrees = whole.0.subtrees(mapping.roots.iter().flatten().copied());
        let device_of = |s: usize| subtrees[s].map(|number| devices[number as usize]);
        let all = 0..whole.0.num_supernodes();
        let planned = |portion: &Portion, stream: &Stream| {
            let (limits, costs) = (memory.limits, memory.costs);
            let memory = MemoryPlan::of_tree::<S>(&portion.tree, limits, costs, threads);
            let plan = Plan::new::<S>((&portion.tree, &portion.layout), source, &memory, threads);
            let mut uploads = Uploads::new(stream);
            let on_device = DevicePlan::upload(&mut uploads, &plan, &portion.tree.relative)?;
            uploads.finish_on(threads)?;
            Ok::<_, DeviceError>((on_device, memory))
        };
        let place = |portion: &Portion, memory: &MemoryPlan, root: u32| {
            let number = portion.fronts.binary_search(&root).ok();
            number.map_or(0, |number| memory.elements.place[number] as usize)
        };
        let above = || {
            let above = Portion::new(whole, all.clone(), |s| device_of(s).is_none(), Slots::Whole);
            let (plan, memory) = planned(&above, stream)?;
            Ok::<_, DeviceError>((above, plan, memory))
        };
        let part = |(device, roots): (usize, &Vec<u32>)| {
            let peer = device.checked_sub(1).map(|number| peers[number].clone());
            let slots = peer.as_ref().map_or(Slots::Whole, |_| Slots::Own);
            let portion = Portion::new(whole, all.clone(), |s| device_of(s) == Some(device), slots);
            let (plan, memory) = planned(&portion, peer.as_ref().unwrap_or(stream))?;
            let subtree = |&root: &u32| {
                let first = first_of_subtree(whole.0, root) as usize;
                let slot = &whole.1.slot;
                let slots = slot[first] as usize..slot[root as usize + 1] as usize;
                let number = portion.fronts.partition_point(|&s| (s as usize) < first);
                let own = portion.layout.slot[number] as usize;
                let below = fronts[root as usize].below;
                let entries = element_entries(S::SYMMETRIC, below) as usize;
                let from = place(&portion, &memory, root);
                Subtree {
                    root,
                    pivots: fronts[first].start as usize..fronts[root as usize].pivot_range().end,
                    slots: [slots.clone(), own..own + slots.len()],
                    element: [0..entries, from..from + entries],
                }
            };
            Ok::<_, DeviceError>(Part {
                device,
                subtrees: roots.iter().map(subtree).collect(),
                slots: portion.layout.slots as usize,
                plan,
                peer,
            })
        };
        let busy = mapping.roots.iter().enumerate();
        let busy = busy.filter(|(_, roots)| !roots.is_empty()).collect();
        let parts = || {
            let planned = if threads > 1 {
                mapped(busy, part)
            } else {
                Vec::into_iter(busy).map(part).collect()
            };
            planned.into_iter().collect::<Result<Vec<_>, _>>()
        };
        let (above, parts) = both(threads, above, parts);
        let (above, above_plan, above_memory) = above?;
        let mut parts = parts?;
        for subtree in parts.iter_mut().flat_map(|part| &mut part.subtrees) {
            let place = place(&above, &above_memory, subtree.root);
            let [to, _] = &mut subtree.element;
            *to = place..place + to.len();
        }
        Ok(Self {
            above: above_plan,
            parts,
        })
    }
}

/// The first front of a subtree in postorder: the leaf that first children lead to.
fn first_of_subtree(tree: &AssemblyTree, root: u32) -> u32 {
    let child = |&s: &u32| tree.children(s as usize).first().copied();
    std::iter::successors(Some(root), child)
        .last()
        .unwrap_or(root)
}

impl<T: DeviceScalar> PartMemory<T> {
    /// For factors of order `n`, the first device's being those of `stream`.
    pub fn new<S: Storage>(stream: &Stream, part: &Part, n: usize) -> Result<Self, DeviceError> {
        let Some(peer) = &part.peer else {
            return Ok(Self {
                counted: Counted::new(stream, &part.plan, n)?,
                there: None,
            });
        };
        let of_symmetric = if S::SYMMETRIC { n } else { 0 };
        Ok(Self {
            counted: Counted::new(peer, &part.plan, n)?,
            there: Some(There {
                values: peer.alloc(0)?,
                // Of a symmetric matrix nobody writes the tiles above the diagonal.
                factors: peer.alloc_zeroed(part.slots)?,
                pivot_rows: peer.alloc_zeroed(n)?,
                row_places: peer.alloc_zeroed(n)?,
                own: OwnValues {
                    diagonal: peer.alloc_zeroed(2 * of_symmetric)?,
                    found_places: peer.alloc_zeroed(of_symmetric)?,
                },
                ready: stream.device().create_event()?,
                elements_sent: peer.device().create_event()?,
                all_sent: peer.device().create_event()?,
            }),
        })
    }
}

/// A factorization whose parts are to be enqueued.
pub(super) struct DealtOut<'a, T: DeviceScalar> {
    pub parts: &'a [Part],
    pub memory: &'a mut [PartMemory<T>],
    /// Values of A, as many as are needed.
    pub values: &'a Buffer<WideOf<T>>,
    pub num_values: usize,
    pub rule: Rule<RealOf<T>>,
}

impl<T: DeviceScalar> DealtOut<'_, T> {
    /// Enqueues all parts, and behind them what `launch` enqueues above them, in `above`.
    pub fn enqueue<K: FrontKernels<T>>(
        mut self,
        stream: &Stream,
        above: &mut Counted<T>,
        results: &mut Results<'_, T>,
        kernels: &mut K,
        launch: impl FnOnce(&mut Counted<T>, &mut Results<'_, T>, &mut K) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let enqueued = self
            .enqueue_parts(stream, above, results, kernels)
            .and_then(|()| launch(above, results, kernels));
        // Even after an error: what others write here is written before anything that comes later.
        for (part, memory) in self.parts.iter().zip(&*self.memory) {
            if let (Some(peer), Some(there)) = (&part.peer, &memory.there) {
                peer.record(&there.all_sent)?;
                stream.wait(&there.all_sent)?;
            }
        }
        enqueued
    }

    fn enqueue_parts<K: FrontKernels<T>>(
        &mut self,
        stream: &Stream,
        above: &mut Counted<T>,
        results: &mut Results<'_, T>,
        kernels: &mut K,
    ) -> Result<(), DeviceError> {
        let (values, rule) = (self.values, self.rule);
        let sent = values.slice(..self.num_values);
        for (part, memory) in self.parts.iter().zip(&mut *self.memory) {
            let PartMemory { counted, there } = memory;
            if let (Some(peer), Some(there)) = (&part.peer, there) {
                stream.record(&there.ready)?;
                peer.wait(&there.ready)?;
                part.launch_there(peer, (counted, there), (&sent, rule), results, kernels)?;
                part.send(peer, (counted, there), above, results, kernels)?;
            }
        }
        for (part, memory) in self.parts.iter().zip(&mut *self.memory) {
            if part.peer.is_none() {
                let launches = Launches {
                    plan: &part.plan,
                    values,
                    rule,
                    counted: &mut memory.counted,
                    results: results.reborrow(),
                };
                launches.enqueue(stream, kernels)?;
                for Subtree { element, .. } in &part.subtrees {
                    let [to, from] = element.clone();
                    let from = memory.counted.elements.slice(from);
                    stream.copy(&mut above.elements.slice_mut(to), &from)?;
                }
            }
        }
        for memory in &*self.memory {
            if let Some(there) = &memory.there {
                stream.wait(&there.elements_sent)?;
            }
        }
        Ok(())
    }
}

impl Part {
    /// Sends what the launches on another device need, and enqueues them there.
    fn launch_there<T: DeviceScalar, K: FrontKernels<T>>(
        &self,
        peer: &Stream,
        (counted, there): (&mut Counted<T>, &mut There<T>),
        (values, rule): (&Slice<'_, WideOf<T>>, Rule<RealOf<T>>),
        results: &Results<'_, T>,
        kernels: &K,
    ) -> Result<(), DeviceError> {
        if there.values.len() != values.len() {
            there.values = peer.alloc(values.len())?;
        }
        peer.copy_across(&mut there.values, values)?;
        for Subtree { pivots, .. } in &self.subtrees {
            for (to, from) in [
                (&mut there.pivot_rows, &*results.pivot_rows),
                (&mut there.row_places, &*results.row_places),
            ] {
                let from = from.slice(pivots.clone());
                peer.copy_across(&mut to.slice_mut(pivots.clone()), &from)?;
            }
        }
        let launches = Launches {
            plan: &self.plan,
            values: &there.values,
            rule,
            counted,
            results: Results {
                factors: &mut there.factors,
                pivot_rows: &mut there.pivot_rows,
                row_places: &mut there.row_places,
                stored_panels: None,
            },
        };
        launches.enqueue(peer, &mut kernels.on(&mut there.own))
    }

    /// Enqueues what another device sends to the first: elements, then all else.
    fn send<T: DeviceScalar, K: FrontKernels<T>>(
        &self,
        peer: &Stream,
        (counted, there): (&Counted<T>, &There<T>),
        above: &mut Counted<T>,
        results: &mut Results<'_, T>,
        kernels: &mut K,
    ) -> Result<(), DeviceError> {
        for Subtree { element, .. } in &self.subtrees {
            let [to, from] = element.clone();
            let from = counted.elements.slice(from);
            peer.copy_across(&mut above.elements.slice_mut(to), &from)?;
        }
        peer.record(&there.elements_sent)?;
        for Subtree { pivots, slots, .. } in &self.subtrees {
            let [to, from] = slots.clone();
            let from = there.factors.slice(from);
            peer.copy_across(&mut results.factors.slice_mut(to), &from)?;
            for (to, from) in [
                (&mut *results.pivot_rows, &there.pivot_rows),
                (&mut *results.row_places, &there.row_places),
            ] {
                let from = from.slice(pivots.clone());
                peer.copy_across(&mut to.slice_mut(pivots.clone()), &from)?;
            }
            kernels.fetch(peer, &there.own, pivots.clone())?;
        }
        Ok(())
    }
}
