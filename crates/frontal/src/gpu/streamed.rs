//! Factors that a device has no room for: the tree in links, one after the other in the same memory.
//!
//! A link is factorized as a tree of its own, with the elements of earlier links that it needs given (see
//! [`Portion`]). What it leaves is sent away: the panels of its factors to another device of the group that has room, else to
//! page-locked memory of the host; and to the host the elements that later links need. A solve goes up through the links from the first to the last, and down again; each time the panels
//! come back, but for the last link's. Panels cross while another link is worked with. So on the device there is memory for the
//! panels of two links and the elements of one, whichever takes most; what has a place for each pivot or for each row of a front stays there for all of them. (What is written to
//! secondary storage, and read twice for a solve, is that of I. S. Duff, "MA32: a package for solving sparse unsymmetric
//! systems using the frontal method", AERE R-10079, 1981.)
//!
//! Every front is worked on as it is without links, so factors and solutions have the same bits.

use std::borrow::Cow;
use std::ops::Range;

use luge_device::{Buffer, DeviceError, Event, PinnedBuffer, Slice, SliceMut, Stream, Uploads};
use luge_gpu_kernels::frontal::plan::element_entries;

use super::DeviceScalar;
use super::classes::FrontClass;
use super::launch::{Counted, FrontKernels, Launches, Results, Rule};
use super::memory::{MemoryPlan, counted_bytes};
use super::plan::{Plan, Source};
use super::scalar::{RealOf, WideOf};
use super::solve::solve_entries;
use super::tree::DevicePlan;
use crate::portion::{Portion, Slots};
use crate::storage::Storage;
use crate::symbolic::Symbolic;
use crate::tree::Front;

/// Bounds on what a link takes that are tried, and by how much each is below the one before, in percent.
const ATTEMPTS: u32 = 24;
const STEP: u64 = 80;

/// What there is room for of factors that have none on a device as a whole.
#[derive(Debug, Clone)]
pub struct Room {
    /// Bytes of the device for panels and elements.
    pub bytes: u64,
    /// Bytes of other devices for panels, each with a stream of the device.
    pub peers: Vec<(Stream, u64)>,
}

/// Which link each front of a tree is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    pub(super) link_of: Vec<u32>,
    links: u32,
    /// The fronts of each link and the children of theirs in others, ascending, and where these lists end.
    members: Vec<u32>,
    ends: Vec<usize>,
    /// Most entries of the panels of a link, and of its elements.
    pub(super) panel_entries: u64,
    pub(super) element_entries: u64,
}

impl Division {
    /// Of links that each front is in, whose sizes are not known yet.
    fn new(fronts: &[Front], link_of: Vec<u32>, links: u32) -> Self {
        // A front is in its own link, and perhaps in that of its parent.
        let links_of = |s: usize| {
            let own = link_of[s];
            let above = link_of.get(fronts[s].parent as usize).copied();
            [Some(own), above.filter(|&above| above != own)]
                .into_iter()
                .flatten()
        };
        let mut ends = vec![0; links as usize + 1];
        for link in (0..fronts.len()).flat_map(links_of) {
            ends[link as usize + 1] += 1;
        }
        for link in 0..links as usize {
            ends[link + 1] += ends[link];
        }
        let mut members = vec![0; ends[links as usize]];
        for s in 0..fronts.len() {
            for link in links_of(s) {
                let next = &mut ends[link as usize];
                members[*next] = s as u32;
                *next += 1;
            }
        }
        ends.pop();
        Self {
            link_of,
            links,
            members,
            ends,
            panel_entries: 0,
            element_entries: 0,
        }
    }

    /// As few links as are found whose panels and elements, for values of `value_bytes` bytes, take at most `bytes` bytes;
    /// none if there are none. A link has whole fronts, so the largest has to fit.
    pub(super) fn within<S: Storage>(
        symbolic: &Symbolic<S>,
        memory: &MemoryPlan,
        value_bytes: usize,
        bytes: u64,
    ) -> Option<Self> {
        let clusters = Clusters::new::<S>(symbolic, memory);
        let mut bound = bytes / value_bytes as u64;
        for _ in 0..ATTEMPTS {
            let division = clusters.divided::<S>(symbolic, memory, bound);
            let entries = 2 * division.panel_entries + division.element_entries;
            // Every link knows of each pivot whether it failed.
            let known = 4 * u64::from(division.links) * symbolic.n() as u64;
            if entries * value_bytes as u64 + known <= bytes {
                return Some(division);
            }
            bound = bound * STEP / 100;
        }
        None
    }

