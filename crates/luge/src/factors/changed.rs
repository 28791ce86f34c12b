//! Renewal where only some values changed.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use luge_sparse::Scalar;

use super::{Computed, Factors, RENEWAL_PER_ENTRY, work_bytes};
#[cfg(feature = "gpu")]
use crate::device_analysis::{NewValues, ResidentEngine};
use crate::error::Error;
use crate::host::KeptValues;
use crate::host_path::HostPath;
#[cfg(doc)]
use crate::inform::Inform;
use crate::path::{Path, Plan};
use crate::reductions::largest_magnitude;
use crate::shared::Shared;
use crate::task::{Journal, Refactorized, Task};

/// Entries that changed, as callers store them.
struct Changes<'a, T: Copy> {
    /// In ascending order, each once.
    places: Cow<'a, [usize]>,
    values: Cow<'a, [T]>,
}

impl<'a, T: Scalar> Changes<'a, T> {
    fn new(shared: &Shared, places: &'a [usize], values: &'a [T]) -> Result<Self, Error> {
        let nnz = shared.stored_nnz();
        if places.len() != values.len() {
            return Err(Error::OtherCount {
                places: places.len(),
                values: values.len(),
            });
        }
        if let Some(&place) = places.iter().find(|&&place| place >= nnz) {
            return Err(Error::NoEntry { place, nnz });
        }
        if let Some(at) = values.iter().position(|value| !value.is_number()) {
            return Err(shared.not_finite(places[at]));
        }
        if places.is_sorted_by(|a, b| a < b) {
            return Ok(Self {
                places: Cow::Borrowed(places),
                values: Cow::Borrowed(values),
            });
        }
        let mut pairs: Vec<(usize, T)> =
            places.iter().copied().zip(values.iter().copied()).collect();
        pairs.sort_by_key(|&(place, _)| place);
        let twice = pairs
            .windows(2)
            .find(|two| two[0].0 == two[1].0 && two[0].1 != two[1].1);
        if let Some(two) = twice {
            return Err(Error::TwoValues { place: two[0].0 });
        }
        pairs.dedup_by_key(|&mut (place, _)| place);
        let (places, values): (Vec<usize>, Vec<T>) = pairs.into_iter().unzip();
        Ok(Self {
            places: Cow::Owned(places),
            values: Cow::Owned(values),
        })
    }

    /// Puts the values to their places.
    fn write(&self, all: &mut [T]) {
        for (&place, &value) in self.places.iter().zip(&*self.values) {
            all[place] = value;
        }
    }
}

impl<T: Scalar> Factors<T> {
    /// As [`refactorize_values`](Self::refactorize_values) with all values of the matrix, where only those at some `places`
    /// have changed: places are positions among the stored entries of the analyzed matrix, in any order, and `values` the
    /// new values there. The outcome is the same, bit for bit: factors, solutions, what is measured, and what is done where
    /// old pivots do not serve.
    ///
    /// Only columns and fronts on the paths from these entries to the roots are factorized again, so a few
    /// entries cost little; [`Inform::refactorized_part`] tells how much was done. That takes what was measured of the others,
    /// and elements of theirs, which are kept from the first such call on: the first one, and one after an error, after new pivots
    /// were searched, or where small pivots are replaced, does all. What follows from a set of places is remembered, so calls for
    /// the same set, as in a loop over time steps, cost least.
    ///
    /// On a device that holds for general matrices with [`DeviceEngine::Tree`](crate::DeviceEngine::Tree). The values that changed
    /// cross, and no others; the first call plans the tree once more on the host, the first for a set of places its fronts. Memory
    /// for the elements that are kept is taken where at least half of what is left on the device stays free. All is factorized
    /// without it, and of symmetric matrices, by columns, by several devices, and where factors are kept elsewhere.
    ///
    /// # Errors
    ///
    /// [`Error::OtherCount`] if there is not one value for each place, [`Error::NoEntry`] for a place that no entry has,
    /// [`Error::TwoValues`] for a place that comes twice with different values, and those of
    /// [`refactorize`](Self::refactorize). After an error these are still the factors of the last matrix.
    pub fn refactorize_changed(
        &mut self,
        places: &[usize],
        values: &[T],
    ) -> Result<Refactorized, Error> {
        let plan = Arc::clone(&self.plan);
        let shared = &plan.shared;
        let changes = Changes::new(shared, places, values)?;
        shared.limits.cancel.check()?;
        let outcome = match &plan.path {
            Path::Host(path) if shared.symmetry.is_none() => {
                self.renew_some(path, &plan, &changes)?
            }
            #[cfg(feature = "gpu")]
            Path::Device(_) if shared.symmetry.is_none() && self.computed.has_values() => {
                self.renew_some_there(&plan, &changes)?
            }
            _ => self.renew_with(&plan, &changes)?,
        };
        self.refactorized_part = Some(match (&self.computed, &outcome) {
            (Computed::Host(host), Refactorized::Reused { .. }) => host.engine.refactorized_part(),
            #[cfg(feature = "gpu")]
            (Computed::Device(device), Refactorized::Reused { .. }) => {
                let engine = device.engine.resident();
                engine.map_or(1.0, ResidentEngine::refactorized_part)
            }
            _ => 1.0,
        });
        Ok(outcome)
    }

