//! The report of a producer whose messages stay where they are: how many, since when, and why.

use std::time::Duration;

use semel_core::producer::{ProducerEntry, StreamEntry};
use semel_core::{Timestamp, units};
use serde::{Deserialize, Serialize};

use super::finding::{Finding, Severity, warn};
use crate::value::Span;

/// The documented object; the names and the order of its members are stable.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProducerReport {
    /// The name.
    pub producer: String,
    /// The worst of the findings.
    pub verdict: Severity,
    /// True if its messages are kept and not published.
    pub frozen: bool,
    /// Messages that are not confirmed.
    pub waiting: u64,
    /// The time for which the oldest of them waits.
    pub oldest: Span,
    /// All findings.
    pub findings: Vec<Finding>,
}

impl ProducerReport {
    /// Reports on a producer, the oldest message of which that is not confirmed was appended at `oldest`. Nothing where
    /// none has waited for long.
    pub fn of(entry: &ProducerEntry, oldest: Timestamp, now: Timestamp) -> Option<Self> {
        let waiting: u64 = entry.streams.iter().map(StreamEntry::waiting).sum();
        let age = Duration::from_secs(now.since(oldest).as_secs() / MINUTE * MINUTE);
        if waiting == 0 || age < LONG {
            return None;
        }
        let (name, since) = (&entry.name, units::duration_text(age));
        let finding = if entry.is_frozen {
            warn(
                "producer-frozen",
                format!(
                    "producer {name} is frozen, and {waiting} messages are kept, the oldest for {since}"
                ),
                "`semel producers thaw` or `release` lets them out, once there is no reason any more to keep them",
            )
        } else {
            warn(
                "producer-waiting",
                format!(
                    "{waiting} messages of producer {name} are not confirmed, the oldest for {since}"
                ),
                "run what publishes for it again, with /dev/null as input where nothing is new: it sends them first, and \
                 says what keeps the broker",
            )
        };
        Some(Self {
            producer: name.to_string(),
            verdict: finding.severity,
            frozen: entry.is_frozen,
            waiting,
            oldest: Span(age),
            findings: vec![finding],
        })
    }
}

const MINUTE: u64 = 60;
/// The time after which messages have waited for long.
const LONG: Duration = Duration::from_secs(60 * MINUTE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_producer_is_told_of_once_its_messages_have_waited_for_an_hour() {
        let entry = |is_frozen, next, confirmed| ProducerEntry {
            name: "billing".parse().expect("a name"),
            id: "billing-7f".into(),
            epoch: 1,
            is_frozen,
            streams: vec![StreamEntry {
                stream: "orders".into(),
                target: "kafka here".into(),
                next,
                confirmed,
                released: 0,
            }],
            damage: None,
        };
        let (oldest, hour) = (Timestamp::from_millis(7), 60 * 60 * 1_000);
        let code = |entry: ProducerEntry, after: u64| {
            let now = Timestamp::from_millis(7 + after);
            let report = ProducerReport::of(&entry, oldest, now)?;
            let waiting = report.waiting;
            let [finding] = &report.findings[..] else {
                panic!("{report:?}");
            };
            assert!(finding.message.contains(&format!("{waiting} messages")));
            assert!(finding.message.ends_with("the oldest for 1h"), "{report:?}");
            Some(finding.code.clone())
        };
        assert_eq!(
            code(entry(true, 8, 3), hour),
            Some("producer-frozen".into())
        );
        assert_eq!(
            code(entry(false, 8, 3), hour + 999),
            Some("producer-waiting".into())
        );
        assert_eq!(code(entry(true, 8, 3), hour - 1), None);
        assert_eq!(code(entry(true, 8, 7), 9 * hour), None, "all is confirmed");
    }
}
