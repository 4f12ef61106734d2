//! The status as the admin API tells it: the worker, and each of its pipelines.

use std::collections::BTreeMap;

use semel_admin::{Plot, Series, SeriesQuery};
use semel_config::Accepted;
use semel_core::port::horizon::Horizon;
use semel_core::units::duration_text;
use semel_operate::check::BrokerFact;
use semel_telemetry::history;
use serde::Serialize;
use serde_json::Value;

use super::{BUILD, PipelineReadiness, Readiness, ServiceReadiness, Status};
use crate::results::{PipelineResult, PipelineSummary};

/// The worker: what `/readyz` answers, and what it is.
#[derive(Serialize)]
struct WorkerOverview<'a> {
    version: &'static str,
    commit: &'static str,
    store: &'a str,
    ready: bool,
    #[serde(flatten)]
    readiness: Readiness,
}

/// A pipeline of the worker.
#[derive(Serialize)]
struct PipelineOverview<'a> {
    pipeline: &'a str,
    /// The kind of its effect, and the class of that.
    effect: Option<&'static str>,
    class: Option<&'static str>,
    #[serde(flatten)]
    readiness: PipelineReadiness,
    window: Option<String>,
    /// The time for which a message can come again; none while that is not known.
    window_needed: Option<String>,
    /// The settings of its broker from which that follows; none before it was looked at, and without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    broker: Option<Vec<BrokerFact>>,
    /// The number of things that wait for a person, by why; none while they were not counted.
    set_aside: Option<BTreeMap<&'static str, u64>>,
    /// The counts since the start, as the run prints them at its end, without those of a cache or a filter.
    so_far: PipelineResult<'a>,
}

/// A relay of the worker, in the list of pipelines.
#[derive(Serialize)]
struct RelayOverview<'a> {
    pipeline: &'a str,
    /// True, which tells it from a pipeline.
    relay: bool,
    #[serde(flatten)]
    readiness: ServiceReadiness,
    /// The messages that wait in the outbox; none while they were not counted of late.
    backlog: Option<BacklogOverview>,
}

/// The counts of messages that are not published.
#[derive(Serialize)]
struct BacklogOverview {
    waiting: u64,
    dead: u64,
    /// The time since the oldest of those that wait was written; none if none waits.
    oldest_secs: Option<u64>,
}

impl semel_admin::Worker for Status {
    fn status(&self) -> Value {
        let readiness = self.readiness();
        value(&WorkerOverview {
            version: BUILD.version,
            commit: BUILD.commit,
            store: &self.store,
            ready: readiness.is_ready(),
            readiness,
        })
    }

    fn pipelines(&self) -> Vec<(Box<str>, Value)> {
        let readiness = self.readiness().pipelines;
        let aside = self.aside.all();
        let known = self.lock().clone();
        let overviews = readiness.into_iter().filter_map(|(name, readiness)| {
            let pipeline = known.get(&name)?;
            let declared = pipeline.declared.as_deref();
            let counts = aside.iter().filter(|(of, ..)| *of == name);
            let counts: BTreeMap<_, _> = counts.map(|(_, why, count)| (*why, *count)).collect();
            let mut so_far: PipelineSummary = pipeline.summary.into();
            if let Some(declared) = declared {
                (so_far.fail, so_far.waived) = (declared.fail, declared.waived);
            }
            let (window, needed) = self.windows.of(&name).unzip();
            let facts = self.windows.facts(&name);
            let facts = facts.as_deref().map(|it| it.iter().map(BrokerFact::of));
            let overview = PipelineOverview {
                pipeline: &name,
                effect: declared.map(|it| it.effect),
                class: declared.map(|it| it.class),
                readiness,
                window: window.map(duration_text),
                window_needed: match needed.flatten() {
                    Some(Horizon::Within(needed)) => Some(duration_text(needed)),
                    Some(Horizon::Endless) => Some("endless".to_owned()),
                    Some(Horizon::Unknown) | None => None,
                },
                broker: facts.map(Iterator::collect),
                set_aside: (!counts.is_empty()).then_some(counts),
                so_far: PipelineResult::of(&name, &so_far, Accepted::default()),
            };
            let overview = value(&overview);
            Some((name, overview))
        });
        overviews.collect()
    }

    fn relays(&self) -> Vec<(Box<str>, Value)> {
        let mut backlogs = self.relays.backlogs();
        let relays = self.readiness().relays.into_iter();
        let overviews = relays.map(|(name, readiness)| {
            let backlog = backlogs.remove(&name).map(|it| BacklogOverview {
                waiting: it.waiting,
                dead: it.dead,
                oldest_secs: it.oldest.map(|it| it.as_secs()),
            });
            let overview = value(&RelayOverview {
                pipeline: &name,
                relay: true,
                readiness,
                backlog,
            });
            (name, overview)
        });
        overviews.collect()
    }

    fn series(&self, wanted: SeriesQuery<'_>) -> Series {
        let recent = self.history.recent(wanted.family, wanted.pipeline);
        let items = recent.series.into_iter().map(|it| Plot {
            family: it.family,
            labels: it.labels,
            kind: it.kind.as_str(),
            values: it.values,
        });
        Series {
            step_secs: history::STEP.as_secs(),
            until: recent.until,
            points: recent.points,
            left_out: recent.left_out,
            items: items.collect(),
        }
    }
}

fn value(overview: &impl Serialize) -> Value {
    serde_json::to_value(overview).unwrap_or_default()
}
