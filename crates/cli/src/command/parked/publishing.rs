//! Returns dead letters of a streamed pipeline to its source, for the worker that has their partition, and
//! drops them once that worker has done them.

use std::collections::BTreeMap;

use semel_backends::streamed;
use semel_config::PipelineSettings;
use semel_core::Result;
use semel_core::port::store::Store;
use semel_operate::parked::{Found, Search};
use semel_worker::replay::{Job, Prospect};
use serde::Serialize;
use tokio::sync::watch;

use super::forecast::assess;
use crate::args::Output;
use crate::command::operate::Ground;
use crate::output::{self, Go};

/// The fates of dead letters that only their worker can run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Sent {
    /// Messages that are with the broker once more, and kept.
    published: u64,
    /// Messages that are done by now.
    dropped: u64,
    /// Messages that are left alone.
    refused: u64,
}

#[derive(Serialize)]
struct Json<'a> {
    pipeline: &'a str,
    #[serde(flatten)]
    sent: Sent,
}

/// Publishes the messages of the pipeline that `search` finds, as far as the job goes, to the partitions from
/// which they were read. A message that was done since is dropped instead. A published message is kept until
/// the verb is called again, since its worker may set it aside again, which changes nothing here.
///
/// # Cancel safety   dropping the future loses nothing: a message that is published twice is done once
/// # Errors   those of the store and of the cluster; messages that were not reached are unchanged
pub(super) async fn publish(
    ground: &Ground,
    settings: &PipelineSettings,
    search: &Search,
    job: &Job,
    stop: &watch::Sender<bool>,
) -> Result<Sent> {
    let (mut done, mut assessors) = (Sent::default(), BTreeMap::new());
    search
        .pages(&ground.store, async |mut found: Vec<Found>| {
            found.retain(|it| {
                settings.pipeline.has(&it.message.scope) && it.message.since <= job.until
            });
            let (mut again, mut over) = (Vec::new(), Vec::new());
            for (found, prospect) in assess(ground, (job.kind, None), &mut assessors, found).await?
            {
                match prospect {
                    Prospect::Published => again.push(found.message),
                    Prospect::Done => over.push(found.message.id()),
                    Prospect::Runs { .. }
                    | Prospect::Waits { .. }
                    | Prospect::Stays(_)
                    | Prospect::GivenUp(_)
                    | Prospect::Refused(_) => done.refused += 1,
                }
            }
            if !over.is_empty() {
                let dropped = ground
                    .store
                    .drop_parked(over.into(), Some(&job.note))
                    .await?;
                done.dropped += dropped.iter().filter(|&&was_there| was_there).count() as u64;
            }
            streamed::publish_again(&settings.source, &again).await?;
            done.published += again.len() as u64;
            Ok(if *stop.borrow() {
                Go::Break(())
            } else {
                Go::Continue(())
            })
        })
        .await?;
    Ok(done)
}

impl Sent {
    pub(super) fn print(&self, name: &str, format: Output) -> Result<()> {
        let Self {
            published,
            dropped,
            refused,
        } = *self;
        let text = match format {
            Output::Table => format!(
                "{name}: dead letters: {published} published to their partitions again and kept, {dropped} done since \
                 and dropped, {refused} left alone"
            ),
            Output::Json | Output::Jsonl => {
                let json = Json {
                    pipeline: name,
                    sent: *self,
                };
                serde_json::to_string(&json).unwrap_or_default()
            }
        };
        output::data(text).map_err(output::cannot_print)
    }
}
