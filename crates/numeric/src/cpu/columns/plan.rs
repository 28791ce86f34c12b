//! What a refactorization knows in advance.

use std::ops::Range;

use luge_sparse::etree::{NONE, try_elimination_tree};
use luge_sparse::{CancelFlag, Cancelled, CompressedPattern, Scalar};

use super::ColumnLu;
use super::changed::Kept;
use super::check::{Sums, is_negative};
use super::refactorize::{Progress, Scratch};

/// Columns between two looks at the cancel flag.
const STRIDE: usize = 256;

/// Columns of L shorter than this on average are subtracted by a list of products.
const LISTED: usize = 8;

/// Columns longer than this are not listed: places in them have 16 bits.
pub(super) const MOST_LISTED: usize = u16::MAX as usize;

/// Multiplications below which a second thread costs more than it saves.
const WORTH_THREADS: u64 = 40_000;

/// Tasks per thread, so that threads get done at about the same time.
const TASKS_PER_THREAD: u64 = 12;

/// Multiplications of a column above the tasks, on average, from which on they are worth being shared
/// among threads.
const WORTH_SHARING: u64 = 500;

/// Subtract L(lower) · x(upper) from x(to), where x is the column under way: U, the pivot, L.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub(super) lower: u32,
    pub(super) to: u16,
    pub(super) upper: u16,
}

/// How to compute a column.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Where the column starts among the entries of B, L and U, and where its products start.
    pub(super) b: usize,
    pub(super) lower: usize,
    pub(super) upper: usize,
    pub(super) products: usize,
    pub(super) num_b: u32,
    pub(super) num_lower: u32,
    pub(super) num_upper: u32,
    pub(super) num_products: u32,
    pub(super) column: u32,
    pub(super) listed: bool,
}

/// The part of the plan that stays as it is.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    n: usize,
    /// Longest listed column.
    longest: usize,
    /// Each column after those that it subtracts: the tasks one by one, then the columns above.
    pub(super) steps: Vec<Step>,
    /// Where each task starts among the steps, and where the columns above start.
    pub(super) task_ptr: Vec<usize>,
    /// By column.
    pub(super) is_above: Vec<bool>,
    /// Whether the columns above the tasks are shared among threads.
    pub(super) pipelined: bool,
    /// By entry of B: its place in a listed column and, as the lowest bit, whether its row's weight is
    /// −1; its row in a scattered one.
    pub(super) places: Vec<u32>,
    pub(super) products: Vec<Product>,
    /// By entry of U: how many columns from here on are subtracted together.
    pub(super) widths: Vec<u8>,
    /// Start of each column of L.
    pub(super) lower_ptr: Vec<usize>,
    /// Multiplications.
    pub(super) work: u64,
}

impl Layout {
    pub(super) fn tasks(&self) -> usize {
        self.task_ptr.len() - 1
    }

    /// The steps of a task, and those above the tasks.
    pub(super) fn task(&self, task: usize) -> Range<usize> {
        self.task_ptr[task]..self.task_ptr[task + 1]
    }

    pub(super) fn above(&self) -> Range<usize> {
        self.task_ptr[self.tasks()]..self.steps.len()
    }

    /// Multiplications and entries of a step; `upper` has the rows of U by columns.
    pub(super) fn work_of(&self, step: usize, upper: &[u32]) -> u64 {
        let step = &self.steps[step];
        let (num_upper, num_lower) = (step.num_upper as usize, step.num_lower as usize);
        let products = if step.listed {
            step.num_products as usize
        } else {
            let above = upper[step.upper..step.upper + num_upper].iter();
            let lower_ptr = &self.lower_ptr;
            above
                .map(|&j| lower_ptr[j as usize + 1] - lower_ptr[j as usize])
                .sum()
        };
        (products + num_upper + 1 + num_lower) as u64
    }

    pub(super) fn scratch<F: Scalar>(&self) -> Scratch<F> {
        Scratch::new(self.n, self.longest)
    }
}

/// What [`ColumnLu::refactorize`] keeps from call to call.
#[derive(Debug, Clone)]
pub(super) struct Plan<F: Scalar> {
    pub(super) layout: Layout,
    pub(super) scratch: Vec<Scratch<F>>,
    /// The entries of B: columns come in another order than they are stored, and what is scattered is
    /// better fetched in one sweep.
    pub(super) b: Vec<F>,
    pub(super) sums: Vec<Sums<F::Wide>>,
    pub(super) progress: Progress,
    /// Made by the first call that is told what changed.
    pub(super) kept: Option<Kept>,
    /// Whether it is not to be made, since memory is short.
    pub(super) keeps_nothing: bool,
}

