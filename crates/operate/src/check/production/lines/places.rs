//! The lines about what a pipeline stands on: its source, its target and its store.

use semel_config::{SourceSettings, StoreUrl};
use semel_worker::settings::EffectSettings;

use super::Judge;
use crate::check::production::Room;
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
            SourceSettings::Webhook(_) => Line::unknown(
                "source",
                format!("{source}; who sends to it is not seen from here"),
                "have the provider send a trial, and see its answer there: 2xx",
            ),
            SourceSettings::Ingest(_) => Line::unknown(
                "source",
                format!("{source}; who sends to it is not seen from here"),
                "have a producer send a message, and see its answer: 200",
            ),
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
        let survives = match store.survives.as_deref() {
            Some("power-cut") => "survives a power cut",
            Some("node-loss") => "survives the loss of a machine",
            // Whatever the class, and behind a filter too, for which there is no finding.
            Some("nothing") => {
                return Line::fail(
                    "store",
                    format!("{url} forgets everything when its process ends"),
                    "use `embedded:FOLDER` or `sqlite:FILE` on a local disk; only a test may forget",
                );
            }
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

    /// Judges whether the disk has room for the full windows of all pipelines of the store.
    pub(super) fn room(&self, room: Room) -> Line {
        if let Some(found) = self.found("room") {
            return found;
        }
        let Some(needed) = room.needed else {
            return Line::unknown(
                "room",
                "how many new keys come in a second was not said",
                "say it with --rate COUNT",
            );
        };
        let takes = match room.pipelines {
            0 | 1 => format!("a full window takes {}", size(needed)),
            count => format!(
                "full windows of all {count} pipelines take {}",
                size(needed)
            ),
        };
        match (&self.subject.settings.store, room.disk) {
            (StoreUrl::Memory, _) => Line::unknown(
                "room",
                "a store in memory has as much as its process",
                "use a store that does not forget",
            ),
            (StoreUrl::Server(_), _) => Line::unknown(
                "room",
                format!("{takes}; the disk of the server is not seen from here"),
                "compare it with what the server has left",
            ),
            (StoreUrl::Embedded(_) | StoreUrl::Sqlite(_), None) => Line::unknown(
                "room",
                format!("{takes}; what its disk has left could not be read"),
                "compare it with what `df` says where the store is",
            ),
            (StoreUrl::Embedded(_) | StoreUrl::Sqlite(_), Some(disk)) => {
                let has = match disk.held {
                    0 => String::new(),
                    held => format!("the store has {}, and ", whole(held)),
                };
                let why = format!("{takes}; {has}its disk has {} left", whole(disk.free));
                if disk.fits(needed) {
                    return Line::pass("room", why);
                }
                Line::fail(
                    "room",
                    why,
                    "make room, or shorten the window as far as duplicates allow",
                )
            }
        }
    }
}

/// Returns the size of what is needed, rounded up.
fn size(bytes: u64) -> String {
    let (unit, name) = unit(bytes);
    format!("{} {name}", bytes.div_ceil(unit))
}

/// Returns the size of what there is, rounded down.
fn whole(bytes: u64) -> String {
    let (unit, name) = unit(bytes);
    format!("{} {name}", bytes / unit)
}

/// Returns the largest binary unit of which there is one.
fn unit(bytes: u64) -> (u64, &'static str) {
    let units = [
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    unit.unwrap_or((1, "B"))
}
