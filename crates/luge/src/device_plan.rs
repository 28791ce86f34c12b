//! A device's path: which engine, and how it is planned.

use std::sync::{Arc, Mutex, PoisonError};

use luge_device::Stream;
use luge_ordering::{Matching, Ordering, OrderingOptions};

use crate::attempts::Remedy;
use crate::backend::Field;
use crate::backend::gpu::GpuBackend;
use crate::device_analysis::AnyDeviceAnalysis;
use crate::device_choice;
use crate::device_place::DevicePlace;
use crate::error::Error;
use crate::inform::Inform;
use crate::options::{DeviceEngine, Options};
use crate::ordered::{costs_of, for_static_pivots, order_rows};
use crate::planner::planner;
use crate::shared::Shared;
use crate::stored::Rows;

/// A device.
#[derive(Clone)]
pub(crate) struct DevicePath<W> {
    pub analysis: Arc<dyn AnyDeviceAnalysis<W>>,
    pub backend: GpuBackend,
    /// What else might do if static pivots on this analysis do not.
    pub alternative: Option<Matching>,
    /// The engine that was chosen, and how rows of a general matrix are matched for it.
    engine: DeviceEngine,
    matching: Matching,
    pub single: bool,
    /// The plan on the other devices of the group, once something was dealt out to them.
    replicas: Replicas<W>,
}

/// An analysis on each of the other devices.
type Replicas<W> = Arc<Mutex<Option<Vec<Arc<dyn AnyDeviceAnalysis<W>>>>>>;

impl<W: Field> DevicePath<W> {
    /// The path by a tree that is there.
    pub(crate) fn of_tree(
        analysis: Arc<dyn AnyDeviceAnalysis<W>>,
        backend: &GpuBackend,
        alternative: Option<Matching>,
        single: bool,
    ) -> Self {
        Self {
            analysis,
            backend: backend.clone(),
            alternative,
            engine: DeviceEngine::Tree,
            matching: Matching::Auto,
            single,
            replicas: Replicas::default(),
        }
    }

    /// Chooses an engine for a matrix with these values by rows, and plans for it. Where that takes another ordering
    /// than the one there is, the inform hears of it.
    pub(crate) fn choose(
        options: &Options,
        ordering_options: &OrderingOptions,
        place: DevicePlace<'_>,
        values: &[f64],
        ordering: Ordering,
        inform: &mut Inform,
    ) -> Result<Self, Error> {
        let path = |engine, matching, alternative, analysis| Self {
            analysis,
            backend: place.backend.clone(),
            alternative,
            engine,
            matching,
            single: place.single,
            replicas: Replicas::default(),
        };
        let matching = ordering_options.matching;
        let wanted = options.device_engine;
        if wanted == DeviceEngine::Columns {
            let analysis = planner::<W>().columns(place, ordering)?;
            return Ok(path(DeviceEngine::Columns, matching, None, analysis));
        }
        let predicted = ordering.predicted;
        let is_matched = ordering.log10_matching_product.is_some();
        let forest = place.forest::<W>(ordering)?;
        let n = place.rows.pattern.major_dim();
        let value_bytes = forest.value_bytes() as u64;
        let chosen = device_choice::choose(
            place.backend.check_tiles(forest.value_bytes()).is_ok(),
            forest.device_bytes(),
            device_choice::column_bytes(n, &predicted, value_bytes),
            place.backend.available_bytes()?,
        );
        if wanted == DeviceEngine::Tree || chosen == DeviceEngine::Tree {
            let unmatched = matching == Matching::Auto && !is_matched;
            let alternative = unmatched.then_some(Matching::Always);
            let analysis = planner::<W>().tree(place, forest)?;
            return Ok(path(DeviceEngine::Tree, matching, alternative, analysis));
        }
        let matching = for_static_pivots(matching);
        // The columns' levels are not the tree's.
        let for_columns = ordering_options
            .clone()
            .matching(matching)
            .costs(costs_of(options))
            .tree_cost(None);
        let ordering = order_rows(&for_columns, place.threads, place.rows, values)?;
        inform.describe_ordering(&ordering);
        let analysis = planner::<W>().columns(place, ordering)?;
        Ok(path(DeviceEngine::Columns, matching, None, analysis))
    }
}

impl<W: Field> DevicePath<W> {
    /// ε of the type of the factors.
    pub(crate) fn epsilon(&self) -> f64 {
        if self.single {
            f64::from(f32::EPSILON)
        } else {
            f64::EPSILON
        }
    }

    /// The same plan for work on another stream, if the engine can share it.
    pub(crate) fn on_stream(&self, stream: &Stream) -> Result<Option<Self>, Error> {
        let analysis = Arc::clone(&self.analysis).on_stream(stream)?;
        let backend = self.backend.on_stream(stream);
        Ok(analysis.map(|analysis| self.elsewhere(analysis, backend)))
    }

    /// The same plan on each of the other devices of the group; none if the engine cannot share it.
    pub(crate) fn on_peers(&self) -> Result<Vec<Self>, Error> {
        let peers = self.backend.peers();
        let replicas = &mut *self.replicas.lock().unwrap_or_else(PoisonError::into_inner);
        let replicas = match replicas {
            Some(replicas) => replicas,
            None => {
                let made = peers.iter().map(|peer| self.analysis.on_device(peer));
                let made = made.collect::<Result<Option<Vec<_>>, _>>()?;
                replicas.insert(made.unwrap_or_default())
            }
        };
        let places = replicas.iter().zip(peers);
        let path = |(analysis, peer): (&Arc<_>, &GpuBackend)| {
            self.elsewhere(Arc::clone(analysis), peer.clone())
        };
        Ok(places.map(path).collect())
    }

    fn elsewhere(&self, analysis: Arc<dyn AnyDeviceAnalysis<W>>, backend: GpuBackend) -> Self {
        Self {
            analysis,
            backend,
            replicas: Replicas::default(),
            ..*self
        }
    }

    /// Orders and plans anew for other values.
    pub(crate) fn analyze_again(
        &self,
        shared: &Shared,
        values: &[W],
        remedy: Remedy,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<W>>, Error> {
        let rows = Rows::new(&shared.pattern, shared.by_columns, &shared.limits.cancel)?;
        let sizes = W::in_real(values);
        let by_rows = rows.values(&sizes);
        let mut options = (*shared.ordering)
            .clone()
            .matching(remedy.matching(self.matching))
            .averaged(remedy == Remedy::Averages);
        if self.engine == DeviceEngine::Columns {
            options.costs = costs_of(&shared.options);
            options.tree_cost = None;
        }
        let ordering = order_rows(&options, &shared.threads, &rows, &by_rows)?;
        let place = DevicePlace {
            backend: &self.backend,
            limits: &shared.limits,
            threads: &shared.threads,
            rows: &rows,
            single: self.single,
        };
        match self.engine {
            DeviceEngine::Columns => planner::<W>().columns(place, ordering),
            DeviceEngine::Tree | DeviceEngine::Auto => {
                planner::<W>().tree(place, place.forest::<W>(ordering)?)
            }
        }
    }
}
