//! The assembly tree on the device.

use std::sync::{Arc, OnceLock};

use luge_device::{Buffer, DeviceError, RecordBuffer, Stream, Uploads};
use luge_gpu_kernels::frontal::plan::{Child, Piece, SmallFront, Sum, Task, Wait};
use luge_sparse::Form;

use super::DeviceScalar;
use super::check::CheckPlan;
use super::classes::Limits;
use super::cost::DeviceCosts;
use super::dealt::{DealtPlan, Part};
use super::mapping::Mapping;
use super::memory::MemoryPlan;
use super::placement::Placement;
use super::plan::{LaunchOf, Plan, Source};
use super::solve::{SolvePlan, SolveRecords};
use super::streamed::{Chain, Division, StoredPanels};
use crate::shares::both;
use crate::storage::{Full, Storage};
use crate::symbolic::Symbolic;

/// An assembly tree on the device.
#[derive(Debug)]
pub struct DeviceTree<S: Storage = Full> {
    pub(super) symbolic: Arc<Symbolic<S>>,
    /// Where classes of fronts end.
    pub(super) limits: Limits,
    /// Column of A of each pivot, in the order of elimination.
    pub(super) columns: Vec<u32>,
    /// How entries of B determine their counterparts, if it is symmetric.
    pub(super) form: Form,
    /// Number of values that A has at least.
    pub(super) max_source: usize,
    pub(super) plan: DevicePlan,
    pub(super) solve: SolvePlan,
    /// Rows below the pivots of all fronts.
    pub(super) row_idx: Buffer<u32>,
    /// The subtrees of each device, if the tree is dealt out; `plan` is then what is above them.
    pub(super) parts: Vec<Part>,
    /// The links, if the tree is in several; `plan` is then that of the last.
    pub(super) chain: Option<Chain>,
    /// What checks read, once there was one.
    pub(super) check: OnceLock<CheckPlan>,
}

/// How a tree is planned.
enum Planned<'a> {
    /// As one.
    Whole,
    /// With subtrees for other devices, of which these are streams.
    Dealt(&'a [Stream], &'a Mapping),
    /// In links.
    Streamed(&'a Division, &'a [(Stream, u64)], usize),
}

/// A [`Plan`] on the device.
#[derive(Debug)]
pub(super) struct DevicePlan {
    pub fronts: RecordBuffer<SmallFront>,
    pub children: RecordBuffer<Child>,
    pub starts: Buffer<u32>,
    pub tasks: RecordBuffer<Task>,
    pub launches: Vec<LaunchOf>,
    pub pieces: RecordBuffer<Piece>,
    pub sums: RecordBuffer<Sum>,
    pub addends: Buffer<u32>,
    pub waits: RecordBuffer<Wait>,
    pub source: Buffer<u32>,
    pub places: Buffer<u32>,
    /// Position of each row below the pivots of a front in the parent's front.
    pub relative: Buffer<u32>,
    pub num_large: usize,
    pub num_flags: usize,
    pub element_entries: u64,
}

impl DevicePlan {
    pub fn upload<'a>(
        uploads: &mut Uploads<'a>,
        plan: &'a Plan,
        relative: &'a [u32],
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            fronts: uploads.add_records(&plan.fronts)?,
            children: uploads.add_records(&plan.children)?,
            starts: uploads.add(&plan.starts)?,
            tasks: uploads.add_records(&plan.tasks)?,
            launches: plan.launches.clone(),
            pieces: uploads.add_records(&plan.pieces)?,
            sums: uploads.add_records(&plan.sums)?,
            addends: uploads.add(&plan.addends)?,
            waits: uploads.add_records(&plan.waits)?,
            source: uploads.add(&plan.source)?,
            places: uploads.add(&plan.places)?,
            relative: uploads.add(relative)?,
            num_large: plan.num_large as usize,
            num_flags: plan.num_flags as usize,
            element_entries: plan.element_entries,
        })
    }
}

