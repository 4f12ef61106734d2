//! The lines about what a pipeline stands on: its source, its target and its store.

use semel_config::{SourceSettings, StoreUrl};
use semel_worker::settings::EffectSettings;

use super::Judge;
use crate::check::production::line::{Line, Standing};

impl Judge<'_> {
    pub(super) fn source(&self) -> Line {
        if let Some(found) = self.found("source") {
            return found;
        }
        let source = &self.report.source;
        match self.subject.pipeline.source {
            SourceSettings::Stdin { .. } => Line::unknown(
                "source",
                "standard input; who writes it is not seen from here",
                "see that whoever writes it begins again after a failure",
            ),
            SourceSettings::File { .. } => Line::pass("source", format!("{source} can be read")),
            SourceSettings::Kafka(_) | SourceSettings::Nats(_) | SourceSettings::Amqp(_) => {
                Line::pass("source", format!("{source} answers"))
            }
        }
    }

    pub(super) fn target(&self) -> Line {
        if let Some(found) = self.found("target") {
            return found;
        }
        let effect = &self.report.effect;
        match self.subject.pipeline.effect {
            EffectSettings::Http(..) => Line::unknown(
                "target",
                format!("{effect}; no check calls it"),
                "start a worker: /readyz says whether it is reached",
            ),
            EffectSettings::Stdout(_) => Line::unknown(
                "target",
                "standard output; who reads it is not seen from here",
                "see that whoever reads it reads it all",
            ),
            EffectSettings::Sql(_) => {
                Line::pass("target", format!("{effect}, which the database takes"))
            }
            EffectSettings::File { .. } => {
                Line::pass("target", format!("{effect}; its folder is there"))
            }
            EffectSettings::Exec(..) | EffectSettings::Jsonl(..) => {
                Line::pass("target", format!("{effect}; the program is there"))
            }
            EffectSettings::Publish(_) | EffectSettings::Streamed(_) => {
                Line::pass("target", format!("{effect} answers"))
            }
        }
    }

    /// Judges whether the store is there, and survives what the class needs.
    pub(super) fn store(&self) -> Line {
        let store = &self.report.store;
        let url = &store.url;
        if let Some(mut found) = self.found("store") {
            let is_accepted = self.subject.settings.accepted.durability;
            if is_accepted && found.findings == ["store-durability"] {
                found.verdict = Standing::Pass;
                found.advice = None;
            }
            return found;
        }
        let survives = match store.survives {
            Some("power-cut") => "survives a power cut",
            Some("node-loss") => "survives the loss of a machine",
            // Enough for the class, or there would be a finding.
            Some(_) => "survives kill -9",
            None => {
                return Line::unknown(
                    "store",
                    format!("{url} is not there yet"),
                    "run it once, or on a server `semel store migrate --yes`, then check again",
                );
            }
        };
        if store.is_there {
            return Line::pass("store", format!("{url} {survives}"));
        }
        Line::unknown(
            "store",
            format!("{url} {survives}, and is no store yet"),
            "run it once, or on a server `semel store migrate --yes`, then check again",
        )
    }

    /// Judges whether the disk has room for a full window.
    pub(super) fn room(&self) -> Line {
        if let Some(found) = self.found("room") {
            return found;
        }
        match (
            self.subject.storage.disk_bytes(),
            &self.subject.settings.store,
        ) {
            (None, _) => Line::unknown(
                "room",
                "how many new keys come in a second was not said",
                "say it with --rate COUNT",
            ),
            (Some(bytes), StoreUrl::Embedded(_) | StoreUrl::Sqlite(_)) => Line::pass(
                "room",
                format!("a full window takes {}, and the disk has that", size(bytes)),
            ),
            (Some(bytes), StoreUrl::Server(_)) => Line::unknown(
                "room",
                format!(
                    "a full window takes {}; the disk of the server is not seen from here",
                    size(bytes)
                ),
                "compare it with what the server has left",
            ),
            (Some(_), StoreUrl::Memory) => Line::unknown(
                "room",
                "a store in memory has as much as its process",
                "use a store that does not forget",
            ),
        }
    }
}

/// Returns a size in the largest binary unit that leaves a whole number, rounded up.
fn size(bytes: u64) -> String {
    let units = [
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    let (unit, name) = unit.unwrap_or((1, "B"));
    format!("{} {name}", bytes.div_ceil(unit))
}
