//! The results of a run.

use semel_backends::layered::LayerFigures;
use semel_config::{Accepted, PipelineSettings, Waived};
use semel_core::Error;
use semel_engine::pipeline::Fail;
use semel_engine::summary::{Fate, Summary};
use serde::Serialize;

/// The results of all pipelines.
#[derive(Debug)]
pub struct Results {
    /// Each pipeline that ended well, with its name, in the order in which they ended.
    pub pipelines: Vec<(Box<str>, PipelineSummary)>,
    /// Each relay that ended well, with its name, in the order in which they ended.
    pub relays: Vec<(Box<str>, semel_outbox::Summary)>,
    /// The first failure of a pipeline or a relay, else the loss of the store's files.
    pub failure: Option<Error>,
}

/// The result of a pipeline, and the figures of the layer before its store.
#[derive(Clone, Copy, Debug)]
pub struct PipelineSummary {
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
            let ended = PipelineSummary {
                fail: settings.layers.fail,
                waived: settings.waived,
                ..Summary::default().into()
            };
            (settings.pipeline.name.clone(), ended)
        });
        Self {
            pipelines: pipelines.collect(),
            relays: Vec::new(),
            failure: None,
        }
    }
}

impl From<Summary> for PipelineSummary {
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

/// The result of a pipeline as a documented object; its names and their order are stable.
#[derive(Clone, Debug, Serialize)]
pub struct PipelineResult<'a> {
    pipeline: &'a str,
    deliveries: u64,
    applied: u64,
    replayed: u64,
    stale: u64,
    conflicts: u64,
    too_old: u64,
    released: u64,
    dead: u64,
    in_doubt: u64,
    quarantined: u64,
    takeovers: u64,
    elapsed_seconds: f64,
    /// Effects that happened without a claim; left out unless the pipeline fails open.
    #[serde(skip_serializing_if = "Option::is_none")]
    unprotected: Option<u64>,
    /// Deliveries with a replay id, and how many of them were for no effect of live messages; left out if there
    /// are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_again: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressed: Option<u64>,
    #[serde(flatten)]
    layer: LayerFigures,
    /// The weaknesses that are accepted by name, the store's and the pipeline's own; left out if there are
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accepted: Vec<&'static str>,
}

impl<'a> PipelineResult<'a> {
    /// Lays out the result of a pipeline; `accepted` are the weaknesses of its store that are accepted.
    pub fn of(name: &'a str, ended: &PipelineSummary, accepted: Accepted) -> Self {
        let summary = &ended.summary;
        Self {
            pipeline: name,
            deliveries: summary.deliveries(),
            applied: summary.of(Fate::Applied),
            replayed: summary.of(Fate::Replayed),
            stale: summary.of(Fate::Stale),
            conflicts: summary.of(Fate::Conflict),
            too_old: summary.of(Fate::TooOld),
            released: summary.of(Fate::Released),
            dead: summary.of(Fate::Dead),
            in_doubt: summary.of(Fate::InDoubt),
            quarantined: summary.of(Fate::Quarantined),
            takeovers: summary.takeovers,
            elapsed_seconds: (summary.elapsed.as_secs_f64() * 1_000.0).round() / 1_000.0,
            unprotected: (ended.fail == Fail::Open).then(|| summary.of(Fate::Unprotected)),
            sent_again: (summary.sent_again > 0).then_some(summary.sent_again),
            suppressed: (summary.suppressed > 0).then_some(summary.suppressed),
            layer: ended.layer,
            accepted: [accepted.names(), ended.waived.names()].concat(),
        }
    }
}

/// The result of a relay as a documented object; its names and their order are stable.
#[derive(Clone, Debug, Serialize)]
pub struct RelayResult<'a> {
    relay: &'a str,
    published: u64,
    put_off: u64,
    dead: u64,
    elapsed_seconds: f64,
}

impl<'a> RelayResult<'a> {
    /// Lays out the result of a relay.
    pub fn of(name: &'a str, summary: &semel_outbox::Summary) -> Self {
        Self {
            relay: name,
            published: summary.published,
            put_off: summary.put_off,
            dead: summary.dead,
            elapsed_seconds: (summary.elapsed.as_secs_f64() * 1_000.0).round() / 1_000.0,
        }
    }
}