    /// Factorizes all values, in the order in which callers store them, with these changes.
    fn renew_with(
        &mut self,
        plan: &Plan<T::Wide>,
        changes: &Changes<'_, T>,
    ) -> Result<Refactorized, Error> {
        let shared = &plan.shared;
        let nnz = shared.stored_nnz();
        let _of_values = shared
            .limits
            .reserve(luge_sparse::bytes_of::<T>(nnz), "numeric")?;
        let mut stored = shared.stored_part(self.values()?).into_owned();
        changes.write(&mut stored);
        let seconds = RENEWAL_PER_ENTRY * nnz as f64;
        shared.threads.run(seconds, |threads| {
            if matches!(self.computed, Computed::Host(_)) {
                let (values, largest) = shared.accepted(Cow::Owned(stored), threads)?;
                let changed = shared.whole_places(&changes.places);
                return self.renew_on_host(plan, values, largest, Some(&changed), threads);
            }
            self.renew(plan, Cow::Owned(stored), threads)
        })
    }

    /// Changes the values of a general matrix in their place, and factorizes what depends on them.
    fn renew_some(
        &mut self,
        path: &HostPath<T::Wide>,
        plan: &Plan<T::Wide>,
        changes: &Changes<'_, T>,
    ) -> Result<Refactorized, Error> {
        let shared = &plan.shared;
        let work = work_bytes::<T>(shared.n(), shared.nnz());
        let _of_work = shared.limits.reserve(work, "numeric")?;
        let (Some(kept), Computed::Host(factors)) = (self.values.get_mut(), &mut self.computed)
        else {
            unreachable!("values that never left the host")
        };
        let mut largest = self
            .largest
            .unwrap_or_else(|| largest_magnitude(&kept[..], 1));
        let before = Changes {
            places: Cow::Borrowed(&*changes.places),
            values: changes.places.iter().map(|&place| kept[place]).collect(),
        };
        let held_largest = largest_magnitude(&before.values, 1) >= largest;
        // Factors that are to be restored keep values of their own.
        let all = Arc::make_mut(kept);
        changes.write(all);
        largest = if held_largest {
            largest_magnitude(all, 1)
        } else {
            largest.max(largest_magnitude(&changes.values, 1))
        };
        let norms = OnceLock::new();
        let mut journal = Journal::after(&self.analyzed);
        let in_wide = T::in_wide(all);
        let task = Task {
            shared,
            a: shared.view(all),
            values: &in_wide,
            largest,
            norms: &norms,
        };
        let outcome = path.try_refactorize(factors, Some(&changes.places), task, &mut journal);
        drop(in_wide);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                before.write(&mut Arc::make_mut(kept)[..]);
                // They were factors before, with these very pivots.
                let old: Arc<dyn KeptValues<T::Wide>> = Arc::<Vec<T>>::clone(kept);
                factors.engine.restore(&old);
                return Err(error);
            }
        };
        self.accept(norms, journal)?;
        self.largest = Some(largest);
        Ok(outcome)
    }

    /// Sends the values that changed to the device, which has the others, and factorizes what depends on them there.
    #[cfg(feature = "gpu")]
    fn renew_some_there(
        &mut self,
        plan: &Plan<T::Wide>,
        changes: &Changes<'_, T>,
    ) -> Result<Refactorized, Error> {
        // There are no more than indices of 32 bits.
        let places: Vec<u32> = changes.places.iter().map(|&place| place as u32).collect();
        let values = NewValues::Changed {
            places: &places,
            values: &T::in_wide(&changes.values),
        };
        self.renew_resident(plan, values, 1)
    }
}
