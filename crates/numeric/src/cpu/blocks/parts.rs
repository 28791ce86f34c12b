//! Plans and factors in parts that are written down and put together again.
//!
//! Of a plan that is which blocks there are and which engine takes each: all else follows from the pattern. Of the factors it is
//! what each engine has; the values above the blocks are those of B.

use std::ops::Range;
use std::sync::Arc;

use luge_frontal::{FrontParts, FrontalLu, FrontalScalar, PartsError, Symbolic};
use luge_sparse::{
    Cancelled, CompressedPattern, Limits, OutOfMemory, Quality, Reservation, RowPerm,
};

use super::{BlockLu, BlockPlan, Engine, Kind, Options};
use crate::cpu::columns::{ColumnLu, ColumnParts, ColumnPartsError};
use crate::cpu::entries::{Entries, load_range};
use crate::error::NumericError;

/// Into which diagonal blocks a matrix is split, and which engine takes each of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Split {
    /// First column of each block, and n at the end.
    pub block_ptr: Vec<usize>,
    /// Whether a block goes to the fronts.
    pub in_fronts: Vec<bool>,
    /// Entries that L and U of the column engine are each expected to have; 0: unknown.
    pub expected: usize,
    /// Operations that the column engine is predicted to take; 0: unknown.
    pub flops: f64,
}

/// The factors of the diagonal blocks.
#[derive(Debug, Clone)]
pub struct BlockParts<'a, F: FrontalScalar> {
    /// The blocks of the column engine, one behind the other.
    pub columns: ColumnParts<'a, F>,
    /// The blocks in fronts, in their order: the panels, ‖ |L|·|U|·e_k ‖₁ by column, and what was measured.
    pub fronts: Vec<(FrontParts<'a, F>, Vec<F::Real>, Quality)>,
}

/// Why parts are the factors of no matrix of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockPartsError {
    /// They contradict each other, or the plan.
    #[error("{what} of the factors")]
    Unsound {
        /// What is not as it can be.
        what: &'static str,
    },
    /// The memory limit does not allow them.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl From<PartsError> for BlockPartsError {
    fn from(error: PartsError) -> Self {
        match error {
            PartsError::Unsound { what } => Self::Unsound { what },
            PartsError::OutOfMemory(error) => Self::OutOfMemory(error),
        }
    }
}

impl From<ColumnPartsError> for BlockPartsError {
    fn from(error: ColumnPartsError) -> Self {
        match error {
            ColumnPartsError::Unsound { what } => Self::Unsound { what },
            ColumnPartsError::Cancelled(error) => Self::Cancelled(error),
        }
    }
}

impl Split {
    /// Whether blocks follow one another up to the last column, and no entry of a matrix with these columns lies below them.
    pub fn fits(&self, cols: &CompressedPattern) -> bool {
        let n = cols.major_dim();
        let starts = &self.block_ptr;
        let ascend = starts.is_sorted_by(|a, b| a < b);
        if !ascend || starts.first() != Some(&0) || starts.last() != Some(&n) {
            return false;
        }
        let mut blocks = starts.windows(2).map(|ends| ends[0]..ends[1]);
        self.in_fronts.len() + 1 == starts.len()
            && blocks.all(|mut block| {
                let end = block.end as u32;
                block.all(|j| cols.line(j).last().is_none_or(|&i| i < end))
            })
    }
}

impl BlockPlan {
    /// The blocks of this plan.
    pub fn parts(&self) -> Split {
        let mut split = Split {
            block_ptr: vec![0],
            in_fronts: Vec::new(),
            expected: self.expected,
            flops: self.flops,
        };
        for step in &self.steps {
            let (ends, in_fronts) = match step.kind {
                Kind::Singletons(_) => (step.columns.start + 1..step.columns.end + 1, false),
                Kind::Columns(_) => (step.columns.end..step.columns.end + 1, false),
                Kind::Front(_) => (step.columns.end..step.columns.end + 1, true),
            };
            split.in_fronts.extend(ends.clone().map(|_| in_fronts));
            split.block_ptr.extend(ends);
        }
        split
    }