    /// Number of links.
    pub fn num_links(&self) -> usize {
        self.links as usize
    }

    fn portion<S: Storage>(&self, symbolic: &Symbolic<S>, link: u32) -> Portion {
        let chosen = |s: usize| self.link_of[s] == link;
        let number = link as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        let members = self.members[start..self.ends[number]].iter();
        let members = members.map(|&s| s as usize);
        Portion::new(symbolic.tree_and_layout(), members, chosen, Slots::Own)
    }
}

/// The fronts that can be in another link than their parents, each with those below it that cannot.
struct Clusters {
    /// The front of each cluster that is above all others of it, by front.
    top: Vec<u32>,
    /// Entries of panels and elements of the cluster of each such front.
    entries: Vec<u64>,
}

impl Clusters {
    fn new<S: Storage>(symbolic: &Symbolic<S>, memory: &MemoryPlan) -> Self {
        let fronts = symbolic.tree.fronts();
        let classes = FrontClass::of_tree(&symbolic.tree, &memory.limits);
        let mut top: Vec<u32> = (0..fronts.len() as u32).collect();
        let mut entries = vec![0; fronts.len()];
        for (s, front) in fronts.iter().enumerate().rev() {
            if !classes[s].can_be_given(front.size(), &memory.limits)
                && let Some(&above) = top.get(front.parent as usize)
            {
                top[s] = above;
            }
            let element = element_entries(S::SYMMETRIC, front.below);
            entries[top[s] as usize] += S::slot_entries(front.pivots, front.below) + element;
        }
        Self { top, entries }
    }

    /// Links of consecutive clusters in postorder, each with at most `bound` entries if it has several clusters.
    fn divided<S: Storage>(
        &self,
        symbolic: &Symbolic<S>,
        memory: &MemoryPlan,
        bound: u64,
    ) -> Division {
        let fronts = symbolic.tree.fronts();
        let mut link_of = vec![0; fronts.len()];
        let (mut link, mut filled) = (0, 0);
        for s in 0..fronts.len() {
            if self.top[s] as usize == s {
                // Elements of other links are in its memory too.
                let children = symbolic.tree.children(s).iter();
                let given =
                    children.filter(|&&c| self.top[c as usize] == c && link_of[c as usize] < link);
                let given: u64 = given
                    .map(|&c| element_entries(S::SYMMETRIC, fronts[c as usize].below))
                    .sum();
                if filled > 0 && filled + given + self.entries[s] > bound {
                    link += 1;
                    filled = 0;
                }
                filled += given + self.entries[s];
                link_of[s] = link;
            }
        }
        for s in 0..fronts.len() {
            link_of[s] = link_of[self.top[s] as usize];
        }
        let mut division = Division::new(fronts, link_of, link + 1);
        // A solve works there too.
        division.element_entries = solve_entries(&symbolic.tree) as u64;
        for link in 0..division.links {
            let portion = division.portion(symbolic, link);
            let memory = MemoryPlan::of_tree::<S>(&portion.tree, memory.limits, memory.costs, 1);
            let (panels, elements) = (portion.layout.slots, memory.elements.entries);
            division.panel_entries = division.panel_entries.max(panels);
            division.element_entries = division.element_entries.max(elements);
        }
        division
    }
}

/// An element that a later link needs.
#[derive(Debug)]
struct Crossing {
    /// Where it is among the elements of the link.
    here: Range<usize>,
    /// Where it is on the host.
    on_host: usize,
}

/// What one link takes, and what it leaves.
#[derive(Debug)]
struct Link {
    /// Entries of the panels.
    panels: usize,
    given: Vec<Crossing>,
    open: Vec<Crossing>,
}

/// The links of a tree.
#[derive(Debug)]
pub(super) struct Chain {
    /// The plans of all links but the last, which is the tree's.
    pub plans: Vec<DevicePlan>,
    links: Vec<Link>,
    /// Most entries of the panels of a link, and of its elements.
    pub panel_entries: usize,
    pub element_entries: usize,
    /// Entries of the elements that are on the host at once.
    crossing_entries: usize,
    /// The devices that keep the panels of each link; where there is none, the host does.
    peers: Vec<Option<Stream>>,
    /// Where the panels of each front are among those of its link.
    pub slots: Vec<u64>,
    pub link_of: Vec<u32>,
}

