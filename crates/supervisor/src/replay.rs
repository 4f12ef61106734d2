//! Runs the messages of a source once more through their pipeline, each marked with the id of the replay.

use std::time::Duration;

use bytes::Bytes;
use semel_backends::layered::Layer;
use semel_backends::source;
use semel_config::{Accepted, PipelineSettings, SourceSettings};
use semel_core::port::source::{Acknowledgement, Delivery, Fetched, Source};
use semel_core::select::{Message, Selector, View};
use semel_core::{Fate, Result, Timestamp, forward_source, tenant};
use semel_engine::pipeline::REPLAY_ID;
use semel_worker::replay::Report;
use semel_worker::run::{Run, Stores, run};
use serde::{Deserialize, Serialize};

use crate::results::{PipelineResult, PipelineSummary};
use crate::verb_traces::VerbTraces;

/// A replay of messages through their pipeline.
#[derive(Clone, Copy)]
pub struct Replay<'a> {
    /// The pipeline.
    pub settings: &'a PipelineSettings,
    /// The source of the messages: that of the pipeline, or another with copies of them.
    pub source: &'a SourceSettings,
    /// True if the source is input that is read only once.
    pub is_input: bool,
    /// The time at which the messages begin; none for all.
    pub since: Option<Timestamp>,
    /// The id of the replay.
    pub id: &'a str,
    /// The tenant whose messages run; none for all.
    pub tenant: Option<&'a str>,
    /// True if messages that are older than the window run, too, although their records may be forgotten.
    pub allow_expired: bool,
    /// The traces of the replay.
    pub traces: &'a VerbTraces,
}

impl Replay<'_> {
    /// Runs the messages.
    ///
    /// # Errors
    ///
    /// Those of the source, of the layers and of [`run`].
    pub async fn run(self, stores: Stores, mut around: Run) -> Result<PipelineSummary> {
        let settings = self.settings;
        let traced = PipelineSettings {
            source: self.source.clone(),
            ..settings.clone()
        };
        let (surroundings, hits) = self.traces.watch(&traced, around.surroundings);
        around.surroundings = surroundings;
        let mut pipeline = settings.pipeline.clone();
        if self.allow_expired {
            // The age gate goes by it.
            pipeline.birth = None;
        }
        let (limit, lease) = (pipeline.max_message_bytes, pipeline.lease);
        let source = if self.is_input {
            source::open(self.source, limit, lease, None).await?
        } else {
            source::open_again(self.source, limit, lease, self.since).await?
        };
        let source = Marked {
            source,
            id: Bytes::copy_from_slice(self.id.as_bytes()),
            allow_expired: self.allow_expired,
            tenant: pipeline
                .tenant
                .clone()
                .zip(self.tenant)
                .map(|(place, name)| {
                    let name = name.into();
                    OneTenant { name, place }
                }),
            skipped: Vec::new(),
        };
        let surroundings = &around.surroundings;
        let (stores, layer) = Layer::over(
            &settings.layers.front,
            stores,
            &surroundings.clock,
            &*surroundings.entropy,
            hits.as_ref(),
        )?;
        let summary = run(pipeline, settings.effect.clone(), source, stores, around).await?;
        Ok(PipelineSummary {
            layer: layer.figures(),
            waived: settings.waived,
            ..PipelineSummary::from(summary)
        })
    }
}

/// The result of messages that were set aside and run again, as a documented object: the summary of the run, and the fates
/// of its messages as parked ones.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplayResult<'a> {
    /// The summary of the run.
    #[serde(flatten)]
    pub summary: PipelineResult<'a>,
    /// Messages that are done, and kept no longer.
    pub dropped: u64,
    /// Messages that are still kept.
    pub kept: u64,
    /// Messages that were left alone.
    pub refused: u64,
}

