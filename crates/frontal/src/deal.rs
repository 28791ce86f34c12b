//! Which rank works on which fronts, and what ranks agree on.
//!
//! A few large subtrees are dealt out, the longest first to the rank that has least so far; what is above them is the work of
//! rank 0 after that, as `gpu::mapping` does it for the devices of one host. [`cut`](crate::cut) says which subtrees. Every rank
//! computes the same.

use std::sync::Arc;

use luge_comm::{Collectives, Comm, CommError, Team};
use luge_sparse::{Cancelled, Scalar};

use crate::cut::{Candidate, best_cut, least_seconds, longest_first};
use crate::error::FrontalError;
use crate::storage::Storage;
use crate::symbolic::Symbolic;

/// The ranks that work on a matrix together.
#[derive(Debug, Clone)]
pub struct RankOptions {
    /// This rank among them.
    pub team: Team,
    /// A matrix that is predicted to take fewer seconds than this on one thread is factorized by every rank for itself.
    pub least_seconds: f64,
}

/// Seconds for a byte that crosses, and for a message: those of a network of 10 Gbit/s, and of a few copies.
const SECONDS_PER_BYTE: f64 = 1e-9;
const SECONDS_PER_MESSAGE: f64 = 20e-6;

/// In the place of a rank: the front is above all subtrees that are dealt out.
const ABOVE: u32 = u32::MAX;

/// The fronts of each rank, and where the panels of this one's lie.
#[derive(Debug)]
pub(crate) struct Share {
    rank: u32,
    /// For each front the rank that has the subtree in which it is, or [`ABOVE`].
    part: Vec<u32>,
    /// The fronts with another part than their parents have, which may be in none, by rank: the roots of its subtrees.
    roots: Vec<Vec<u32>>,
    is_root: Vec<bool>,
    /// Where the slot of each front begins among those of this rank; without meaning for those of others.
    pub slot: Vec<u64>,
    /// Entries of the slots of this rank.
    pub slots: u64,
}

/// Roots of the subtrees of each rank, ascending, and when all is predicted to be done.
struct Dealt {
    roots: Vec<Vec<u32>>,
    seconds: f64,
}

impl Dealt {
    /// Of these subtrees of a tree, the longest first.
    fn new<S: Storage>(
        symbolic: &Symbolic<S>,
        subtrees: &[Candidate],
        ranks: usize,
        value_bytes: usize,
    ) -> Self {
        let (mut longest, mut sent) = (0.0f64, 0.0);
        let mut above = symbolic.seconds();
        let mut roots = Vec::with_capacity(ranks);
        for (rank, subtrees) in longest_first(subtrees, ranks).into_iter().enumerate() {
            let seconds: f64 = subtrees.iter().map(|subtree| subtree.seconds).sum();
            longest = longest.max(seconds);
            above -= seconds;
            let mut of_rank: Vec<u32> = subtrees.iter().map(|subtree| subtree.root).collect();
            of_rank.sort_unstable();
            if rank > 0 {
                for &root in &of_rank {
                    let below = symbolic.tree.fronts[root as usize].below as usize;
                    let bytes = S::element_entries(below) * value_bytes;
                    // Rank 0 takes one after the other.
                    sent += SECONDS_PER_MESSAGE + bytes as f64 * SECONDS_PER_BYTE;
                }
            }
            roots.push(of_rank);
        }
        Self {
            roots,
            seconds: longest + sent + above,
        }
    }

    /// The best of a tree; none if no two ranks have something to do.
    fn best<S: Storage>(symbolic: &Symbolic<S>, ranks: usize, value_bytes: usize) -> Option<Self> {
        let tree = &symbolic.tree;
        let seconds = &symbolic.totals.subtree_seconds;
        let least = least_seconds(symbolic.seconds(), ranks);
        let candidates = |roots: &[u32]| {
            let candidates = roots.iter().map(|&root| Candidate {
                seconds: seconds[root as usize],
                root,
            });
            candidates.filter(|c| c.seconds > least).collect()
        };
        let deal = |subtrees: &[Candidate]| {
            let dealt = Self::new(symbolic, subtrees, ranks, value_bytes);
            (dealt.seconds, dealt)
        };
        best_cut(tree, ranks, candidates, deal)
    }
}

impl Share {
    /// Of a tree for factors with values of `value_bytes` bytes; none if one rank does as well. Every rank finds the same.
    fn new<S: Storage>(
        symbolic: &Symbolic<S>,
        (rank, ranks): (usize, usize),
        value_bytes: usize,
    ) -> Option<Self> {
        if ranks == 1 {
            return None;
        }
        let Dealt { roots, .. } = Dealt::best(symbolic, ranks, value_bytes)?;
        let fronts = &symbolic.tree.fronts;
        let mut part = vec![ABOVE; fronts.len()];
        let mut is_root = vec![false; fronts.len()];
        for (rank, roots) in roots.iter().enumerate() {
            for &root in roots {
                part[root as usize] = rank as u32;
                is_root[root as usize] = true;
            }
        }
        for s in (0..fronts.len()).rev() {
            if let Some(&above) = part.get(fronts[s].parent as usize)
                && above != ABOVE
            {
                part[s] = above;
            }
        }
        let mut share = Self {
            rank: rank as u32,
            part,
            roots,
            is_root,
            slot: Vec::with_capacity(fronts.len()),
            slots: 0,
        };
        for (s, front) in fronts.iter().enumerate() {
            share.slot.push(share.slots);
            if share.is_own(s) {
                share.slots += S::slot_entries(front.pivots, front.below);
            }
        }
        Some(share)
    }

