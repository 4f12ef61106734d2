//! Checks whether the targets of a pipeline exist, and how long they drop repeats. Publishes nothing.

use std::sync::Arc;

use semel_backends::{sink, source};
use semel_config::{PipelineSettings, SinkPlace, SinkSettings, SourceSettings};
use semel_core::Error;
use semel_operate::check::{Finding, target_unavailable};
use semel_worker::effect::Target;
use semel_worker::effect::publish::Promise;
use semel_worker::settings::EffectSettings;

/// The targets of a pipeline, as they were found.
pub struct Targets {
    /// The settings of the pipeline, completed by what only its broker knew.
    pub settings: PipelineSettings,
    /// The faults of the targets.
    pub findings: Vec<Finding>,
    /// The reason why one of the targets could not be looked at.
    pub away: Option<Error>,
}

impl Targets {
    /// Looks at the target of the effect and at that of the dead letters.
    ///
    /// # Cancel safety   safe
    pub async fn look(settings: &PipelineSettings) -> Self {
        let mut targets = Self {
            settings: settings.clone(),
            findings: Vec::new(),
            away: None,
        };
        if let EffectSettings::Publish(publish) = &settings.effect {
            let facts = publish.target.inspect().await;
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
        if let Some(output) = output(settings)
            && let Err(error) = output.inspect().await
        {
            targets.failed("the effect", error);
        }
        if let Some(target) = &settings.dead_letter
            && let Err(error) = target.inspect().await
        {
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
