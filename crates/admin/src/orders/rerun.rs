//! Plans to run messages again: dead letters, messages in quarantine, and those of doubts. Each is foretold by the very
//! decisions that its run will make.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use semel_config::PipelineSettings;
use semel_core::decide::Order as KeyOrder;
use semel_core::port::store::{ListQuery, Store};
use semel_core::{Code, Key, OpId, Operation, ParkedId, StateKind, Timestamp};
use semel_http::Problem;
use semel_operate::in_doubt::{Doubt, message_id};
use semel_operate::keys::{Changed, Planned};
use semel_operate::order::Left;
use semel_operate::parked::{Foretold, assess};
use semel_worker::replay::{Kind, Prospect};
use semel_worker::settings::EffectSettings;

use super::lookup::{Doubts, doubts, left_by, refuse_streamed};
use super::messages::{Selected, Selecting};
use super::plan::{Change, Digest, Plan, Rerun, Standing, Work, snapshot};
use super::selection::{Selection, Which};
use super::{Bounds, MOST_CHANGES};
use crate::reading::Reading;
use crate::settings::Settings;

/// Plans to run messages of a kind again, under a key in place of their own if there is one.
pub(super) async fn plan(
    reading: &Reading,
    settings: &Settings,
    (kind, key): (Kind, Option<&Key>),
    selection: &Selection,
    bounds: Bounds,
) -> Result<Plan, Problem> {
    refuse_others(settings, kind, &selection.within)?;
    let mut forecast = Forecast {
        settings,
        how: (kind, key),
        digest: Digest::default(),
        left: Vec::new(),
    };
    if kind == Kind::InDoubt {
        return forecast.doubts(reading, selection, bounds).await;
    }
    let Selected {
        found,
        left,
        is_whole,
        until,
    } = forecast.messages(reading, selection, bounds).await?;
    forecast.left.extend(left);
    Ok(forecast.plan(bounds.at, (until, is_whole), Vec::new(), found))
}

/// A message that would run.
struct Foreseen {
    foretold: Foretold,
    /// The size of its payload.
    bytes: u64,
    /// Its part of the digest of the plan.
    digested: String,
    standing: Standing,
}

/// Foretells what would become of messages.
struct Forecast<'a> {
    settings: &'a Settings,
    how: (Kind, Option<&'a Key>),
    digest: Digest,
    /// Those that are left as they are.
    left: Vec<Left>,
}

impl Forecast<'_> {
    /// Plans to call effects in doubt again.
    async fn doubts(
        mut self,
        reading: &Reading,
        selection: &Selection,
        bounds: Bounds,
    ) -> Result<Plan, Problem> {
        let at = bounds.at;
        let leaves = |doubt: &Doubt| doubt.unretried(at).is_some();
        let Doubts {
            found,
            left,
            is_whole,
            until,
        } = doubts(reading, self.settings, selection, bounds, leaves).await?;
        self.left = left;
        let (mut ids, mut alone) = (Vec::new(), Vec::new());
        for doubt in found {
            if let Some(obstacle) = doubt.unretried(at) {
                self.left.push(left_by(&doubt.operation, obstacle, at));
            } else if let Some(why) = self.elsewhere(&doubt) {
                self.left.push(Left::of(&doubt.operation, why, None));
            } else if doubt.has_message {
                ids.push(message_id(&doubt.operation).to_string());
            } else {
                self.digest.record(&doubt.operation, &doubt.record, "retry");
                let snapshot = snapshot(&doubt.record);
                let planned = Planned::new(doubt.operation, &doubt.record, KeyOrder::Retry);
                alone.push((planned, snapshot));
            }
        }
        let messages = Selection {
            within: selection.within.clone(),
            which: Which::Ids(ids),
        };
        let Selected { found, left, .. } = self.messages(reading, &messages, bounds).await?;
        // A message that has gone since is one of a doubt that somebody has resolved since.
        self.left.extend(left);
        Ok(self.plan(bounds.at, (until, is_whole), alone, found))
    }

    /// The reason why a doubt is left to another worker: this one has no pipeline of its name, and no clients.
    fn elsewhere(&self, doubt: &Doubt) -> Option<&'static str> {
        let scope = &doubt.operation.scope;
        let mut pipelines = self.settings.pipelines.iter();
        let is_here = self.settings.serves_clients || pipelines.any(|it| it.pipeline.has(scope));
        // A message tells the same.
        (!is_here && !doubt.has_message).then_some(ELSEWHERE)
    }

    /// Foretells the fate of each message that would run, and notes which would not.
    async fn messages(
        &mut self,
        reading: &Reading,
        selection: &Selection,
        bounds: Bounds,
    ) -> Result<Selected<Foreseen>, Problem> {
        let pipelines = &self.settings.pipelines;
        let (kind, mut assessors) = (self.how.0, BTreeMap::new());
        let mut selecting = Selecting::begin(kind, selection, bounds);
        while let Some(group) = selecting.next(reading).await? {
            let records: Arc<Mutex<BTreeMap<OpId, String>>> = Arc::default();
            let look_up = |operations: Vec<Operation>, _| {
                let (store, records) = (reading.store.clone(), Arc::clone(&records));
                async move {
                    let found = store.get(operations.clone().into()).await?;
                    let known = operations.iter().zip(&found);
                    let known = known.filter_map(|(it, record)| {
                        record.as_ref().map(|record| (it.id(), snapshot(record)))
                    });
                    locked(&records).extend(known);
                    Ok(found)
                }
            };
            let now = self.settings.clock.now();
            let assessed = assess(pipelines, self.how, &mut assessors, group, look_up, now);
            let assessed = reading.within(assessed).await?;
            let records = locked(&records);
            for (found, prospect) in assessed {
                let pipeline = pipelines
                    .iter()
                    .find(|it| it.pipeline.has(&found.message.scope));
                let prospect = match pipeline.and_then(why_not) {
                    Some(why) => Prospect::Refused(why.into()),
                    None => prospect,
                };
                let foretold = Foretold::of(&found, &prospect, kind);
                if matches!(prospect, Prospect::Refused(_) | Prospect::Published) {
                    if self.left.len() < MOST_CHANGES {
                        self.left.push(Left::message(foretold));
                    }
                    continue;
                }
                let record = found.operation().and_then(|it| records.get(&it.id()));
                let (since, id) = (found.message.since, found.message.id());
                let foreseen = Foreseen {
                    bytes: found.message.payload.len() as u64,
                    digested: digested(id, since, &prospect, record),
                    standing: Standing {
                        since,
                        record: record.cloned(),
                        is_quarantined: kind == Kind::Quarantined,
                    },
                    foretold,
                };
                selecting.keep(since, id, foreseen);
            }
        }
        selecting.selected()
    }

    fn plan(
        mut self,
        at: Timestamp,
        (until, is_whole): (Option<Timestamp>, bool),
        alone: Vec<(Planned, String)>,
        found: BTreeMap<(Timestamp, ParkedId), Foreseen>,
    ) -> Plan {
        let changes = alone.iter().map(|(planned, _)| Change::Key {
            changed: Changed::of(planned, Some(StateKind::Released)),
            remark: None,
        });
        let mut changes: Vec<_> = changes.collect();
        let (mut messages, mut pipelines) = (Vec::new(), BTreeMap::new());
        for ((_, id), foreseen) in found {
            self.digest.text(&foreseen.digested);
            let pipeline = Box::from(&*foreseen.foretold.pipeline);
            let (count, bytes): &mut (usize, u64) = pipelines.entry(pipeline).or_default();
            *count += 1;
            *bytes += foreseen.bytes;
            messages.push((id, foreseen.standing));
            changes.push(Change::Foretold(Box::new(foreseen.foretold)));
        }
        Plan {
            at,
            until,
            changes,
            left: self.left,
            is_whole,
            digest: self.digest.finish(),
            work: Work::Rerun(Rerun {
                kind: self.how.0,
                key: self.how.1.cloned(),
                alone,
                messages,
                pipelines,
            }),
        }
    }
}