    /// The rank that eliminates a front.
    pub fn owner(&self, s: usize) -> usize {
        match self.part[s] {
            ABOVE => 0,
            rank => rank as usize,
        }
    }

    /// Whether this rank eliminates a front.
    pub fn is_own(&self, s: usize) -> bool {
        self.owner(s) == self.rank as usize
    }

    /// Whether a front is in a subtree that was dealt out to this rank.
    pub fn is_dealt_here(&self, s: usize) -> bool {
        self.part[s] == self.rank
    }

    /// Whether a front is above all subtrees that were dealt out.
    pub fn is_above(&self, s: usize) -> bool {
        self.part[s] == ABOVE
    }

    /// Whether a front is the root of a subtree that was dealt out.
    pub fn hands_on(&self, s: usize) -> bool {
        self.is_root[s]
    }

    /// The roots of the subtrees of each rank, ascending.
    pub fn roots(&self) -> &[Vec<u32>] {
        &self.roots
    }
}

/// The ranks of a factorization, and what each of them does.
#[derive(Debug, Clone)]
pub(crate) struct Ranks {
    pub team: Team,
    pub share: Arc<Share>,
}

impl Ranks {
    /// Those that are to factorize on this tree together, if it is worth that.
    pub fn new<S: Storage>(
        symbolic: &Symbolic<S>,
        options: Option<&RankOptions>,
        value_bytes: usize,
    ) -> Option<Self> {
        let RankOptions {
            team,
            least_seconds,
        } = options?;
        if symbolic.seconds() < *least_seconds {
            return None;
        }
        let place = (team.rank(), team.size());
        let share = Share::new(symbolic, place, value_bytes)?;
        Some(Self {
            team: team.clone(),
            share: Arc::new(share),
        })
    }

    /// What this rank prepared, if all ranks could; else the error of the first that could not.
    pub fn agreed<T>(
        ranks: Option<&Self>,
        prepared: Result<T, FrontalError>,
    ) -> Result<T, FrontalError> {
        let Some(Self { team, .. }) = ranks else {
            return prepared;
        };
        let failure = prepared.as_ref().err().map(|error| Failure {
            front: 0,
            error: error.clone(),
        });
        match first_failure(team, failure)? {
            Some(failure) => Err(failure.error),
            None => prepared,
        }
    }
}

/// An error, and the front of which it is.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub front: usize,
    pub error: FrontalError,
}

impl Failure {
    fn encode(&self) -> [u64; 4] {
        let (kind, first, second) = match self.error {
            FrontalError::Singular { column } => (0, column as u64, 0),
            FrontalError::ZeroPivot { column } => (1, column as u64, 0),
            FrontalError::NotPositiveDefinite { column, value } => {
                (2, column as u64, value.to_bits())
            }
            FrontalError::NotFinite { column } => (3, column as u64, 0),
            FrontalError::OutOfMemory { asked, available } => (4, asked, available),
            FrontalError::Cancelled(Cancelled) => (5, 0, 0),
            FrontalError::NotSquare { .. } | FrontalError::IndexOverflow(_) => {
                unreachable!("an analysis found that before")
            }
        };
        [self.front as u64, kind, first, second]
    }

    fn decode(words: &[u64]) -> Option<Self> {
        let &[front, kind, first, second] = words else {
            return None;
        };
        let column = first as usize;
        let error = match kind {
            0 => FrontalError::Singular { column },
            1 => FrontalError::ZeroPivot { column },
            2 => FrontalError::NotPositiveDefinite {
                column,
                value: f64::from_bits(second),
            },
            3 => FrontalError::NotFinite { column },
            4 => FrontalError::OutOfMemory {
                asked: first,
                available: second,
            },
            5 => FrontalError::Cancelled(Cancelled),
            _ => return None,
        };
        Some(Self {
            front: front as usize,
            error,
        })
    }
}

/// Of the failures of all ranks that of the first front, and of the first rank.
pub(crate) fn first_failure(
    team: &Team,
    own: Option<Failure>,
) -> Result<Option<Failure>, FrontalError> {
    let words: Vec<u64> = own.iter().flat_map(Failure::encode).collect();
    let all = told(team.all_gather(&words))?;
    let failures = all.iter().enumerate();
    let failures = failures.filter_map(|(rank, words)| Some((rank, Failure::decode(words)?)));
    let first = failures.min_by_key(|(rank, failure)| (failure.front, *rank));
    Ok(first.map(|(rank, failure)| {
        team.blame(rank);
        failure
    }))
}

/// What came from other ranks. Where it did not come the call is given up; the team knows why.
pub(crate) fn told<T>(outcome: Result<T, CommError>) -> Result<T, Cancelled> {
    outcome.map_err(|error| {
        tracing::debug!(%error, "given up with the other ranks");
        Cancelled
    })
}

/// The bytes of scalars.
pub(crate) fn as_bytes<F: Scalar>(values: &[F]) -> &[u8] {
    // SAFETY: a scalar is one or two floating-point numbers, without padding; the trait is sealed.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// Overwrites scalars with their bytes, of which there are as many; else `false`.
pub(crate) fn copy_from_bytes<F: Scalar>(values: &mut [F], bytes: &[u8]) -> bool {
    let is_whole = bytes.len() == size_of_val(values);
    if is_whole {
        // SAFETY: as many bytes, every pattern of which is a scalar.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), values.as_mut_ptr().cast(), bytes.len());
        }
    }
    is_whole
}

/// The scalars with these bytes.
pub(crate) fn from_bytes<F: Scalar>(bytes: &[u8]) -> Vec<F> {
    let mut values = vec![F::zero(); bytes.len() / size_of::<F>()];
    let length = size_of_val(&values[..]);
    copy_from_bytes(&mut values, &bytes[..length]);
    values
}
