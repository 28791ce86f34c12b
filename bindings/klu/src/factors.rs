//! The factors of a matrix: found, renewed, and shown to the caller.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use luge_numeric::NumericError;
use luge_numeric::cpu::Entries;
use luge_numeric::cpu::blocks::{self, BlockLu};
use luge_sparse::{CancelFlag, MemoryBudget, PivotPolicy, Quality};

use crate::analysis::Analysis;
use crate::call::{Control, Field, Outcome};
use crate::layout::{Integer, Numeric};
use crate::scale::{Scaling, scale_factors};
use crate::shown::Shown;

/// A refactorization whose growth is above this, and above [`GROWN`] times that of the search for its pivots, searches others.
const MAX_GROWTH: f64 = 1e8;

/// Growth that comes with the matrix, and not with stale pivots, is no reason to search again and again.
const GROWN: f64 = 10.0;

/// The factors of a matrix.
pub(crate) struct Factors<I, F: luge_frontal::FrontalScalar> {
    pub(crate) analysis: Arc<Analysis<I>>,
    /// None as long as no pivots were found.
    lu: Option<BlockLu<F>>,
    /// Whether `lu` are the factors of the last matrix.
    is_valid: bool,
    /// When pivots were last searched.
    searched_growth: f64,
    /// What the rows of A are divided by; None without scaling.
    pub(crate) scale: Option<Vec<f64>>,
    /// Row k of the factors is this row of A.
    pub(crate) rows: Vec<u32>,
    shown: Arrays<I, F>,
    /// Of right-hand sides, kept from call to call.
    pub(crate) vectors: Vec<F>,
    /// What the caller's `klu_common` counts of all this.
    pub(crate) bytes: usize,
}

/// What the caller sees of it.
struct Arrays<I, F> {
    pnum: Shown<I>,
    pinv: Shown<I>,
    llen: Shown<I>,
    ulen: Shown<I>,
    udiag: Shown<F>,
    /// In the order of the pivots, as KLU has it; None without scaling.
    rs: Option<Shown<f64>>,
    offp: Shown<I>,
    offi: Shown<I>,
    offx: Shown<F>,
}

/// The values of the caller in the order of the plan, scaled when they are read.
struct Scaled<'a, F> {
    source: &'a [u32],
    rows: &'a [u32],
    values: &'a [F],
    scale: Option<&'a [f64]>,
}

impl<F: Field> Entries<F> for Scaled<'_, F> {
    fn count(&self) -> usize {
        self.source.len()
    }

    #[inline]
    fn load(&self, first: usize, into: &mut [F]) {
        let range = first..first + into.len();
        let values = self.source[range.clone()].iter();
        let values = values.map(|&p| self.values[p as usize]);
        match self.scale {
            None => into
                .iter_mut()
                .zip(values)
                .for_each(|(to, from)| *to = from),
            Some(scale) => {
                for ((to, from), &row) in into.iter_mut().zip(values).zip(&self.rows[range]) {
                    *to = from.over_real(scale[row as usize]);
                }
            }
        }
    }
}

/// Where a factorization ended.
pub(crate) enum Ended<T> {
    WithPivots(T),
    /// The column of the permuted matrix that has no pivot.
    Singular(usize),
}

fn pivots_or<T>(outcome: Result<T, NumericError>) -> Outcome<Ended<T>> {
    match outcome {
        Ok(found) => Ok(Ended::WithPivots(found)),
        Err(NumericError::ZeroPivot { column } | NumericError::NotFinite { column }) => {
            Ok(Ended::Singular(column))
        }
        Err(error) => Err(error.into()),
    }
}

fn options(tol: f64) -> blocks::Options {
    blocks::Options {
        pivots: PivotPolicy::threshold(tol),
        threads: 1,
        max_bytes: None,
        memory: MemoryBudget::unlimited(),
        cancel: CancelFlag::new(),
        ranks: None,
    }
}

impl<I: Integer, F: Field> Factors<I, F> {
    /// Without factors: rows in the order of the analysis, zero pivots.
    pub(crate) fn new(analysis: Arc<Analysis<I>>) -> Self {
        let n = analysis.n();
        let zeros = || Shown::new(vec![I::of(0); n]);
        let shown = Arrays {
            pnum: zeros(),
            pinv: zeros(),
            llen: zeros(),
            ulen: zeros(),
            udiag: Shown::new(vec![F::zero(); n]),
            rs: None,
            offp: Shown::new(vec![I::of(0); n + 1]),
            offi: Shown::new(vec![I::of(0); analysis.num_above]),
            offx: Shown::new(vec![F::zero(); analysis.num_above]),
        };
        Self {
            lu: None,
            is_valid: false,
            searched_growth: f64::INFINITY,
            scale: None,
            rows: analysis.rows.clone(),
            shown,
            vectors: Vec::new(),
            bytes: 0,
            analysis,
        }
    }

