//! The traces of a verb that runs messages again. It has an exporter of its own, for as long as it runs: nobody scrapes a
//! verb, so that the spans that are lost are told at its end alone.

use std::sync::Arc;

use semel_config::{PipelineSettings, StoreUrl, TelemetrySettings};
use semel_core::Claimant;
use semel_engine::layer::tiered::CacheHits;
use semel_engine::surroundings::Surroundings;
use semel_telemetry::traces::{Exporter, LostSpans};

use crate::notice::Reporter;
use crate::traces;

/// The traces of a verb, which go to the collector that the settings name, if they name one.
pub struct VerbTraces {
    exporter: Option<Exporter>,
    store: StoreUrl,
    lost: LostSpans,
    reporter: Arc<dyn Reporter>,
}

impl VerbTraces {
    /// Begins to export what is done over this store, under the name of this claimant.
    pub fn begin(
        settings: &TelemetrySettings,
        store: StoreUrl,
        claimant: Claimant,
        reporter: Arc<dyn Reporter>,
    ) -> Self {
        let lost = LostSpans::default();
        Self {
            exporter: traces::begin(settings, claimant, lost.clone(), &reporter),
            store,
            lost,
            reporter,
        }
    }

    /// Returns the surroundings in which the messages of a pipeline are traced, too, and the place where its cache is to
    /// note the claims that it answers, if it has one.
    pub fn watch(
        &self,
        settings: &PipelineSettings,
        mut surroundings: Surroundings,
    ) -> (Surroundings, Option<Arc<CacheHits>>) {
        let exporter = self.exporter.as_ref();
        let hits = exporter
            .and_then(|it| traces::watch(it.traces(), settings, &self.store, &mut surroundings));
        (surroundings, hits)
    }

    /// Sends what waits, and reports how much did not arrive.
    pub async fn end(self) {
        traces::end(self.exporter, &self.lost, &*self.reporter).await;
    }
}