impl<'a> ReplayResult<'a> {
    /// Lays out the report about a pipeline; `accepted` are the weaknesses of its store that are accepted.
    pub fn of(name: &'a str, report: &Report, accepted: Accepted) -> Self {
        let Report { summary, tally } = report;
        Self {
            summary: PipelineResult::of(name, &PipelineSummary::from(*summary), accepted),
            dropped: tally.dropped,
            kept: tally.kept,
            refused: tally.refused,
        }
    }
}

/// The known limits on the age of the messages that are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// Each message says when it was born, and a message that is older than the window is set aside.
    Told,
    /// All messages are younger than the window.
    Young,
    /// Nothing is known.
    Unknown,
}

/// Finds out what limits the age of the messages of `source`, of which those that are older than `newer_than` are
/// left out.
///
/// # Errors
///
/// Those of a source that cannot be used.
pub async fn age(
    settings: &PipelineSettings,
    source: &SourceSettings,
    newer_than: Option<Duration>,
) -> Result<Age> {
    let pipeline = &settings.pipeline;
    if pipeline.birth.is_some() {
        return Ok(Age::Told);
    }
    let (window, margin) = (pipeline.window.duration(), pipeline.window.margin());
    if newer_than.is_some_and(|age| age <= window.saturating_sub(margin)) {
        return Ok(Age::Young);
    }
    if !has_times(source) {
        return Ok(Age::Unknown);
    }
    Ok(match source::horizons(source, pipeline.lease).await? {
        Some(horizons) if horizons.is_stamped => Age::Told,
        Some(_) | None => Age::Unknown,
    })
}

/// Tells whether the source can be read from any time on.
pub const fn has_times(source: &SourceSettings) -> bool {
    matches!(source, SourceSettings::Kafka(_) | SourceSettings::Nats(_))
}

/// A source whose messages all carry the id of a replay, whatever id they carried before.
struct Marked<S> {
    source: S,
    id: Bytes,
    /// True if the age of the messages is hidden.
    allow_expired: bool,
    /// The tenant whose messages alone are handed over; none for all.
    tenant: Option<OneTenant>,
    /// Messages of other tenants, of which the source was not told yet.
    skipped: Vec<Acknowledgement>,
}

/// A tenant, and the place in messages that names theirs.
struct OneTenant {
    name: Box<str>,
    place: Selector,
}

impl OneTenant {
    /// Tells whether a message is of the tenant.
    fn has(&self, delivery: &Delivery) -> bool {
        let view = View::new(Message {
            payload: &delivery.payload,
            headers: &delivery.headers,
            coordinates: &delivery.coordinates,
        });
        tenant::of(&view, &self.place).is_ok_and(|tenant| *tenant == *self.name)
    }
}

// A method that is not forwarded would be the default one.
#[deny(clippy::missing_trait_methods)]
impl<S: Source> Source for Marked<S> {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        loop {
            if !self.skipped.is_empty() {
                self.source.acknowledge(&self.skipped).await?;
                self.skipped.clear();
            }
            let mut deliveries = match self.source.fetch(max).await? {
                Fetched::Deliveries(deliveries) => deliveries,
                other => return Ok(other),
            };
            // The source is told at the next call: nothing is awaited while messages are in hand.
            let tenant = self.tenant.as_ref();
            let others =
                deliveries.extract_if(.., |it| tenant.is_some_and(|tenant| !tenant.has(it)));
            let others = others.map(|it| Acknowledgement::new(it.id, Fate::Replayed));
            self.skipped.extend(others);
            if deliveries.is_empty() {
                continue;
            }
            for delivery in &mut deliveries {
                let headers = &mut delivery.headers;
                headers.retain(|(name, _)| !name.eq_ignore_ascii_case(REPLAY_ID));
                headers.push((REPLAY_ID.into(), self.id.clone()));
                if self.allow_expired {
                    delivery.appended_at = None;
                }
            }
            return Ok(Fetched::Deliveries(deliveries));
        }
    }

    forward_source!(self => self.source);
}