    /// Takes another pattern; factors of it must be searched.
    pub(crate) fn adopt(&mut self, analysis: Arc<Analysis<I>>) {
        self.lu = None;
        self.is_valid = false;
        self.rows.clone_from(&analysis.rows);
        self.shown.offi = Shown::new(vec![I::of(0); analysis.num_above]);
        self.shown.offx = Shown::new(vec![F::zero(); analysis.num_above]);
        self.analysis = analysis;
    }

    /// The factors of the last matrix, if it has some.
    pub(crate) fn lu(&self) -> Option<&BlockLu<F>> {
        self.lu.as_ref().filter(|_| self.is_valid)
    }

    fn entries<'a>(&'a self, values: &'a [F]) -> Scaled<'a, F> {
        Scaled {
            source: self.analysis.plan.source(),
            rows: &self.analysis.entry_rows,
            values,
            scale: self.scale.as_deref(),
        }
    }

    /// Searches pivots. If there are none, the old factors stay.
    pub(crate) fn search(&mut self, values: &[F], tol: f64) -> Outcome<Ended<usize>> {
        let plan = &self.analysis.plan;
        let found = pivots_or(BlockLu::factorize(
            plan,
            &self.entries(values),
            &options(tol),
        ))?;
        let (lu, quality) = match found {
            Ended::WithPivots(found) => found,
            Ended::Singular(column) => return Ok(Ended::Singular(column)),
        };
        self.searched_growth = quality.growth;
        self.rows.clone_from(&self.analysis.rows);
        if let Some(exchanges) = lu.row_perm() {
            let exchanged = exchanges.as_slice().iter();
            self.rows = exchanged.map(|&i| self.analysis.rows[i as usize]).collect();
        }
        self.lu = Some(lu);
        self.is_valid = true;
        Ok(Ended::WithPivots(quality.num_off_diagonal))
    }

    /// New values on the pivots that are there, unless these do not serve.
    pub(crate) fn renew(&mut self, values: &[F], tol: f64) -> Outcome<Ended<Option<usize>>> {
        let searched = |ended| match ended {
            Ended::WithPivots(count) => Ended::WithPivots(Some(count)),
            Ended::Singular(column) => Ended::Singular(column),
        };
        self.is_valid = false;
        let Some(mut lu) = self.lu.take() else {
            return self.search(values, tol).map(searched);
        };
        let mut quality = Quality::default();
        let renewed = lu.refactorize(&self.entries(values), &options(tol), &mut quality);
        self.lu = Some(lu);
        match pivots_or(renewed)? {
            Ended::Singular(_) => self.search(values, tol).map(searched),
            Ended::WithPivots(()) => {
                let limit = MAX_GROWTH.max(GROWN * self.searched_growth);
                self.is_valid = true;
                if quality.growth <= limit {
                    return Ok(Ended::WithPivots(None));
                }
                // Without better ones, those that are there are what KLU would have, too.
                Ok(match self.search(values, tol)? {
                    Ended::WithPivots(count) => Ended::WithPivots(Some(count)),
                    Ended::Singular(_) => Ended::WithPivots(None),
                })
            }
        }
    }