impl<S: Storage> DeviceTree<S> {
    /// Copies a tree to the device, with the places of its entries in A. With `threads` above 1, those of the current
    /// rayon pool share the planning; the plan is the same.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Panics
    ///
    /// If the lengths of `placement` do not go with the tree.
    #[track_caller]
    pub fn upload(
        stream: &Stream,
        symbolic: &Arc<Symbolic<S>>,
        memory: &MemoryPlan,
        placement: &Placement<'_>,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        let limits = memory.limits.on(&stream.device());
        if limits == memory.limits {
            Self::upload_planned(
                (stream, Planned::Whole),
                symbolic,
                memory,
                placement,
                threads,
            )
        } else {
            Self::upload_with(stream, symbolic, placement, limits, threads)
        }
    }

    /// As [`upload`](Self::upload), for factorizations by several devices: that of `stream`, and those of `peers`, which are
    /// streams of other devices of the same kind. Factors are the same, bit for bit, and all of them are in the memory of the
    /// first device, so solves are as they are without the others.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Panics
    ///
    /// As [`upload`](Self::upload), and if the mapping is not one of this tree to so many devices.
    #[track_caller]
    pub fn upload_dealt(
        (stream, peers): (&Stream, &[Stream]),
        symbolic: &Arc<Symbolic<S>>,
        mapping: &Mapping,
        memory: &MemoryPlan,
        placement: &Placement<'_>,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        assert_eq!(
            mapping.roots.len(),
            peers.len() + 1,
            "a device for each part"
        );
        let dealt = Planned::Dealt(peers, mapping);
        Self::upload_planned((stream, dealt), symbolic, memory, placement, threads)
    }

    /// As [`upload`](Self::upload), for factors that are elsewhere, but for those of two links of the division at a time: in the
    /// memory of `peers`, for values of `value_bytes` bytes, as far as these have room, else in page-locked memory of the host.
    /// They are the same, bit for bit.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Panics
    ///
    /// As [`upload`](Self::upload); if the division is not one of this tree; and if there are entries right of the diagonal
    /// blocks, for solves go up and down the whole forest once.
    #[track_caller]
    pub fn upload_streamed(
        (stream, peers): (&Stream, &[(Stream, u64)]),
        value_bytes: usize,
        symbolic: &Arc<Symbolic<S>>,
        division: &Division,
        memory: &MemoryPlan,
        placement: &Placement<'_>,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        assert_eq!(
            division.link_of.len(),
            symbolic.tree.num_supernodes(),
            "a link for each front"
        );
        assert_eq!(placement.coupling.nnz(), 0, "diagonal blocks alone");
        let streamed = Planned::Streamed(division, peers, value_bytes);
        Self::upload_planned((stream, streamed), symbolic, memory, placement, threads)
    }

    /// As [`upload`](Self::upload), with other limits between the classes of fronts.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Panics
    ///
    /// If the lengths of `placement` do not go with the tree, or a limit is larger than that by default.
    #[track_caller]
    pub fn upload_with(
        stream: &Stream,
        symbolic: &Arc<Symbolic<S>>,
        placement: &Placement<'_>,
        limits: Limits,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        let limits = limits.on(&stream.device());
        let memory = MemoryPlan::with(symbolic, limits, DeviceCosts::default());
        Self::upload_planned(
            (stream, Planned::Whole),
            symbolic,
            &memory,
            placement,
            threads,
        )
    }

    #[track_caller]
    fn upload_planned(
        (stream, planned): (&Stream, Planned<'_>),
        symbolic: &Arc<Symbolic<S>>,
        memory: &MemoryPlan,
        placement: &Placement<'_>,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        let tree = &symbolic.tree;
        placement.check(tree.n(), tree.nnz());
        let (rows, cols) = placement.placed(tree.perm(), threads);
        let conjugated = placement.conjugated_in_order(&tree.pattern, tree.perm());
        let source = Source {
            entries: placement.entries,
            rows: &rows,
            cols: &cols,
            conjugated: &conjugated,
        };
        let to_factorize = || {
            let (devices, mapping) = match planned {
                Planned::Dealt(peers, mapping) => ((stream, peers), mapping),
                Planned::Streamed(division, peers, value_bytes) => {
                    let peers = (peers, value_bytes);
                    let streamed =
                        Chain::upload(stream, peers, symbolic, division, source, memory, threads);
                    return streamed.map(|(chain, last)| (last, Vec::new(), Some(chain)));
                }
                Planned::Whole => {
                    let plan = Plan::new::<S>(symbolic.tree_and_layout(), source, memory, threads);
                    let mut uploads = Uploads::new(stream);
                    let on_device = DevicePlan::upload(&mut uploads, &plan, &tree.relative)?;
                    uploads.finish_on(threads)?;
                    return Ok((on_device, Vec::new(), None));
                }
            };
            let dealt = DealtPlan::upload(devices, symbolic, mapping, source, memory, threads)?;
            Ok::<_, DeviceError>((dealt.above, dealt.parts, None))
        };
        let to_solve = |chain: Option<&Chain>, threads| {
            let links = chain.map(|chain| (&*chain.link_of, &*chain.slots));
            let records = SolveRecords::new(symbolic, placement, links, memory, threads);
            let mut uploads = Uploads::new(stream);
            let on_device = SolvePlan::upload(&mut uploads, &records, placement, &rows, &cols)?;
            let row_idx = uploads.add(&tree.rows)?;
            uploads.finish_on(threads)?;
            Ok::<_, DeviceError>((on_device, row_idx))
        };
        let ((plan, parts, chain), (solve, row_idx)) = if let Planned::Streamed(..) = planned {
            // Where the panels of a front are depends on its link.
            let factorization = to_factorize()?;
            let solve = to_solve(factorization.2.as_ref(), threads)?;
            (factorization, solve)
        } else {
            // One of them is copied while the other is still being planned.
            let (factorization, solve) = both(threads, to_factorize, || to_solve(None, threads));
            (factorization?, solve?)
        };
        Ok(Self {
            plan,
            parts,
            chain,
            check: OnceLock::new(),
            solve,
            row_idx,
            max_source: num_sources(placement.entries).max(num_sources(placement.coupling_entries)),
            columns: cols.places,
            form: placement.form(),
            limits: memory.limits,
            symbolic: Arc::clone(symbolic),
        })
    }

    /// How entries of B determine those across the diagonal, if it is symmetric.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Whether there is no front.
    pub(super) fn is_empty(&self) -> bool {
        self.symbolic.tree.num_supernodes() == 0
    }

    /// Panics unless A has so many values.
    #[track_caller]
    pub(super) fn check_values(&self, len: usize) {
        assert!(len >= self.max_source, "a value for each entry of the tree");
    }

    /// Launches of a factorization: one, unless fronts are wide or several devices work on it.
    pub fn num_launches(&self) -> usize {
        let of_parts = self.parts.iter().map(|part| &part.plan);
        let of_links = self.chain.iter().flat_map(|chain| &chain.plans);
        let others = of_parts.chain(of_links).map(|plan| plan.launches.len());
        self.plan.launches.len() + others.sum::<usize>()
    }

    /// Links of a tree whose factors are in the host's memory but for those of one; 1 for any other.
    pub fn num_links(&self) -> usize {
        self.chain.as_ref().map_or(1, Chain::num_links)
    }

    /// Memory of the host for the panels of one matrix, if the tree is in links.
    pub(super) fn stored_panels<T: DeviceScalar>(
        &self,
        stream: &Stream,
    ) -> Result<Option<StoredPanels<T>>, DeviceError> {
        let chain = self.chain.as_ref();
        chain
            .map(|chain| StoredPanels::new(stream, chain))
            .transpose()
    }

    /// Entries of the panels that are on the device at once.
    pub(super) fn panel_entries(&self) -> usize {
        let all = self.symbolic.layout.slots as usize;
        self.chain.as_ref().map_or(all, |chain| chain.panel_entries)
    }

    /// Devices that work on a factorization.
    pub fn num_devices(&self) -> usize {
        let peers = self.parts.iter().filter(|part| part.peer.is_some());
        1 + peers.count()
    }

    /// The symbolic factorization on the host.
    pub fn symbolic(&self) -> &Arc<Symbolic<S>> {
        &self.symbolic
    }
}

