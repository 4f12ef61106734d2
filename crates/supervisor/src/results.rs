//! The results of a run.

use semel_backends::layered::LayerFigures;
use semel_config::{PipelineSettings, Waived};
use semel_core::Error;
use semel_engine::pipeline::Fail;
use semel_engine::summary::Summary;

/// The results of all pipelines.
#[derive(Debug)]
pub struct Results {
    /// Each pipeline that ended well, by name.
    pub pipelines: Vec<(Box<str>, Ended)>,
    /// The first failure of a pipeline, else the loss of the store's files.
    pub failure: Option<Error>,
}

/// The result of a pipeline, and the figures of the layer before its store.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The counts of the run.
    pub summary: Summary,
    /// The policy for messages while the store is away.
    pub fail: Fail,
    /// The figures of the layer.
    pub layer: LayerFigures,
    /// The weaknesses that the pipeline accepts by name.
    pub waived: Waived,
}

impl Results {
    /// The results of a run that was asked to stop before it had a store.
    pub(crate) fn of_none(pipelines: &[PipelineSettings]) -> Self {
        let pipelines = pipelines.iter().map(|settings| {
            let ended = Ended {
                fail: settings.layers.fail,
                waived: settings.waived,
                ..Summary::default().into()
            };
            (settings.pipeline.name.clone(), ended)
        });
        Self {
            pipelines: pipelines.collect(),
            failure: None,
        }
    }
}

impl From<Summary> for Ended {
    /// Makes one without layers.
    fn from(summary: Summary) -> Self {
        Self {
            summary,
            fail: Fail::Closed,
            layer: LayerFigures::default(),
            waived: Waived::default(),
        }
    }
}
