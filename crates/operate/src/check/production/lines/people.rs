//! The lines about people: who is called, who sees it, and who looks at what waits.

use std::time::Duration;

use semel_config::{Ownership, StoreUrl};
use semel_worker::settings::EffectSettings;

use super::Judge;
use crate::check::production::line::Line;
use crate::check::production::{Observed, Scrape};
use crate::relative_time::in_words;

impl Judge<'_> {
    pub(super) fn owner(&self) -> Line {
        match &self.subject.pipeline.ownership.owner {
            Some(owner) => Line::pass("owner", &**owner),
            None => Line::fail(
                "owner",
                "nobody is named whom an alert could reach",
                "name the team, as in `owner = \"team-payments\"`",
            ),
        }
    }

    pub(super) fn runbook(&self) -> Line {
        let Ownership { runbook, .. } = &self.subject.pipeline.ownership;
        match runbook {
            Some(runbook) => Line::pass("runbook", &**runbook),
            None => Line::fail(
                "runbook",
                "no page says what to do when it fails",
                "name it, as in `runbook = \"https://wiki.example/payments\"`",
            ),
        }
    }

    /// Judges whether somebody can see that it fails.
    pub(super) fn alerts(&self, scrape: &Scrape) -> Line {
        alerts("pipeline", &self.subject.pipeline.pipeline.name, scrape)
    }

    /// Judges whether somebody looks at what waits for a person.
    pub(super) fn set_aside(&self, observed: &Observed<'_>) -> Line {
        let aside = match observed.set_aside {
            None if self.subject.store.is_err() => {
                return Line::unknown(
                    "set-aside",
                    "the store could not be looked at",
                    "see the line `store`, then check again",
                );
            }
            None if self.subject.settings.store == StoreUrl::Memory => {
                return Line::unknown(
                    "set-aside",
                    "a store in memory cannot be looked at, and forgets what it sets aside",
                    "use a store that does not forget",
                );
            }
            None if self.report.store.is_there => {
                return Line::unknown("set-aside", "nobody counted in the store", LISTS);
            }
            None => return Line::pass("set-aside", "nothing, since nothing ran yet"),
            Some(Err(error)) => {
                let advice = format!("see `semel explain {}`", error.code().as_str());
                return Line::unknown("set-aside", error.to_string(), advice);
            }
            Some(Ok(aside)) => aside,
        };
        let now = self.subject.broker.at;
        let Some(oldest) = aside.oldest() else {
            return Line::pass("set-aside", "nothing waits for a person");
        };
        let piles = aside.piles().map(|(pile, one, several)| {
            let age = pile.oldest.map(|oldest| in_words(now.since(oldest.0)));
            let age = age.unwrap_or_default();
            match pile.count {
                count if pile.is_cut => {
                    format!("more than {count} {several}, one of them for {age}")
                }
                1 => format!("1 {one}, for {age}"),
                count => format!("{count} {several}, the oldest for {age}"),
            }
        });
        let why = piles.collect::<Vec<_>>().join("; ");
        if now.since(oldest) > LOOKED_AT_WITHIN {
            let why = format!("{why}; nobody decided about the oldest within a day");
            return Line::fail("set-aside", why, LISTS);
        }
        Line::unknown(
            "set-aside",
            format!("{why}; whether somebody looks at it is not seen from here"),
            LISTS,
        )
    }

    /// Judges whether the store is backed up, which nobody can see from here.
    pub(super) fn backup(&self) -> Line {
        let why = match self.subject.pipeline.effect {
            EffectSettings::Sql(_) => {
                "records and effects are in one database; whether it is backed up is not seen from here"
            }
            EffectSettings::File { .. }
            | EffectSettings::Http(..)
            | EffectSettings::Exec(..)
            | EffectSettings::Jsonl(..)
            | EffectSettings::Stdout(_)
            | EffectSettings::Publish(_)
            | EffectSettings::Streamed(_) => {
                "whether the store is backed up, together with what the effects change, is not seen from here"
            }
        };
        Line::unknown(
            "backup",
            why,
            "restore one somewhere, and compare `semel store stats --store URL`",
        )
    }
}

/// Judges whether somebody can see that a pipeline or a route fails. Whether somebody does, nobody can see from here.
pub(in crate::check::production) fn alerts(noun: &str, name: &str, scrape: &Scrape) -> Line {
    match scrape {
        Scrape::Off => Line::fail(
            "alerts",
            "no metrics, so nothing can raise an alert",
            "set `listen = \"127.0.0.1:9464\"` in `[admin]`, and scrape it",
        ),
        Scrape::Silent(at, why) => Line::unknown(
            "alerts",
            format!("no worker answers at http://{at}/metrics: {why}"),
            "start the worker, then check again",
        ),
        Scrape::Answered(at, text) => {
            let label = name.replace('\\', "\\\\").replace('"', "\\\"");
            let is_ours = |line: &str| {
                line.starts_with("semel_") && line.contains(&format!("pipeline=\"{label}\""))
            };
            if !text.lines().any(is_ours) {
                return Line::fail(
                    "alerts",
                    format!("what answers at http://{at}/metrics does not run this {noun}"),
                    "start its worker, or give it a port of its own",
                );
            }
            let answers = format!("http://{at}/metrics answers, and has this {noun}");
            if at.ip().is_loopback() {
                return Line::unknown(
                    "alerts",
                    format!("{answers}; whether somebody scrapes it is not seen from here"),
                    "see that it is scraped, from this machine; then stop the worker, and see whom the alert reaches",
                );
            }
            Line::unknown(
                "alerts",
                format!(
                    "{answers}; others can reach it too, without a login, and whether somebody scrapes it is \
                     not seen from here"
                ),
                "keep it inside, and see that it is scraped; then stop the worker, and see whom the alert reaches",
            )
        }
    }
}

const LISTS: &str = "`semel dead-letters list`, `semel in-doubt list`, `semel quarantine list`";
/// The time after which nobody has looked at what was set aside.
const LOOKED_AT_WITHIN: Duration = Duration::from_secs(86_400);
