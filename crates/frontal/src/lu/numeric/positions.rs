//! Where the rows and columns of a front stand after its elimination, and back there.

use super::Worker;
use crate::kernels::FrontalScalar;
use crate::kernels::pivot::FrontPanels;
use crate::lu::Extra;

impl<F: FrontalScalar> Worker<'_, F> {
    /// Brings rows and columns, freshly assembled, into the positions of the kept pivots.
    ///
    /// # Safety
    ///
    /// The panels are valid, and the record and labels of `s` are those of a factorization.
    pub(super) unsafe fn restore_positions(
        &mut self,
        s: usize,
        extra: Option<&Extra<F>>,
        panels: &FrontPanels<F>,
        moved: bool,
    ) {
        let k = panels.k;
        let start = self.context.tree.fronts[s].start;
        match extra {
            Some(extra) => {
                self.row_from[..k].copy_from_slice(&extra.row_from);
                self.col_from[..k].copy_from_slice(&extra.col_from);
            }
            None => {
                for j in 0..k {
                    // SAFETY: a front without an extra has k labels of its own.
                    unsafe {
                        self.row_from[j] = *self.context.rows.add(start as usize + j) - start;
                        self.col_from[j] = *self.context.cols.add(start as usize + j) - start;
                    }
                }
            }
        }
        if !moved {
            return;
        }
        let (m, c) = (panels.m, panels.m - k);
        let len = k * m.max(c);
        if self.scratch.len() < len {
            self.scratch.resize(len, F::zero());
        }
        let copy = self.scratch.as_mut_ptr();
        // SAFETY: the copy has room for either panel; positions are below k.
        unsafe {
            std::ptr::copy_nonoverlapping(panels.lp, copy, k * m);
            for j in 0..k {
                let from = copy.add(self.col_from[j] as usize * m);
                let to = panels.lp.add(j * m);
                for i in 0..k {
                    *to.add(i) = *from.add(self.row_from[i] as usize);
                }
                std::ptr::copy_nonoverlapping(from.add(k), to.add(k), c);
            }
            std::ptr::copy_nonoverlapping(panels.ut, copy, k * c);
            for j in 0..k {
                let from = copy.add(self.row_from[j] as usize * c);
                std::ptr::copy_nonoverlapping(from, panels.ut.add(j * c), c);
            }
        }
    }

    /// Writes down which rows and columns the positions of front `s` hold.
    ///
    /// # Safety
    ///
    /// Only this worker touches the labels of `s`; those of its children are complete.
    pub(super) unsafe fn label(
        &self,
        s: usize,
        extra: Option<&mut Extra<F>>,
        k: usize,
        own: usize,
    ) {
        let context = self.context;
        let front = &context.tree.fronts[s];
        let start = front.start;
        match extra {
            // SAFETY: a front without an extra has k labels of its own.
            None => unsafe {
                for j in 0..k {
                    *context.rows.add(start as usize + j) = start + self.row_from[j];
                    *context.cols.add(start as usize + j) = start + self.col_from[j];
                }
            },
            Some(extra) => {
                let mut row_labels: Vec<u32> = (start..start + own as u32).collect();
                let mut col_labels = row_labels.clone();
                for &child in &context.tree.children[front.child_range()] {
                    // SAFETY: the children are complete.
                    unsafe {
                        let record = &*context.records.add(child as usize);
                        let delayed = record.pivots as usize..record.k as usize;
                        if delayed.is_empty() {
                            continue;
                        }
                        match &*context.extras.add(child as usize) {
                            Some(e) => {
                                row_labels.extend(&e.rows[delayed.clone()]);
                                col_labels.extend(&e.cols[delayed]);
                            }
                            None => {
                                let first = context.tree.fronts[child as usize].start as usize;
                                for j in delayed {
                                    row_labels.push(*context.rows.add(first + j));
                                    col_labels.push(*context.cols.add(first + j));
                                }
                            }
                        }
                    }
                }
                for j in 0..k {
                    extra.row_from[j] = self.row_from[j];
                    extra.col_from[j] = self.col_from[j];
                    extra.rows[j] = row_labels[self.row_from[j] as usize];
                    extra.cols[j] = col_labels[self.col_from[j] as usize];
                }
            }
        }
    }
}
