//! The changelogs of pipelines of class `streamed`, whose records are in no store.

use semel_config::PipelineSettings;
use semel_core::{ClaimRequest, Error, Operation, Record, Result, Timestamp};
use semel_worker::settings::{EffectSettings, StreamedSettings};

/// Adds the records that the changelogs have of operations without one in `records`, which the store returned. A
/// changelog does not keep the request, only enough to tell whether `requests` ask the same; `requests` holds one
/// per operation, or nothing. `unread` hears of each pipeline whose changelog cannot be read, and says whether that
/// is a failure.
///
/// # Cost
///
/// Reads the changelog of each streamed pipeline that is asked for.
///
/// # Errors
///
/// Those of `unread`.
pub async fn look_up(
    pipelines: &[PipelineSettings],
    operations: &[Operation],
    requests: &[Option<ClaimRequest>],
    mut records: Vec<Option<Record>>,
    now: Timestamp,
    unread: impl Fn(&PipelineSettings, Error) -> Result<()> + Send + Sync,
) -> Result<Vec<Option<Record>>> {
    for settings in pipelines {
        let Some(streamed) = streamed(settings) else {
            continue;
        };
        let pipeline = &settings.pipeline;
        let asked = operations.iter().zip(&records).enumerate();
        let asked: Vec<_> = asked
            .filter(|(_, (operation, record))| pipeline.has(&operation.scope) && record.is_none())
            .map(|(at, (operation, _))| (at, operation.id()))
            .collect();
        if asked.is_empty() {
            continue;
        }
        let ids = asked.iter().map(|(_, id)| *id).collect();
        let requests: Vec<_> = asked
            .iter()
            .map(|(at, _)| requests.get(*at)?.as_ref())
            .collect();
        let source = &settings.source;
        let found =
            crate::streamed::records(source, streamed, pipeline.window, ids, &requests, now).await;
        match found {
            Ok(found) => {
                for ((at, _), record) in asked.into_iter().zip(found) {
                    records[at] = record;
                }
            }
            Err(error) => unread(settings, error)?,
        }
    }
    Ok(records)
}

/// Returns the streamed settings of a pipeline, if it is streamed.
pub fn streamed(settings: &PipelineSettings) -> Option<&StreamedSettings> {
    match &settings.effect {
        EffectSettings::Streamed(streamed) => Some(streamed),
        EffectSettings::Sql(_)
        | EffectSettings::File { .. }
        | EffectSettings::Http(..)
        | EffectSettings::Exec(..)
        | EffectSettings::Jsonl(..)
        | EffectSettings::Stdout(_)
        | EffectSettings::Publish(_) => None,
    }
}
