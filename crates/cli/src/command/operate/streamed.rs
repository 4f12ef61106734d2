//! Records of pipelines of class `streamed`, which are in no store: verbs that look read the changelog, and
//! verbs that change a record are refused.

use semel_backends::changelog::{self, streamed};
use semel_config::PipelineSettings;
use semel_core::port::store::{ListQuery, Store};
use semel_core::{ClaimRequest, Error, ErrorKind, Key, Operation, Record, Result};
use semel_engine::pipeline::Pipeline;

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
        let records = self.store.get(operations.into()).await?;
        let is_only = self.named.is_some() || self.pipelines.len() <= 1;
        let unread = |settings: &PipelineSettings, error: Error| {
            if is_only {
                return Err(error);
            }
            output::warning(format_args!(
                "{} is streamed, and its changelog cannot be read, so it is left out: {error} [{}]",
                settings.pipeline.name,
                error.code()
            ));
            Ok(())
        };
        changelog::look_up(
            &self.pipelines,
            operations,
            requests,
            records,
            self.now(),
            unread,
        )
        .await
    }

    /// Refuses to change records of a pipeline that has none in the store.
    ///
    /// # Errors   `Unsupported`: it is streamed
    pub(crate) fn refuse_streamed(&self, pipeline: &str, keys: &[Key]) -> Result<()> {
        let named = self.pipelines.iter();
        let mut named = named.filter(|settings| *settings.pipeline.name == *pipeline);
        let Some((settings, streamed)) = named.find_map(|it| Some((it, streamed(it)?))) else {
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
    pub(crate) fn tell_of_streamed(&self, list: &ListQuery) {
        for settings in &self.pipelines {
            let Pipeline { scope, tenant, .. } = &settings.pipeline;
            let wanted = match (tenant, &list.tenant) {
                (Some(_), Some(tenant)) => tenant,
                (Some(_) | None, _) => scope.tenant(),
            };
            let is_wanted = list.fits_parts(wanted, scope.operation());
            if let Some(streamed) = streamed(settings).filter(|_| is_wanted) {
                let name = &settings.pipeline.name;
                output::note(format_args!(
                    "{name} is streamed: what was done is in its changelog {}, by digests of its keys, and is not \
                     in this list; look for one with: semel keys show KEY --pipeline {name}{}",
                    streamed.changelog,
                    if tenant.is_some() {
                        " --tenant NAME"
                    } else {
                        ""
                    }
                ));
            }
        }
    }

    /// Tells the operator in which of the pipelines with these names a key could not be looked for: a changelog has
    /// digests, which say nothing without a tenant.
    pub(super) fn tell_of_digests(&self, names: &[Box<str>]) {
        let streamed = self.pipelines.iter().filter(|it| streamed(it).is_some());
        for settings in streamed.filter(|it| names.contains(&it.pipeline.name)) {
            let name = &settings.pipeline.name;
            output::note(format_args!(
                "{name} is streamed, and its changelog has digests of tenants and keys: to look there, name the \
                 tenant with --tenant NAME"
            ));
        }
    }
}
