//! The report of a relay: what it publishes and to where, what waits, and what stands in its way.

use semel_config::RelaySettings;
use semel_core::port::outbox::OutboxContents;
use semel_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::finding::{Finding, Severity, fail, warn};
use crate::value::Span;

/// The documented object; the names and the order of its members are stable.
#[derive(Debug, Serialize, Deserialize)]
pub struct RelayReport {
    /// The name.
    pub relay: String,
    /// The worst of the findings.
    pub verdict: Severity,
    /// The stream that it publishes.
    pub stream: String,
    /// The database with the outbox.
    pub store: String,
    /// The place that it publishes to.
    pub sink: String,
    /// The time for which a partition is leased.
    pub lease: Span,
    /// Messages that are not published yet; none if the outbox could not be asked.
    pub waiting: Option<u64>,
    /// Messages that will not be published as they are.
    pub dead: Option<u64>,
    /// All findings.
    pub findings: Vec<Finding>,
}

impl RelayReport {
    /// Applies every rule to the known facts. `relayed` are the streams that the configuration publishes from the same
    /// database, `paused` is the finding of an order.
    pub fn of(
        settings: &RelaySettings,
        outbox: Result<&OutboxContents, &Error>,
        sink: Result<(), &Error>,
        relayed: &[&str],
        paused: Option<Finding>,
    ) -> Self {
        let mut findings: Vec<Finding> = paused.into_iter().collect();
        match outbox {
            Ok(seen) => findings.extend(of_contents(settings, seen, relayed)),
            Err(error) => findings.push(fail(
                error.code().as_str(),
                error.to_string(),
                "the relay needs its table: `semel store migrate --yes` makes it",
            )),
        }
        if let Err(error) = sink {
            findings.push(fail(
                error.code().as_str(),
                error.to_string(),
                "make the place of the sink, or correct its settings",
            ));
        }
        let severities = findings.iter().map(|finding| finding.severity);
        Self {
            relay: settings.name.to_string(),
            verdict: severities.max().unwrap_or(Severity::Ok),
            stream: settings.stream.to_string(),
            store: settings.store.to_string(),
            sink: settings.sink.to_string(),
            lease: Span(settings.rules.lease),
            waiting: outbox.ok().map(|seen| seen.waiting),
            dead: outbox.ok().map(|seen| seen.dead),
            findings,
        }
    }
}

fn of_contents(settings: &RelaySettings, seen: &OutboxContents, relayed: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if seen.dead > 0 {
        let (count, stream) = (seen.dead, &settings.stream);
        findings.push(warn(
            "relay-dead",
            format!(
                "{count} messages of stream {stream} are dead, and what has their order keys waits"
            ),
            "see why in the column `error`; to try again, set `due_at` and `dead_at` to NULL, and `attempts` to 0",
        ));
    }
    let forgotten = seen
        .others
        .iter()
        .filter(|(stream, relay)| relay.is_none() && !relayed.contains(&stream.as_str()));
    for (stream, _) in forgotten {
        let stream: String = stream.escape_debug().take(64).collect();
        findings.push(warn(
            "stream-unrelayed",
            format!(
                "the outbox has messages of stream {stream}, which no relay has ever published"
            ),
            "add a relay for it, or correct the stream where they are written",
        ));
    }
    findings
}