    /// The plan for a matrix with these columns that has the [`parts`](Self::parts) `split`.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// If the split does not [fit](Split::fits) the columns.
    pub fn from_parts(
        cols: &CompressedPattern,
        split: &Split,
        limits: &Limits,
    ) -> Result<Self, NumericError> {
        assert!(split.fits(cols), "blocks of another matrix");
        let engine_of = |block: usize| {
            if split.in_fronts[block] {
                Engine::Fronts
            } else {
                Engine::Columns
            }
        };
        let plan = Self::with_engines(cols, &split.block_ptr, engine_of, |_| None, 1, limits)?;
        Ok(Self {
            expected: split.expected.min(16 * cols.nnz()),
            flops: split.flops,
            ..plan
        })
    }

    /// Columns that the column engine takes.
    pub fn num_columns(&self) -> usize {
        self.columns.major_dim()
    }

    /// The symbolic factorizations of the blocks in fronts, in their order.
    pub fn symbolics(&self) -> impl Iterator<Item = &Arc<Symbolic>> {
        self.fronts.iter().map(|front| &front.symbolic)
    }

    /// The diagonal blocks of the column engine, by its own columns.
    fn column_blocks(&self) -> impl Iterator<Item = Range<usize>> {
        self.steps.iter().flat_map(|step| {
            let len = step.columns.len();
            let (first, count, size) = match step.kind {
                Kind::Singletons(first) => (first, len, 1),
                Kind::Columns(first) => (first, 1, len),
                Kind::Front(_) => (0, 0, 0),
            };
            (0..count).map(move |block| first + block * size..first + (block + 1) * size)
        })
    }

    /// Bytes that the factors of the column engine take with so many entries of L below and of U above the diagonal.
    pub fn column_bytes<F: FrontalScalar>(&self, lnz: u64, unz: u64) -> u64 {
        ColumnLu::<F>::estimate_bytes(self.num_columns(), lnz, unz)
    }
}

impl<F: FrontalScalar> BlockLu<F> {
    /// What the factors are made of.
    ///
    /// # Panics
    ///
    /// If the last refactorization failed.
    #[track_caller]
    pub fn parts(&self) -> BlockParts<'_, F> {
        let fronts = self.fronts.iter();
        BlockParts {
            columns: self.columns.parts(),
            fronts: fronts
                .map(|lu| (lu.parts(), lu.products().to_vec(), *lu.quality()))
                .collect(),
        }
    }

    /// The factors that these are the [`parts`](Self::parts) of. `values` are those of B in the order of the plan, of which the
    /// ones above the blocks are taken; `memory` holds what each block in fronts takes ([`FrontalLu::parts_bytes`]), and what the
    /// columns do ([`BlockPlan::column_bytes`]).
    ///
    /// # Errors
    ///
    /// [`BlockPartsError`].
    ///
    /// # Panics
    ///
    /// If there is not one value for each entry of the plan.
    pub fn from_parts(
        plan: &Arc<BlockPlan>,
        parts: BlockParts<'_, F>,
        values: &(impl Entries<F> + ?Sized),
        memory: (Vec<Reservation>, Reservation),
        options: &Options,
    ) -> Result<Self, BlockPartsError> {
        let count = plan.source.len();
        assert_eq!(values.count(), count, "one value for each entry");
        if parts.fronts.len() != plan.fronts.len() {
            return Err(BlockPartsError::Unsound {
                what: "the number of diagonal blocks",
            });
        }
        let mut fronts = Vec::with_capacity(parts.fronts.len());
        let of_fronts = plan.symbolics().zip(parts.fronts).zip(memory.0);
        for ((symbolic, (parts, products, quality)), memory) in of_fronts {
            fronts.push(FrontalLu::from_parts(
                symbolic, parts, products, quality, memory,
            )?);
        }
        let blocks = plan.column_blocks();
        let cancel = &options.cancel;
        let columns = ColumnLu::from_parts(&plan.columns, blocks, parts.columns, memory.1, cancel)?;
        let moved: &RowPerm = columns.row_perm();
        let above_bytes = (size_of::<F>() + 4) * plan.above.nnz();
        let mut memory = options.memory.reserve((above_bytes + 16 * plan.n) as u64)?;
        let above_rows = plan.final_above(moved);
        memory.shrink_to(above_bytes as u64);
        let mut above = Vec::new();
        load_range(values, count - plan.above.nnz()..count, &mut above);
        Ok(Self {
            plan: Arc::clone(plan),
            columns,
            fronts,
            above,
            above_rows,
            room: Vec::new(),
            memory,
            is_current: true,
            part: 1.0,
        })
    }
}