/// Values that there must be for all of these to be places of some.
fn num_sources(places: &[u32]) -> usize {
    // Not `max`, for this is done in lanes.
    let last = places.iter().fold(0, |last, &place| last.max(place));
    last as usize + usize::from(!places.is_empty())
}

#[cfg(test)]
mod tests {
    use luge_sparse::etree::{self, EliminationForest, inverse};
    use luge_sparse::{ColPerm, CompressedPattern, RowPerm, Scaling};
    use luge_testkit::strategies::{
        col_perms_of, pattern_from, patterns_with_diagonal, row_perms_of,
    };
    use proptest::prelude::*;

    use super::*;
    use crate::storage::Lower;
    use crate::tree::TreeOptions;

    /// The columns of the diagonal blocks of `pattern`, so permuted that their order is a postorder, with the
    /// elimination forest; and the rows of what is above them.
    fn blocks_of<S: Storage>(
        pattern: &CompressedPattern,
        block_ptr: &[usize],
    ) -> (CompressedPattern, EliminationForest, Arc<CompressedPattern>) {
        let n = pattern.major_dim();
        let block_of = |i: usize| block_ptr.partition_point(|&at| at <= i);
        let entries = |above: bool| {
            let columns = pattern.lines().enumerate();
            let entries = columns.flat_map(|(j, lane)| lane.iter().map(move |&i| (i, j as u32)));
            entries.filter(move |&(i, j)| {
                let (i, j) = (block_of(i as usize), block_of(j as usize));
                if above { i < j } else { i == j }
            })
        };
        let graph = |place: &dyn Fn(u32) -> u32| {
            let both = |(i, j)| [(place(i), place(j)), (place(j), place(i))];
            pattern_from(n, entries(false).flat_map(both))
        };
        let tree_of = |graph: &CompressedPattern| {
            etree::elimination_tree(n, |v| graph.line(v as usize).iter().copied())
        };
        // No tree spans two blocks, so blocks stay where they are.
        let post = etree::postorder(&tree_of(&graph(&|i| i)));
        let position = inverse(&post);
        let place = |i: u32| position[i as usize];
        let columns = entries(false).map(|(i, j)| {
            let (row, column) = (place(i), place(j));
            if S::SYMMETRIC {
                (row.min(column), row.max(column))
            } else {
                (column, row)
            }
        });
        let columns = pattern_from(n, columns);
        let graph = graph(&place);
        let parent = tree_of(&graph);
        let counts = etree::column_counts(&parent, |v| graph.line(v as usize).iter().copied());
        let coupling = pattern_from(n, entries(true).map(|(i, j)| (place(i), place(j))));
        (
            columns,
            EliminationForest { parent, counts },
            Arc::new(coupling),
        )
    }

