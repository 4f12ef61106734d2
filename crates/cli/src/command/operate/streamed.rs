//! Records of pipelines of class `streamed`, which are in no store: verbs that look read the changelog, and
//! verbs that change a record are refused.

use semel_backends::streamed;
use semel_config::PipelineSettings;
use semel_core::port::store::Store;
use semel_core::{ClaimRequest, Error, ErrorKind, Key, Operation, Record, Result, Scope};
use semel_engine::pipeline::Pipeline;
use semel_worker::settings::{EffectSettings, StreamedSettings};

use super::Ground;
use crate::output;

impl Ground {
    /// Reads the records of these operations, from the store or from a changelog. A changelog does not keep the
    /// request, only enough to tell whether `requests` ask the same; `requests` holds one per operation, or
    /// nothing.
    ///
    /// # Shape    one answer per operation, in the same order
    /// # Cost     one look-up, and the whole changelog of each streamed pipeline
    /// # Errors   those of the store, and of the cluster if its pipeline is the only one that is meant
    pub(crate) async fn records(
        &self,
        operations: &[Operation],
        requests: &[Option<ClaimRequest>],
    ) -> Result<Vec<Option<Record>>> {
        let mut records = self.store.get(operations).await?;
        self.look_in_changelogs(operations, requests, &mut records)
            .await?;
        Ok(records)
    }

    /// Adds the records that the changelogs have of operations that are not in the store. A cluster that is
    /// away is no failure if other pipelines may have the key.
    ///
    /// # Cost     reads the changelog of each streamed pipeline that is asked for
    /// # Errors   those of the cluster, if its pipeline is the only one that is meant
    async fn look_in_changelogs(
        &self,
        operations: &[Operation],
        requests: &[Option<ClaimRequest>],
        records: &mut [Option<Record>],
    ) -> Result<()> {
        for settings in &self.pipelines {
            let Some(streamed) = streamed(settings) else {
                continue;
            };
            let Pipeline {
                name,
                scope,
                window,
                ..
            } = &settings.pipeline;
            let asked = operations.iter().zip(&*records).enumerate();
            let asked: Vec<_> = asked
                .filter(|(_, (operation, record))| operation.scope == *scope && record.is_none())
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
            let (source, now) = (&settings.source, self.now());
            let found = streamed::records(source, streamed, *window, ids, &requests, now);
            let found = match found.await {
                Ok(found) => found,
                Err(error) if self.named.is_none() && self.pipelines.len() > 1 => {
                    output::warning(format_args!(
                        "{name} is streamed, and its changelog cannot be read, so it is left out: {error} [{}]",
                        error.code()
                    ));
                    continue;
                }
                Err(error) => return Err(error),
            };
            for ((at, _), record) in asked.into_iter().zip(found) {
                records[at] = record;
            }
        }
        Ok(())
    }

    /// Refuses to change records of a pipeline that has none in the store.
    ///
    /// # Errors   `Unsupported`: it is streamed
    pub(crate) fn refuse_streamed(&self, scope: &Scope, keys: &[Key]) -> Result<()> {
        let Some((settings, streamed)) = self.streamed_of(scope) else {
            return Ok(());
        };
        let name = &settings.pipeline.name;
        let first = keys.first().map_or("KEY", Key::as_str);
        let message = format!(
            "{name} is streamed: what was done is in its changelog {}, which only its workers write and nothing \
             is taken from before its time. To see a record: semel keys show {first} --pipeline {name}. To have \
             it done again, publish it with another key, or wait until its window is over",
            streamed.changelog
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Tells the operator what a list of the store leaves out.
    pub(crate) fn tell_of_streamed(&self) {
        let wanted = self.narrowed();
        for settings in &self.pipelines {
            let is_wanted = wanted
                .as_ref()
                .is_none_or(|scope| *scope == settings.pipeline.scope);
            if let Some(streamed) = streamed(settings).filter(|_| is_wanted) {
                let name = &settings.pipeline.name;
                output::note(format_args!(
                    "{name} is streamed: what was done is in its changelog {}, by digests of its keys, and is not \
                     in this list; look for one with: semel keys show KEY --pipeline {name}",
                    streamed.changelog
                ));
            }
        }
    }

    fn streamed_of(&self, scope: &Scope) -> Option<(&PipelineSettings, &StreamedSettings)> {
        let settings = self.pipeline_of(scope)?;
        Some((settings, streamed(settings)?))
    }
}

/// Returns the streamed settings of a pipeline, if it is streamed.
pub(crate) fn streamed(settings: &PipelineSettings) -> Option<&StreamedSettings> {
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