impl<F: Scalar> Plan<F> {
    /// Products that are subtracted from column `k`, and whether they are listed.
    fn of_column(lu: &ColumnLu<F>, k: usize) -> (usize, bool) {
        let (above, below) = (lu.upper(k).0, lu.lower(k).0);
        let count: usize = above.iter().map(|&j| lu.lower(j as usize).0.len()).sum();
        let listed = count <= LISTED * above.len()
            && above.len() + 1 + below.len() <= MOST_LISTED
            && lu.lnz() <= u32::MAX as usize;
        (count, listed)
    }

    /// Products that the plan will list.
    pub(super) fn num_products(
        lu: &ColumnLu<F>,
        cols: &CompressedPattern,
        cancel: &CancelFlag,
    ) -> Result<usize, Cancelled> {
        let mut sum = 0;
        for k in 0..cols.major_dim() {
            if k.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            let (count, listed) = Self::of_column(lu, k);
            sum += if listed { count } else { 0 };
        }
        Ok(sum)
    }

    /// The plan for `lu`, the factors of a matrix with pattern `cols`, which lists so many products.
    pub(super) fn new(
        lu: &ColumnLu<F>,
        cols: &CompressedPattern,
        num_products: usize,
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        let n = lu.n();
        let final_row = lu.row_perm.inverse();
        let mut places: Vec<u32> = cols.idx().iter().map(|&i| final_row[i as usize]).collect();
        let mut products = Vec::with_capacity(num_products);
        let mut widths = vec![1u8; lu.unz()];
        // Column j continues with the rows of column j + 1.
        let is_chained: Vec<bool> = (0..n)
            .map(|j| {
                let rows = lu.lower(j).0;
                rows.first() == Some(&(j as u32 + 1)) && rows[1..] == *lu.lower(j + 1).0
            })
            .collect();
        let mut place_of = vec![0u16; n];
        let mut work = vec![0u64; n];
        let mut longest = 0;
        let mut steps: Vec<Step> = Vec::with_capacity(n);
        cancel.check()?;
        for k in 0..n {
            if k.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            let (above, below) = (lu.upper(k).0, lu.lower(k).0);
            let len = above.len() + 1 + below.len();
            let (num_products, listed) = Self::of_column(lu, k);
            let range = cols.range(k);
            let first_product = products.len();
            if listed {
                longest = longest.max(len);
                let column = above.iter().copied().chain([k as u32]);
                for (place, row) in column.chain(below.iter().copied()).enumerate() {
                    place_of[row as usize] = place as u16;
                }
                for place in &mut places[range.clone()] {
                    *place = u32::from(place_of[*place as usize]) << 1 | is_negative(*place);
                }
                for (p, &j) in above.iter().enumerate() {
                    for q in lu.lower.range(j as usize) {
                        products.push(Product {
                            lower: q as u32,
                            to: place_of[lu.lower.idx[q] as usize],
                            upper: p as u16,
                        });
                    }
                }
            } else {
                let widths = &mut widths[lu.upper.range(k)];
                let mut p = 0;
                while p < above.len() {
                    let mut width = 1;
                    while width < 4
                        && p + width < above.len()
                        && is_chained[above[p + width - 1] as usize]
                        && above[p + width] == above[p] + width as u32
                    {
                        width += 1;
                    }
                    widths[p] = width as u8;
                    p += width;
                }
            }
            work[k] = (num_products + len) as u64;
            steps.push(Step {
                b: range.start,
                lower: lu.lower.ptr[k],
                upper: lu.upper.ptr[k],
                products: first_product,
                num_b: range.len() as u32,
                num_lower: below.len() as u32,
                num_upper: above.len() as u32,
                num_products: if listed { num_products as u32 } else { 0 },
                column: k as u32,
                listed,
            });
        }
        cancel.check()?;
        let mut cut = Cut::new(lu, &work, cancel)?;
        cut.gather_alike(lu, &steps, cancel)?;
        let steps = cut
            .order
            .iter()
            .map(|&k| steps[k as usize].clone())
            .collect();
        let layout = Layout {
            n,
            longest,
            steps,
            task_ptr: cut.task_ptr,
            is_above: cut.is_above,
            pipelined: cut.pipelined,
            places,
            products,
            widths,
            lower_ptr: lu.lower.ptr.clone(),
            work: work.iter().sum(),
        };
        Ok(Self {
            layout,
            scratch: Vec::new(),
            b: Vec::new(),
            sums: vec![Sums::default(); n],
            progress: Progress::new(n),
            kept: None,
            keeps_nothing: false,
        })
    }

