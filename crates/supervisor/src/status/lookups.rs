//! The use of the layers of the pipelines, in figures.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use semel_backends::layered::Layer;
use semel_telemetry::{Sample, SampledFamily};

/// The layers of the pipelines that have one.
#[derive(Debug, Default)]
pub(crate) struct Layers(Mutex<BTreeMap<Box<str>, Layer>>);

impl Layers {
    /// Adds the layer of a pipeline.
    pub(crate) fn knows(&self, pipeline: &str, layer: &Layer) {
        if matches!(layer, Layer::None) {
            return;
        }
        let mut layers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        layers.insert(pipeline.into(), layer.clone());
    }

    /// Returns the families. `distinct` is, pipeline by pipeline, the number of conflicts that were none.
    pub(super) fn families(&self, mut distinct: BTreeMap<Box<str>, u64>) -> [SampledFamily; 2] {
        let layers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lookups = Vec::new();
        for (pipeline, layer) in &*layers {
            let figures = layer.figures();
            let (name, hits, misses) = match (figures.cache, figures.approximate) {
                (Some(it), _) => ("cache", it.answered, it.read + it.asked),
                (None, Some(it)) => {
                    *distinct.entry(pipeline.clone()).or_default() += it.mistaken;
                    ("filter", it.skipped, it.probes.saturating_sub(it.skipped))
                }
                (None, None) => continue,
            };
            for (result, count) in [("hit", hits), ("miss", misses)] {
                let labels = [
                    ("pipeline", &**pipeline),
                    ("result", result),
                    ("layer", name),
                ];
                lookups.push(Sample::new(labels, count));
            }
        }
        let mistaken = distinct.iter();
        let mistaken = mistaken
            .map(|(pipeline, count)| Sample::new([("pipeline", &**pipeline)], *count))
            .collect();
        [
            SampledFamily::counter(
                "semel_cache_lookups",
                "Claims that a cache or a filter answered itself, and those that it did not.",
                lookups,
            ),
            SampledFamily::counter(
                "semel_false_duplicates",
                "Messages taken for duplicates that were none: what a filter errs about keys that nobody used, of \
                 which it looks one up for each claim, and conflicts that a person released under another key.",
                mistaken,
            ),
        ]
    }
}