/// Describes a message as it stands, and what would become of it. The end of a lease is no part of it.
fn digested(
    id: ParkedId,
    since: Timestamp,
    prospect: &Prospect,
    record: Option<&String>,
) -> String {
    let detail = match prospect {
        Prospect::Waits { .. } => String::new(),
        Prospect::Runs { .. }
        | Prospect::Published
        | Prospect::Done
        | Prospect::Stays(_)
        | Prospect::GivenUp(_)
        | Prospect::Refused(_) => prospect.to_string(),
    };
    let record = record.map_or("", String::as_str);
    let (since, word) = (since.as_millis(), prospect.as_str());
    format!("{id} {since} {word} {detail} {record}")
}

/// The reason why a worker cannot run messages beside this pipeline; none if it can.
fn why_not(settings: &PipelineSettings) -> Option<&'static str> {
    match &settings.effect {
        EffectSettings::File { .. } => Some(ITS_FILE),
        EffectSettings::Streamed(_) => Some(STREAMED),
        EffectSettings::Stdout(_) => Some(ITS_OUTPUT),
        EffectSettings::Sql(_)
        | EffectSettings::Http(..)
        | EffectSettings::Exec(..)
        | EffectSettings::Jsonl(..)
        | EffectSettings::Publish(_) => None,
    }
}

/// Refuses an order about a pipeline that this worker does not have, or beside which it cannot run anything.
fn refuse_others(settings: &Settings, kind: Kind, within: &ListQuery) -> Result<(), Problem> {
    let Some(name) = within.operation.as_deref() else {
        return Ok(());
    };
    refuse_streamed(settings, within)?;
    let mut pipelines = settings.pipelines.iter();
    match pipelines.find(|it| *it.pipeline.name == *name) {
        Some(settings) => match why_not(settings) {
            Some(why) => {
                let status = StatusCode::NOT_IMPLEMENTED;
                Err(Problem::new(status, Code::Unsupported.as_str(), why))
            }
            None => Ok(()),
        },
        // A doubt of a client waits for its next claim or request.
        None if kind == Kind::InDoubt && settings.serves_clients => Ok(()),
        None => {
            let detail = "the worker has no such pipeline, and so no effect to run; /v1/pipelines lists those that it \
                          has: ask the worker whose configuration has this one";
            let status = StatusCode::NOT_FOUND;
            Err(Problem::new(status, Code::PipelineUnknown.as_str(), detail))
        }
    }
}

fn locked<T>(records: &Mutex<T>) -> MutexGuard<'_, T> {
    records.lock().unwrap_or_else(PoisonError::into_inner)
}

const ELSEWHERE: &str = "the configuration has no pipeline of this name";
const ITS_FILE: &str = "the worker itself writes the file of this pipeline: stop it, run the messages by the verb, and \
                        start it";
const ITS_OUTPUT: &str = "the worker itself writes to standard output for this pipeline, and lines of both could mingle: run \
                          the messages by the verb";
const STREAMED: &str = "the pipeline is streamed, and only the worker that has a partition can run its messages: the verb \
                        `semel dead-letters replay` publishes them again";
