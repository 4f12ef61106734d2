//! Checks whether the targets of a pipeline exist, and how long they drop repeats. Publishes nothing.

use std::sync::Arc;

use futures_util::future::join3;
use semel_backends::{sink, source};
use semel_config::{PipelineSettings, SinkPlace, SinkSettings, SourceSettings};
use semel_core::{Code, Error};
use semel_operate::check::{Finding, target_unavailable};
use semel_worker::effect::Target;
use semel_worker::effect::publish::{Destination, Promise};
use semel_worker::settings::EffectSettings;

use crate::patience::Patience;

/// The targets of a pipeline, as they were found.
pub(crate) struct Targets {
    /// The settings of the pipeline, completed by what only its broker knew.
    pub(crate) settings: PipelineSettings,
    /// The faults of the targets.
    pub(crate) findings: Vec<Finding>,
    /// The reason why one of the targets could not be looked at.
    pub(crate) away: Option<Error>,
}

impl Targets {
    /// Looks at the target of the effect and at that of the dead letters.
    ///
    /// # Cancel safety   safe
    pub(crate) async fn look(settings: &PipelineSettings, patience: &Patience) -> Self {
        let mut targets = Self {
            settings: settings.clone(),
            findings: Vec::new(),
            away: None,
        };
        let place = ("its place", Code::TargetUnavailable);
        let published = match &settings.effect {
            EffectSettings::Publish(publish) => Some(publish),
            EffectSettings::Exec(..)
            | EffectSettings::File { .. }
            | EffectSettings::Http(..)
            | EffectSettings::Jsonl(..)
            | EffectSettings::Sql(_)
            | EffectSettings::Stdout(_)
            | EffectSettings::Streamed(_) => None,
        };
        let output = output(settings);
        let ask = |target: &Arc<dyn Target>| {
            let (target, server) = (Arc::clone(target), target_server(&**target));
            async move {
                let answer = target.inspect();
                patience.of_server(server, place, answer).await
            }
        };
        let (facts, of_output, of_dead_letters) = join3(
            asked(published.map(|it| ask(&it.target))),
            asked(output.as_ref().map(ask)),
            asked(settings.dead_letter.as_ref().map(ask)),
        )
        .await;
        if let (Some(publish), Some(facts)) = (published, facts) {
            let looked = facts.and_then(|facts| publish.class_at(facts).map(|_| facts));
            match (looked, publish.promise) {
                (
                    Ok(facts),
                    Promise::Keyed {
                        provider_window: None,
                    },
                ) => {
                    let mut read = publish.clone();
                    read.promise = Promise::Keyed {
                        provider_window: facts.duplicate_window,
                    };
                    targets.settings.effect = EffectSettings::Publish(read);
                }
                (Ok(_), Promise::Keyed { .. } | Promise::Unkeyed(_)) => {}
                (Err(error), _) => targets.failed("the effect", error),
            }
        }
        if let Some(Err(error)) = of_output {
            targets.failed("the effect", error);
        }
        if let Some(Err(error)) = of_dead_letters {
            targets.failed("dead letters", error);
        }
        targets
    }

    fn failed(&mut self, whose: &str, error: Error) {
        self.findings.push(target_unavailable(whose, &error));
        if source::is_away(&error) {
            self.away.get_or_insert(error);
        }
    }
}

/// Waits for what was asked, if anything was.
async fn asked<T>(answer: Option<impl Future<Output = T>>) -> Option<T> {
    match answer {
        Some(answer) => Some(answer.await),
        None => None,
    }
}

/// Returns what tells the server of a target from others; none if that is not certain.
pub(crate) fn target_server(target: &dyn Target) -> Option<String> {
    let Destination { system, server, .. } = target.destination();
    server.map(|(host, port)| format!("{system} {host}:{port}"))
}

/// The output of a streamed effect: a topic on the cluster of its source.
fn output(settings: &PipelineSettings) -> Option<Arc<dyn Target>> {
    let (EffectSettings::Streamed(effect), SourceSettings::Kafka(source)) =
        (&settings.effect, &settings.source)
    else {
        return None;
    };
    Some(sink::target(SinkSettings {
        place: SinkPlace::Kafka {
            brokers: source.brokers.clone(),
            topic: effect.topic.clone(),
            properties: effect.properties.clone(),
            has_id_header: effect.has_id_header,
        },
        timeout: effect.transaction_timeout,
    }))
}