    /// Trees and plans made with one thread and with several are the same, record for record.
    fn check_threads<S: Storage>(
        pattern: &CompressedPattern,
        block_ptr: &[usize],
        row_perm: &RowPerm,
        col_perm: &ColPerm,
        limits: Limits,
    ) {
        let n = pattern.major_dim();
        let (columns, forest, coupling) = blocks_of::<S>(pattern, block_ptr);
        let columns = Arc::new(columns);
        let options = TreeOptions::default();
        let analyzed = |threads| {
            Symbolic::<S>::analyze_posted(Arc::clone(&columns), &forest, &options, threads).unwrap()
        };
        let tree = analyzed(1);
        assert_eq!(format!("{tree:?}"), format!("{:?}", analyzed(4)));

        let factors = |step: i32| (0..n as i32).map(|i| 2f64.powi(i * step % 7 - 3)).collect();
        let nnz = columns.nnz() as u32;
        let placement = Placement {
            row_perm,
            col_perm,
            scaling: &Scaling {
                rows: factors(3),
                cols: factors(5),
            },
            entries: &(0..nnz).rev().collect::<Vec<_>>(),
            block_ptr,
            coupling: &coupling,
            coupling_entries: &(nnz..nnz + coupling.nnz() as u32).collect::<Vec<_>>(),
            conjugated: None,
        };
        let costs = DeviceCosts::default();
        let planned = |threads| {
            let (rows, cols) = placement.placed(tree.tree().perm(), threads);
            let source = Source {
                entries: placement.entries,
                rows: &rows,
                cols: &cols,
                conjugated: &[],
            };
            let memory = MemoryPlan::with(&tree, limits, costs);
            let plan = Plan::new::<S>(tree.tree_and_layout(), source, &memory, threads);
            let solve = SolveRecords::new(&tree, &placement, None, &memory, threads);
            (plan, solve, rows, cols)
        };
        assert!(planned(1) == planned(4), "plans differ");
    }

