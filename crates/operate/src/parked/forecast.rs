//! The prospects of messages that would be run again.

use std::borrow::Cow;
use std::collections::BTreeMap;

use semel_config::PipelineSettings;
use semel_core::{ClaimRequest, Key, Operation, Record, Result, Scope, Timestamp};
use semel_worker::replay::{Assessor, Kind, Prospect};
use serde::{Deserialize, Serialize};

use super::Found;
use crate::value::tenant;

/// The forecast for one message: the documented object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Foretold {
    /// The id of the message.
    pub id: String,
    /// The key, if it is known.
    pub key: Option<String>,
    /// The id of the operation, if its key is known.
    pub operation_id: Option<String>,
    /// The pipeline.
    pub pipeline: String,
    /// The tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The state of the record, or that the message is in quarantine.
    pub state: Cow<'static, str>,
    /// The reason for which it was set aside.
    pub reason: Box<str>,
    /// The name of the fate that it would have.
    pub predicted: Cow<'static, str>,
    /// That fate in words.
    pub detail: String,
}

impl Foretold {
    /// Lays out the prospect of a message of this kind.
    pub fn of(found: &Found, prospect: &Prospect, kind: Kind) -> Self {
        let message = &found.message;
        Self {
            id: message.id().to_string(),
            key: message.key.as_ref().map(|key| key.as_str().to_owned()),
            operation_id: found.operation().map(|it| it.id().to_string()),
            pipeline: message.scope.operation().to_owned(),
            tenant: tenant(&message.scope).map(str::to_owned),
            state: found.standing(kind).into(),
            reason: message.reason.clone(),
            predicted: prospect.as_str().into(),
            detail: prospect.to_string(),
        }
    }
}

/// Assesses a page, which may hold messages of several pipelines. `assessors` is empty before the first page, and
/// `look_up` reads the records of operations, for the requests that would be made of them. With a key, quarantined
/// messages run under it in place of their own.
///
/// # Errors
///
/// Those of `look_up`.
pub async fn assess<F>(
    pipelines: &[PipelineSettings],
    (kind, key): (Kind, Option<&Key>),
    assessors: &mut BTreeMap<Scope, Assessor>,
    found: Vec<Found>,
    look_up: impl Fn(Vec<Operation>, Vec<Option<ClaimRequest>>) -> F + Send + Sync,
    now: Timestamp,
) -> Result<Vec<(Found, Prospect)>>
where
    F: Future<Output = Result<Vec<Option<Record>>>> + Send,
{
    let mut groups: BTreeMap<Scope, Vec<_>> = BTreeMap::new();
    for it in found {
        let scope = it.message.scope.clone();
        groups.entry(scope).or_default().push(it);
    }
    let mut all = Vec::new();
    for (scope, group) in groups {
        let mut settings = pipelines.iter();
        let Some(settings) = settings.find(|it| it.pipeline.has(&scope)) else {
            let is_named = |it: &PipelineSettings| *it.pipeline.name == *scope.operation();
            let why = if pipelines.iter().any(is_named) {
                "as configured now, the pipeline has no tenants"
            } else {
                "the configuration has no pipeline of this name"
            };
            let why = Prospect::Refused(why.into());
            all.extend(group.into_iter().map(|it| (it, why.clone())));
            continue;
        };
        let assessor = assessors
            .entry(settings.pipeline.scope.clone())
            .or_insert_with(|| {
                let effect = &settings.effect;
                let pipeline = Assessor::prepared(settings.pipeline.clone(), effect);
                Assessor::new(pipeline, effect, kind).under(key.cloned())
            });
        let messages = group.into_iter().map(|it| it.message).collect();
        let assessed = assessor.assess(&look_up, messages, now).await?;
        all.extend(assessed.into_iter().map(|it| {
            let found = Found {
                message: it.message,
                state: it.state,
            };
            (found, it.prospect)
        }));
    }
    Ok(all)
}
