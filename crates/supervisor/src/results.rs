//! The results of a run.

use std::borrow::Cow;

use semel_backends::layered::LayerFigures;
use semel_config::{Accepted, PipelineSettings, Waived};
use semel_core::Error;
use semel_engine::pipeline::Fail;
use semel_engine::summary::{Fate, Summary};
use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PipelineResult<'a> {
    /// The pipeline.
    pub pipeline: Cow<'a, str>,
    /// The deliveries that came to an end.
    pub deliveries: u64,
    /// Effects that happened.
    pub applied: u64,
    /// Duplicates of something finished.
    pub replayed: u64,
    /// Older versions than the entity has.
    pub stale: u64,
    /// Keys that were used for another request.
    pub conflicts: u64,
    /// Messages that are older than the window and have no record.
    pub too_old: u64,
    /// Messages that were given back unfinished.
    pub released: u64,
    /// Messages that were given up.
    pub dead: u64,
    /// Messages whose effect may have happened.
    pub in_doubt: u64,
    /// Messages without a usable key.
    pub quarantined: u64,
    /// Attempts that vanished and were taken over.
    pub takeovers: u64,
    /// The time that it took.
    pub elapsed_seconds: f64,
    /// Effects that happened without a claim; left out unless the pipeline fails open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unprotected: Option<u64>,
    /// Deliveries with a replay id, and how many of them were for no effect of live messages; left out if there
    /// are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_again: Option<u64>,
    /// Of these, those that were for no effect of live messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppressed: Option<u64>,
    /// The figures of the layer before the store.
    #[serde(flatten)]
    pub layer: LayerFigures,
    /// The weaknesses that are accepted by name, the store's and the pipeline's own; left out if there are
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<Cow<'static, str>>,
}

impl<'a> PipelineResult<'a> {
    /// Lays out the result of a pipeline; `accepted` are the weaknesses of its store that are accepted.
    pub fn of(name: &'a str, ended: &PipelineSummary, accepted: Accepted) -> Self {
        let summary = &ended.summary;
        Self {
            pipeline: name.into(),
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
            accepted: accepted
                .names()
                .into_iter()
                .chain(ended.waived.names())
                .map(Cow::Borrowed)
                .collect(),
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
    #[serde(skip_serializing_if = "Option::is_none")]
    unrecorded: Option<u64>,
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
            unrecorded: (summary.unrecorded > 0).then_some(summary.unrecorded),
        }
    }
}