impl Chain {
    /// Plans the links, and copies their plans to the device; the last one's is apart. Panels have values of `value_bytes`
    /// bytes; those of each link go to the peer that has most room left, if it has enough.
    pub fn upload<S: Storage>(
        stream: &Stream,
        (peers, value_bytes): (&[(Stream, u64)], usize),
        symbolic: &Symbolic<S>,
        division: &Division,
        source: Source<'_>,
        memory: &MemoryPlan,
        threads: usize,
    ) -> Result<(Self, DevicePlan), DeviceError> {
        let fronts = symbolic.tree.fronts();
        let mut chain = Self {
            plans: Vec::new(),
            links: Vec::new(),
            panel_entries: division.panel_entries as usize,
            element_entries: division.element_entries as usize,
            crossing_entries: 0,
            peers: Vec::new(),
            slots: vec![0; fronts.len()],
            link_of: division.link_of.clone(),
        };
        let mut on_host = HostPlaces::default();
        let mut peers = peers.to_vec();
        for number in 0..division.links {
            let portion = division.portion(symbolic, number);
            let (limits, costs) = (memory.limits, memory.costs);
            let memory = MemoryPlan::of_tree::<S>(&portion.tree, limits, costs, threads);
            let plan = Plan::new::<S>((&portion.tree, &portion.layout), source, &memory, threads);
            let mut uploads = Uploads::new(stream);
            let on_device = DevicePlan::upload(&mut uploads, &plan, &portion.tree.relative)?;
            uploads.finish_on(threads)?;
            chain.plans.push(on_device);
            let mut link = Link {
                panels: portion.layout.slots as usize,
                given: Vec::new(),
                open: Vec::new(),
            };
            for (at, &s) in portion.fronts.iter().enumerate() {
                let front = &portion.tree.fronts()[at];
                let entries = element_entries(S::SYMMETRIC, front.below) as usize;
                let from = memory.elements.place[at] as usize;
                let here = from..from + entries;
                if front.is_given {
                    let on_host = on_host.take_back(s);
                    link.given.push(Crossing { here, on_host });
                    continue;
                }
                chain.slots[s as usize] = portion.layout.slot[at];
                let leaves = division.link_of.get(fronts[s as usize].parent as usize);
                if leaves.is_some_and(|&parent| parent != number) && entries > 0 {
                    let on_host = on_host.give(s, entries);
                    link.open.push(Crossing { here, on_host });
                }
            }
            let bytes = (link.panels * value_bytes) as u64;
            let roomiest = peers.iter_mut().max_by_key(|(_, left)| *left);
            chain.peers.push(
                roomiest
                    .filter(|(_, left)| *left >= bytes)
                    .map(|(peer, left)| {
                        *left -= bytes;
                        peer.clone()
                    }),
            );
            chain.links.push(link);
        }
        chain.crossing_entries = on_host.most;
        let last = chain.plans.pop().expect("a link");
        Ok((chain, last))
    }

    pub fn num_links(&self) -> usize {
        self.links.len()
    }

    /// Bytes of the counters of all links but the last, and what its elements take less than the largest of them.
    pub fn bytes_beside_last(&self, last: &DevicePlan, n: usize, value_bytes: usize) -> u64 {
        let counters = |plan: &DevicePlan| {
            counted_bytes(plan, n, value_bytes) - plan.element_entries * value_bytes as u64
        };
        let elements = self.element_entries as u64 - last.element_entries;
        self.plans.iter().map(counters).sum::<u64>() + elements * value_bytes as u64
    }

    /// Bytes of the panels of one matrix on other devices, and of those on the host, with what crosses.
    pub fn bytes_elsewhere(&self, value_bytes: usize) -> [u64; 2] {
        let mut entries = [0, self.crossing_entries];
        for (link, peer) in self.links.iter().zip(&self.peers) {
            entries[usize::from(peer.is_none())] += link.panels;
        }
        entries.map(|entries| (entries * value_bytes) as u64)
    }
}

/// Where elements are on the host, each from the link that leaves it to the one that takes it.
#[derive(Debug, Default)]
struct HostPlaces {
    /// Places that are taken, ascending, with the fronts.
    taken: Vec<(Range<usize>, u32)>,
    most: usize,
}

impl HostPlaces {
    /// The first gap of so many entries.
    fn give(&mut self, front: u32, entries: usize) -> usize {
        let (mut at, mut place) = (0, 0);
        for (range, _) in &self.taken {
            if range.start - place >= entries {
                break;
            }
            place = range.end;
            at += 1;
        }
        self.taken.insert(at, (place..place + entries, front));
        self.most = self.most.max(place + entries);
        place
    }

