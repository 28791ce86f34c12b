//! The factorization of a tree, front by front, whatever the kind: memory, delayed columns, threads.
//!
//! A kind of factorization implements [`FrontWork`], the verbs of the work on one front, and calls [`factorize`]. Fronts
//! are taken in postorder by one thread, or as tasks of several ([`Schedule`](crate::schedule::Schedule)); their
//! generated elements lie on two stacks; columns without an acceptable pivot go to the parent. With several ranks
//! each takes its subtrees so, and rank 0 then what is above them ([`across`]). Where only some entries changed, only some
//! fronts are taken ([`partial`]).

mod across;
mod element;
mod front;
mod partial;
mod progress;
mod stack;
mod store;
mod traverse;
mod work;

pub(crate) use across::{Spread, told_by_all};
pub(crate) use element::{Children, Pace, add_contiguous, add_scattered, contiguous};
pub(crate) use front::{ActiveFront, Positions};
#[cfg(feature = "gpu")]
pub(crate) use partial::Cut;
pub(crate) use partial::{Keeping, check_changed};
pub(crate) use store::{DelayedPanels, FrontState, FrontStore};
pub(crate) use traverse::{Run, factorize};
pub(crate) use work::{Context, Eliminated, FrontWork, Pivots, Report};