    /// How many of `threads` pay for themselves in so many multiplications.
    pub(super) fn useful_threads(work: u64, threads: usize) -> usize {
        if work < WORTH_THREADS {
            1
        } else {
            threads.clamp(1, 256)
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let layout = &self.layout;
        let scratch: usize = self
            .scratch
            .iter()
            .map(|s| size_of_val(&*s.x) + size_of_val(&*s.column))
            .sum();
        (size_of_val(&*layout.steps)
            + size_of_val(&*layout.task_ptr)
            + size_of_val(&*layout.is_above)
            + size_of_val(&*layout.places)
            + size_of_val(&*layout.products)
            + size_of_val(&*layout.widths)
            + size_of_val(&*layout.lower_ptr)
            + size_of_val(&*self.b)
            + size_of_val(&*self.sums)
            + scratch) as u64
            + self.progress.bytes()
            + self.kept.as_ref().map_or(0, Kept::bytes)
    }
}

/// The elimination tree cut into tasks.
struct Cut {
    order: Vec<u32>,
    task_ptr: Vec<usize>,
    is_above: Vec<bool>,
    pipelined: bool,
}

impl Cut {
    fn new<F: Scalar>(
        lu: &ColumnLu<F>,
        work: &[u64],
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        let n = lu.n();
        // Of U + Uᵀ: all columns that subtract column j are its ancestors.
        let joined = |k: u32| lu.upper(k as usize).0.iter().copied();
        let parent = try_elimination_tree(n, joined, || cancel.check())?;
        let mut below = work.to_vec();
        for k in 0..n {
            if parent[k] != NONE {
                below[parent[k] as usize] += below[k];
            }
        }
        let total: u64 = work.iter().sum();
        // The tasks are the same for any number of threads: so is the order of the steps.
        let largest = total / (4 * TASKS_PER_THREAD) + 1;
        let is_above: Vec<bool> = (0..n).map(|k| below[k] > largest).collect();
        // The root of the task's subtree, from the top down.
        let mut root: Vec<u32> = (0..n as u32).collect();
        for k in (0..n).rev() {
            let up = parent[k];
            if !is_above[k] && up != NONE && !is_above[up as usize] {
                root[k] = root[up as usize];
            }
        }
        // Subtrees in order of their roots, gathered until a task is large enough.
        let mut task_of_root = vec![NONE; n];
        let (mut tasks, mut gathered) = (0u32, 0);
        for k in 0..n {
            if root[k] as usize == k && !is_above[k] {
                task_of_root[k] = tasks;
                gathered += below[k];
                if gathered > largest / 2 {
                    (tasks, gathered) = (tasks + 1, 0);
                }
            }
        }
        if gathered > 0 {
            tasks += 1;
        }
        let mut task_ptr = vec![0usize; tasks as usize + 1];
        let task_of = |k: usize| {
            if is_above[k] {
                tasks as usize
            } else {
                task_of_root[root[k] as usize] as usize
            }
        };
        let mut sizes = vec![0usize; tasks as usize + 1];
        for k in 0..n {
            sizes[task_of(k)] += 1;
        }
        for task in 0..tasks as usize {
            task_ptr[task + 1] = task_ptr[task] + sizes[task];
        }
        let mut next = task_ptr.clone();
        let mut order = vec![0u32; n];
        for k in 0..n {
            let at = &mut next[task_of(k)];
            order[*at] = k as u32;
            *at += 1;
        }
        cancel.check()?;
        let count = is_above.iter().filter(|&&above| above).count() as u64;
        let work_above: u64 = (0..n).filter(|&k| is_above[k]).map(|k| work[k]).sum();
        Ok(Self {
            order,
            task_ptr,
            pipelined: work_above > WORTH_SHARING * count,
            is_above,
        })
    }
}

impl Cut {
    /// Puts columns of the same shape one after the other, as far as each still comes after those
    /// that it subtracts: the processor then knows how long their loops are.
    fn gather_alike<F: Scalar>(
        &mut self,
        lu: &ColumnLu<F>,
        steps: &[Step],
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let n = lu.n();
        // Columns of equal depth do not subtract each other.
        let mut depth = vec![0u32; n];
        for k in 0..n {
            if k.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            let deepest = lu.upper(k).0.iter().map(|&j| depth[j as usize] + 1).max();
            depth[k] = deepest.unwrap_or(0);
        }
        for task in self.task_ptr.windows(2) {
            cancel.check()?;
            let columns = &mut self.order[task[0]..task[1]];
            if columns.iter().all(|&k| steps[k as usize].listed) {
                columns.sort_by_key(|&k| {
                    let step = &steps[k as usize];
                    let (products, upper) = (step.num_products, step.num_upper);
                    (
                        depth[k as usize],
                        products,
                        upper,
                        step.num_lower,
                        step.num_b,
                    )
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::columns::Options;

    /// The factors of a matrix with a dominant diagonal and these other entries, (row, column).
    fn factorized(n: usize, others: &[(usize, usize)]) -> (ColumnLu<f64>, CompressedPattern) {
        let mut columns: Vec<Vec<u32>> = (0..n as u32).map(|j| vec![j]).collect();
        for &(i, j) in others {
            columns[j].push(i as u32);
        }
        let (mut ptr, mut values) = (vec![0], Vec::new());
        for (j, rows) in columns.iter_mut().enumerate() {
            rows.sort_unstable();
            let value = |&i: &u32| if i as usize == j { 2.0 * n as f64 } else { 1.0 };
            values.extend(rows.iter().map(value));
            ptr.push(values.len() as u64);
        }
        let cols = CompressedPattern::new(n, ptr, columns.concat()).unwrap();
        let (lu, _) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
        (lu, cols)
    }

    #[test]
    fn products_of_short_columns_are_listed() {
        // Column 2 subtracts two columns of L, of eight rows on average or a little more.
        for (of_first, of_second, is_listed) in [(8, 8, true), (1, 15, true), (8, 9, false)] {
            let first = (3..3 + of_first).map(|i| (i, 0));
            let second = (3..3 + of_second).map(|i| (i, 1));
            let above = [(0, 2), (1, 2)];
            let (lu, cols) = factorized(18, &first.chain(second).chain(above).collect::<Vec<_>>());
            let count = of_first + of_second;
            assert_eq!(Plan::of_column(&lu, 2), (count, is_listed));
            // There is nothing to subtract from the others.
            assert_eq!(Plan::of_column(&lu, 0), (0, true));
            let listed = Plan::num_products(&lu, &cols, &CancelFlag::new()).unwrap();
            assert_eq!(listed, if is_listed { count } else { 0 });
        }
    }

    #[test]
    fn places_in_listed_columns_have_sixteen_bits() {
        let n = MOST_LISTED + 1;
        for (first_row, is_listed) in [(2, true), (1, false)] {
            let below: Vec<_> = (first_row..n).map(|i| (i, 0)).collect();
            let (lu, _) = factorized(n, &below);
            assert_eq!(lu.lower(0).0.len(), n - first_row);
            assert_eq!(Plan::of_column(&lu, 0), (0, is_listed));
        }
    }

    #[test]
    fn a_plan_reports_the_bytes_of_each_of_its_arrays() {
        // A full matrix of order 3: L and U have three entries each, and the columns subtract 0, 2 and 2 + 1 products.
        let cols = CompressedPattern::new(3, vec![0, 3, 6, 9], [0, 1, 2].repeat(3)).unwrap();
        let values = [4.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 4.0];
        let (lu, _) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
        let cancel = CancelFlag::new();
        let num_products = Plan::num_products(&lu, &cols, &cancel).unwrap();
        assert_eq!(num_products, 5);
        let mut plan = Plan::new(&lu, &cols, num_products, &cancel).unwrap();
        // What a refactorization by two threads adds.
        plan.b = values.to_vec();
        plan.scratch = vec![plan.layout.scratch(), plan.layout.scratch()];

        let word = size_of::<usize>();
        // All three columns are above the tasks, of which there are none.
        let order = 3 * size_of::<Step>() + word + 3;
        let entries = 9 * 4 + 5 * size_of::<Product>() + 3 + 4 * word;
        let numbers = 9 * 8 + 3 * 16 + 2 * (3 + 3) * 8 + 3 * 4;
        assert_eq!(plan.bytes(), (order + entries + numbers) as u64);
    }
}
