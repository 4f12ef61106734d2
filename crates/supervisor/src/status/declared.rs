//! The declaration of a pipeline in the configuration, for whoever looks at its metrics.

use std::sync::Arc;

use semel_config::{Ownership, PipelineSettings, Waived};
use semel_engine::pipeline::Fail;
use semel_telemetry::{Sample, SampledFamily};

use super::Status;

/// The effect of a pipeline, and the people behind it.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    /// The kind of its effect, one word.
    pub(crate) effect: &'static str,
    /// The class of its effect.
    pub(crate) class: &'static str,
    /// The people behind it.
    pub(crate) ownership: Ownership,
    /// Its way while the store is away.
    pub(crate) fail: Fail,
    /// The weaknesses that it accepts by name.
    pub(crate) waived: Waived,
}

impl Declared {
    /// Takes it out of the settings.
    pub(crate) fn of(settings: &PipelineSettings) -> Self {
        Self {
            effect: settings.effect.kind(),
            class: settings.effect.class().as_str(),
            ownership: settings.ownership.clone(),
            fail: settings.layers.fail,
            waived: settings.waived,
        }
    }
}

/// Describes every pipeline in the labels of a series that is always 1, for alerts to join.
pub(super) fn family(status: &Status) -> SampledFamily {
    let pipelines = status.lock();
    let declared = pipelines.iter().filter_map(|(pipeline, it)| {
        let declared = Arc::clone(it.declared.as_ref()?);
        Some((pipeline, declared))
    });
    let samples = declared.map(|(pipeline, it)| {
        let Ownership { owner, runbook } = &it.ownership;
        let labels = [
            ("pipeline", &**pipeline),
            ("effect", it.effect),
            ("class", it.class),
            ("owner", owner.as_deref().unwrap_or_default()),
            ("runbook", runbook.as_deref().unwrap_or_default()),
        ];
        Sample::new(labels, 1)
    });
    SampledFamily::gauge(
        "semel_pipeline_info",
        "A pipeline, its effect, and who answers for it: always 1.",
        samples.collect(),
    )
}