    /// Writes the values that the caller sees, and with `pivots` what follows from these.
    pub(crate) fn show(&mut self, public: &mut Numeric<I>, pivots: bool) {
        self.show_scale(public);
        public.nblocks = I::of(self.analysis.block_ptr.len() - 1);
        public.nzoff = I::of(self.analysis.num_above);
        public.offi = self.shown.offi.pointer();
        public.offx = self.shown.offx.pointer().cast::<c_void>();
        let Some(lu) = self.lu() else {
            self.shown.udiag.write(std::iter::repeat(F::zero()));
            return;
        };
        let (n, columns) = (self.analysis.n(), lu.columns());
        self.shown.udiag.write(columns.pivots().iter().copied());
        let above = || (0..n).flat_map(|j| lu.above(j));
        self.shown.offx.write(above().map(|(_, value)| value));
        if !pivots {
            return;
        }
        let mut inverse = vec![I::of(0); n];
        for (k, &row) in self.rows.iter().enumerate() {
            inverse[row as usize] = I::of(k);
        }
        let rows = self.rows.iter().map(|&row| I::of(row as usize));
        self.shown.pnum.write(rows);
        self.shown.pinv.write(inverse.into_iter());
        let (lower, upper) = (|j| columns.lower(j).0.len(), |j| columns.upper(j).0.len());
        self.shown.llen.write((0..n).map(lower).map(I::of));
        self.shown.ulen.write((0..n).map(upper).map(I::of));
        self.shown.offi.write(above().map(|(i, _)| I::of(i)));
        let mut end = 0;
        let ends = (0..n).map(|j| {
            end += lu.above(j).count();
            I::of(end)
        });
        self.shown.offp.write(std::iter::once(I::of(0)).chain(ends));
        public.lnz = I::of(columns.lnz() + n);
        public.unz = I::of(columns.unz() + n);
        let most = |of: &dyn Fn(usize) -> usize| {
            let of_blocks = self.analysis.blocks();
            let sums = of_blocks.map(|block| block.map(|j| 1 + of(j)).sum::<usize>());
            I::of(sums.max().unwrap_or(0))
        };
        public.max_lnz_block = most(&lower);
        public.max_unz_block = most(&upper);
    }

    fn show_scale(&mut self, public: &mut Numeric<I>) {
        self.shown.rs = self.scale.as_ref().map(|scale| {
            let shown = self.shown.rs.take();
            let shown = shown.unwrap_or_else(|| Shown::new(vec![1.0; scale.len()]));
            shown.write(self.rows.iter().map(|&row| scale[row as usize]));
            shown
        });
        public.rs = self
            .shown
            .rs
            .as_ref()
            .map_or(ptr::null_mut(), Shown::pointer);
    }

    /// The structure for the caller, with zeros where nothing is known yet.
    pub(crate) fn public(&self) -> Numeric<I> {
        let shown = &self.shown;
        Numeric {
            n: I::of(self.analysis.n()),
            nblocks: I::of(self.analysis.block_ptr.len() - 1),
            lnz: I::of(0),
            unz: I::of(0),
            max_lnz_block: I::of(0),
            max_unz_block: I::of(0),
            pnum: shown.pnum.pointer(),
            pinv: shown.pinv.pointer(),
            lip: ptr::null_mut(),
            uip: ptr::null_mut(),
            llen: shown.llen.pointer(),
            ulen: shown.ulen.pointer(),
            lubx: ptr::null_mut(),
            lusize: ptr::null_mut(),
            udiag: shown.udiag.pointer().cast::<c_void>(),
            rs: ptr::null_mut(),
            worksize: 0,
            work: ptr::null_mut(),
            xwork: ptr::null_mut(),
            iwork: ptr::null_mut(),
            offp: shown.offp.pointer(),
            offi: shown.offi.pointer(),
            offx: shown.offx.pointer().cast::<c_void>(),
            nzoff: I::of(self.analysis.num_above),
        }
    }

    /// Counts the bytes that are held now.
    pub(crate) fn count(&mut self, control: Control<I>) {
        let Arrays {
            pnum,
            pinv,
            llen,
            ulen,
            udiag,
            rs,
            offp,
            offi,
            offx,
        } = &self.shown;
        let integers = [pnum, pinv, llen, ulen, offp, offi];
        let shown: usize = integers.iter().map(|list| list.bytes()).sum();
        // There is one array for the caller and one for the solves.
        let scale = 2 * rs.as_ref().map_or(0, Shown::bytes);
        let lu = self.lu.as_ref().map_or(0, |lu| lu.bytes() as usize);
        let own = size_of_val(&*self.rows) + udiag.bytes() + offx.bytes();
        let bytes = shown + scale + lu + own;
        control.count_bytes(bytes, self.bytes);
        self.bytes = bytes;
    }
}

impl<I: Integer, F: Field> Factors<I, F> {
    /// Finds the scale factors of new values.
    pub(crate) fn rescale(&mut self, values: &[F], scaling: Scaling) {
        let columns = self.analysis.columns();
        let found = scaling
            .is_wanted()
            .then(|| scale_factors(scaling, columns, values));
        self.scale = found;
    }
}