    fn limits() -> impl Strategy<Value = Limits> {
        let small = (1u32..=6, 6u32..=40, 0u32..=60, 0u32..=6);
        let small = small.prop_map(|(small_front, whole_front, more, gathered)| Limits {
            small_front,
            whole_front,
            tiled_front: whole_front + more,
            gathered,
            apart: 0,
            many_of_thread: 0,
        });
        prop_oneof![Just(Limits::default()), small]
    }

    #[test]
    fn a_value_is_needed_for_the_last_place() {
        assert_eq!(num_sources(&[]), 0);
        assert_eq!(num_sources(&[0]), 1);
        assert_eq!(num_sources(&[3, 7, 2]), 8);
    }

    proptest! {
        #[test]
        fn threads_do_not_change_a_word(
            (pattern, block_ptr, row_perm, col_perm) in patterns_with_diagonal(60).prop_flat_map(|pattern| {
                let n = pattern.major_dim();
                let cuts = proptest::collection::btree_set(0..=n, 0..4);
                let block_ptr = cuts.prop_map(move |mut cuts| {
                    cuts.extend([0, n]);
                    cuts.into_iter().collect::<Vec<_>>()
                });
                (Just(pattern), block_ptr, row_perms_of(n), col_perms_of(n))
            }),
            limits in limits(),
        ) {
            check_threads::<Full>(&pattern, &block_ptr, &row_perm, &col_perm, limits);
            check_threads::<Lower>(&pattern, &block_ptr, &row_perm, &col_perm, limits);
        }
    }

    #[test]
    fn threads_do_not_change_a_word_of_large_fronts() {
        // A full block whose front has many tiles, and two chains of fronts above it, coupled to it.
        let n = 150;
        let full = (50..n).flat_map(|i| (50..n).map(move |j| (i, j)));
        let chains = (0..n).flat_map(|i| [(i, i), (i, (i + 1) % 50), ((i + 2) % 50, i)]);
        let pattern = pattern_from(
            n as usize,
            full.chain(chains).map(|(i, j)| (i as u32, j as u32)),
        );
        let identity = || luge_sparse::Permutation::identity(n as usize);
        let (row_perm, col_perm) = (RowPerm(identity()), ColPerm(identity()));
        for (whole_front, tiled_front) in [(8, 512), (95, 512), (8, 30)] {
            let limits = Limits {
                small_front: 4,
                whole_front,
                tiled_front,
                gathered: 2,
                apart: 0,
                many_of_thread: 0,
            };
            for block_ptr in [&[0, 150][..], &[0, 50, 150], &[0, 20, 50, 150]] {
                check_threads::<Full>(&pattern, block_ptr, &row_perm, &col_perm, limits);
                check_threads::<Lower>(&pattern, block_ptr, &row_perm, &col_perm, limits);
            }
        }
    }
}