    fn take_back(&mut self, front: u32) -> usize {
        let at = self.taken.iter().position(|&(_, s)| s == front);
        let (range, _) = self
            .taken
            .remove(at.expect("an element that an earlier link left"));
        range.start
    }
}

/// Elements on the host between two links.
#[derive(Debug)]
pub(super) struct HostElements<T: DeviceScalar>(PinnedBuffer<T>);

impl<T: DeviceScalar> HostElements<T> {
    pub fn new(stream: &Stream, chain: &Chain) -> Result<Self, DeviceError> {
        stream
            .device()
            .alloc_pinned(chain.crossing_entries)
            .map(Self)
    }
}

/// Where the panels of a link are kept.
#[derive(Debug)]
enum Store<T: DeviceScalar> {
    Host(PinnedBuffer<T>),
    Peer(Stream, Buffer<T>),
}

impl<T: DeviceScalar> Store<T> {
    /// On this other device, unless its room has been taken meanwhile; else on the host.
    fn new(stream: &Stream, peer: Option<&Stream>, len: usize) -> Result<Self, DeviceError> {
        if let Some(peer) = peer {
            match peer.alloc(len) {
                Ok(buffer) => {
                    // Copies are on streams of the first device.
                    peer.synchronize()?;
                    return Ok(Self::Peer(peer.clone(), buffer));
                }
                Err(DeviceError::OutOfMemory { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        stream.device().alloc_pinned(len).map(Self::Host)
    }

    fn len(&self) -> usize {
        match self {
            Self::Host(panels) => panels.len(),
            Self::Peer(_, panels) => panels.len(),
        }
    }

    /// Enqueues a copy from here to the device of the stream.
    fn give(&self, copies: &Stream, to: &mut SliceMut<'_, T>) -> Result<(), DeviceError> {
        match self {
            Self::Host(panels) => copies.copy_from_pinned(to, panels, 0),
            Self::Peer(_, panels) => copies.copy_across(to, panels),
        }
    }

    /// Enqueues a copy from the device of the stream.
    fn take(&mut self, copies: &Stream, from: &Slice<'_, T>) -> Result<(), DeviceError> {
        match self {
            Self::Host(panels) => copies.copy_to_pinned(from, panels, 0),
            Self::Peer(_, panels) => copies.copy_across(panels, from),
        }
    }
}

/// The panels of one matrix: all of them elsewhere, and those of two links on the device, one of which is worked with while
/// the other one's cross.
#[derive(Debug)]
pub(super) struct StoredPanels<T: DeviceScalar> {
    links: Vec<Store<T>>,
    /// Copies are on it, beside the work.
    copies: Stream,
    /// Memory for the panels of a second link. It changes places with that which is worked with.
    spare: Buffer<T>,
    /// The links whose panels are in the memory that is worked with, and in the spare one.
    on_device: [Option<usize>; 2],
    /// Behind the last copies to and from these two.
    copied: [Event; 2],
    /// Behind the work that a copy waits for.
    worked: Event,
}

impl<T: DeviceScalar> StoredPanels<T> {
    pub fn new(stream: &Stream, chain: &Chain) -> Result<Self, DeviceError> {
        let device = stream.device();
        let links = chain.links.iter().zip(&chain.peers);
        let links = links.map(|(link, peer)| Store::new(stream, peer.as_ref(), link.panels));
        Ok(Self {
            links: links.collect::<Result<_, _>>()?,
            copies: device.create_stream()?,
            spare: stream.alloc(chain.panel_entries)?,
            on_device: [None; 2],
            copied: [device.create_event()?, device.create_event()?],
            worked: device.create_event()?,
        })
    }

    /// The panels of each link, on the host; waits for what writes them.
    pub fn links(&self) -> impl Iterator<Item = Result<Cow<'_, [T]>, DeviceError>> {
        self.links.iter().map(|link| match link {
            Store::Host(panels) => panels.as_slice().map(Cow::Borrowed),
            Store::Peer(peer, panels) => {
                self.copies.synchronize()?;
                peer.download(panels).map(Cow::Owned)
            }
        })
    }

    /// Goes on in the spare memory, once all that was copied there or from there has come.
    fn turn(&mut self, stream: &Stream, panels: &mut Buffer<T>) -> Result<(), DeviceError> {
        std::mem::swap(panels, &mut self.spare);
        self.on_device.swap(0, 1);
        self.copied.swap(0, 1);
        stream.wait(&self.copied[0])
    }

    /// Enqueues a copy of the panels of a link to the spare memory.
    fn fetch(&mut self, stream: &Stream, link: usize) -> Result<(), DeviceError> {
        self.on_device[1] = None;
        let from = &self.links[link];
        let mut spare = self.spare.slice_mut(..from.len());
        stream.record(&self.worked)?;
        self.copies.wait(&self.worked)?;
        from.give(&self.copies, &mut spare)?;
        self.copies.record(&self.copied[1])?;
        self.on_device[1] = Some(link);
        Ok(())
    }

    /// Sees to it that `panels` are those of a link, and those of the `next` one on their way.
    pub fn bring(
        &mut self,
        stream: &Stream,
        link: usize,
        next: Option<usize>,
        panels: &mut Buffer<T>,
    ) -> Result<(), DeviceError> {
        if self.on_device[0] != Some(link) {
            if self.on_device[1] != Some(link) {
                self.fetch(stream, link)?;
            }
            self.turn(stream, panels)?;
        }
        match next {
            Some(next) if !self.on_device.contains(&Some(next)) => self.fetch(stream, next),
            _ => Ok(()),
        }
    }

    /// Enqueues a copy of the panels of a link that were made, and goes on in the spare memory.
    fn keep(
        &mut self,
        stream: &Stream,
        link: usize,
        panels: &mut Buffer<T>,
    ) -> Result<(), DeviceError> {
        let kept = &mut self.links[link];
        stream.record(&self.worked)?;
        self.copies.wait(&self.worked)?;
        kept.take(&self.copies, &panels.slice(..kept.len()))?;
        self.copies.record(&self.copied[0])?;
        self.on_device[0] = Some(link);
        self.turn(stream, panels)
    }
}

/// Memory of other devices is freed in the order of their streams, which know nothing of the copies.
impl<T: DeviceScalar> Drop for StoredPanels<T> {
    fn drop(&mut self) {
        if self
            .links
            .iter()
            .any(|link| matches!(link, Store::Peer(..)))
        {
            // What has failed comes to light elsewhere.
            let _ = self.copies.synchronize();
        }
    }
}

/// A factorization link by link that is to be enqueued.
pub(super) struct Chained<'a, T: DeviceScalar> {
    pub chain: &'a Chain,
    /// The plan of the last link.
    pub last: &'a DevicePlan,
    pub values: &'a Buffer<WideOf<T>>,
    pub rule: Rule<RealOf<T>>,
    pub elements: &'a mut HostElements<T>,
    pub panels: &'a mut StoredPanels<T>,
    /// Of all links but the last.
    pub counted: &'a mut [Counted<T>],
}

impl<T: DeviceScalar> Chained<'_, T> {
    /// Enqueues the launches of all links, and what is copied between them. The memory for the elements is that of `last`.
    pub fn enqueue<S: Storage>(
        self,
        stream: &Stream,
        last: &mut Counted<T>,
        results: &mut Results<'_, T>,
        kernels: &mut impl FrontKernels<T>,
    ) -> Result<(), DeviceError> {
        let Self { chain, panels, .. } = self;
        let HostElements(on_host) = self.elements;
        panels.on_device = [None; 2];
        let end = chain.links.len() - 1;
        for (number, link) in chain.links.iter().enumerate() {
            for Crossing {
                here,
                on_host: from,
            } in &link.given
            {
                let mut here = last.elements.slice_mut(here.clone());
                stream.copy_from_pinned(&mut here, on_host, *from)?;
            }
            if S::SYMMETRIC {
                // Nobody writes the tiles above the diagonal.
                stream.fill_zero(&mut results.factors.slice_mut(..link.panels))?;
            }
            let mut launch = |plan, counted: &mut Counted<T>| {
                let launches = Launches {
                    plan,
                    values: self.values,
                    rule: self.rule,
                    counted,
                    results: results.reborrow(),
                };
                launches.enqueue(stream, kernels)
            };
            if number == end {
                launch(self.last, last)?;
            } else {
                let counted = &mut self.counted[number];
                std::mem::swap(&mut counted.elements, &mut last.elements);
                let launched = launch(&chain.plans[number], counted);
                std::mem::swap(&mut counted.elements, &mut last.elements);
                launched?;
            }
            for Crossing { here, on_host: to } in &link.open {
                stream.copy_to_pinned(&last.elements.slice(here.clone()), on_host, *to)?;
            }
            if kernels.leave_panels() {
                panels.keep(stream, number, results.factors)?;
            }
        }
        // What comes later finds the copies made. The last link's panels are those that a solve begins to go down with.
        panels.turn(stream, results.factors)?;
        stream.wait(&panels.copied[1])
    }
}
