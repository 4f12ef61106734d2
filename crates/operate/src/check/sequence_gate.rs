//! The rules about the sequence gate before a source.

use std::time::Duration;

use semel_config::{PipelineSettings, SourceSettings};
use semel_core::units::duration_text;

use super::finding::{Finding, warn};

/// Lists what is to be said about the sequence gate of a pipeline; nothing if it has none.
pub(super) fn findings(pipeline: &PipelineSettings) -> Vec<Finding> {
    let Some(gate) = &pipeline.sequence_gate else {
        return Vec::new();
    };
    let any = gate.is_any_first.then(|| {
        let why = "a producer that this store does not know may begin with any sequence: what it sent to another store, or \
                   to this one before it was lost, is taken again if the broker still has it, and what comes later than \
                   the first message that was taken, and has a lower number, is dropped as known";
        let advice = "remove `first = \"any\"` once every producer has sent something";
        warn("first-any", why, advice)
    });
    let is_broker = matches!(
        pipeline.source,
        SourceSettings::Kafka(_) | SourceSettings::Nats(_) | SourceSettings::Amqp(_)
    );
    let short = (is_broker && gate.hold < SHORT).then(|| {
        let why = format!(
            "after {} what is behind a gap is set aside, and a broker may need longer to deliver again what a killed worker \
             had in hand",
            duration_text(gate.hold)
        );
        let advice = "set `hold.time` to more than `ack_wait` of NATS or `session.timeout.ms` of Kafka, and the time in which \
                      a worker is started again: 5m, unless you set it";
        warn("hold-short", why, advice)
    });
    any.into_iter().chain(short).collect()
}

/// The default of `session.timeout.ms` is 45 s, that of `ack_wait` 30 s.
const SHORT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::super::text_settings::settings;
    use super::*;

    #[test]
    fn a_short_hold_before_a_broker_and_any_beginning_are_told() {
        let of = |source: &str, more: &str| {
            let text = format!(
                "[pipelines.p]\nkey = 'header:semel-id'\neffect = {{ kind = 'stdout' }}\n[pipelines.p.source]\n{source}\n\
                 {more}\n"
            );
            let found = findings(&settings(&text).pipelines[0]);
            found.into_iter().map(|it| it.code).collect::<Vec<_>>()
        };
        let kafka = "kind = 'kafka'\nbrokers = 'b:9092'\ntopic = 't'\ngroup = 'g'";
        let file = "kind = 'file'\npath = 'in'";
        assert!(of(kafka, "").is_empty());
        assert!(of(kafka, "producer = 'header:p'").is_empty());
        assert_eq!(
            of(kafka, "producer = 'header:p'\nhold.time = '59s'"),
            ["hold-short"]
        );
        assert!(of(file, "producer = 'header:p'\nhold.time = '1s'").is_empty());
        assert_eq!(
            of(file, "producer = 'header:p'\nfirst = 'any'"),
            ["first-any"]
        );
    }
}
