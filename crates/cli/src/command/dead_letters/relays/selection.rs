//! The dead letters that the arguments mean: those of pipelines, of relays, or of both.

use std::collections::BTreeSet;
use std::path::Path;

use semel_config::{Overrides, RelaySettings, Settings, suggestion};
use semel_core::outbox::OutboxId;
use semel_core::port::outbox::operations::OutboxOperations;
use semel_core::{Clock, Key, Result};
use semel_engine::system::SystemClock;
use semel_operate::relays::Search;

use super::{at, open};
use crate::Exit;
use crate::args::Within;
use crate::args::dead_letters::{OfRelay, Which};
use crate::command::operate::{self, usage};
use crate::command::parked;
use crate::configuration::load;
use crate::output;

/// The owners of the dead letters that are meant.
pub(crate) enum Meant {
    /// Pipelines, and operations of clients.
    Pipelines,
    /// These relays.
    Relays(Vec<RelaySettings>),
    /// Pipelines and these relays.
    Both(Vec<RelaySettings>),
    /// Nothing: faults of the configuration were reported.
    Faulty,
}

/// Finds out whose dead letters are meant: the relay that is named; no relay where a pipeline, a tenant or a store is
/// named; else all of the configuration.
///
/// # Errors   `InvalidInput`: the configuration has no relay of this name
pub(crate) fn meant(common: &Within, of: &OfRelay) -> Result<Meant> {
    let file = common.config.as_deref();
    let is_elsewhere =
        common.pipeline.is_some() || common.tenant.is_some() || common.store.is_some();
    let has_no_file = file.is_none() && !Path::new("semel.toml").exists();
    if of.relay.is_none() && (is_elsewhere || has_no_file) {
        return Ok(Meant::Pipelines);
    }
    let settings = match load(file, &Overrides::default()) {
        Ok((_, settings)) => settings,
        Err(faults) if of.relay.is_some() => {
            output::errors(&faults);
            return Ok(Meant::Faulty);
        }
        // They are reported where the store is looked for.
        Err(_) => return Ok(Meant::Pipelines),
    };
    let has_relays_alone = settings.has_relays_alone();
    let Settings { mut relays, .. } = settings;
    if let Some(name) = &of.relay {
        let names: Vec<&str> = relays.iter().map(|it| &*it.name).collect();
        if !names.contains(&name.as_str()) {
            let known = if names.is_empty() {
                "it has none".to_owned()
            } else {
                suggestion(name, &names)
            };
            return Err(usage(format!(
                "the configuration has no relay `{name}`; {known}"
            )));
        }
        relays.retain(|it| *it.name == **name);
        return Ok(Meant::Relays(relays));
    }
    Ok(if relays.is_empty() {
        Meant::Pipelines
    } else if has_relays_alone {
        Meant::Relays(relays)
    } else {
        Meant::Both(relays)
    })
}

impl Meant {
    /// Decides whose dead letters these keys name where both may be meant: relays', if one of them has each as an id.
    /// Without keys, which mean all, they are those of pipelines.
    ///
    /// # Errors   `InvalidInput`: some are of relays, others are not
    pub(crate) fn of_keys(self, keys: &[Key]) -> Result<Self> {
        let Self::Both(relays) = self else {
            return Ok(self);
        };
        let mut named = NamedIds::of(keys);
        if named.ids.is_empty() {
            return Ok(Self::Both(relays));
        }
        operate::alone(async || {
            for relay in &relays {
                let outbox = open(relay)?;
                for id in named.ids.clone() {
                    match outbox.dead_whole(&relay.stream, id).await {
                        Ok(Some(_)) => {
                            named.found.insert(id);
                        }
                        Ok(None) => {}
                        // The keys may be those of a pipeline, whose store answers.
                        Err(error) => {
                            output::warning(format_args!(
                                "relay {} is left out: {}",
                                relay.name,
                                at(relay, error)
                            ));
                            break;
                        }
                    }
                }
            }
            Ok(Exit::Done)
        })?;
        Ok(if named.are_of_relays()? {
            Self::Relays(relays)
        } else {
            Self::Both(relays)
        })
    }
}

/// Reads keys as the ids of messages in an outbox.
///
/// # Errors   `InvalidInput`: one is no UUID
pub(crate) fn ids(keys: &[Key]) -> Result<BTreeSet<OutboxId>> {
    let id = |key: &Key| {
        let text = key.as_str();
        let id = text.parse::<OutboxId>();
        id.map_err(|why| {
            usage(format!(
                "{text}: a dead letter of a relay goes by the id of its message, and this is {why}"
            ))
        })
    };
    keys.iter().map(id).collect()
}

/// Returns the search for these keys, or for all that the arguments describe.
///
/// # Errors   as [`ids`]
pub(crate) fn search(which: &Which, keys: &[Key]) -> Result<Search> {
    if which.matching.all {
        return Ok(Search {
            ids: BTreeSet::new(),
            filter: parked::filter(&which.matching, SystemClock::new().now()),
        });
    }
    Ok(Search {
        ids: ids(keys)?,
        ..Search::default()
    })
}

/// The keys of a command, as ids of dead letters of relays.
pub(crate) struct NamedIds {
    pub(crate) ids: BTreeSet<OutboxId>,
    /// Those that a relay has.
    pub(crate) found: BTreeSet<OutboxId>,
    /// False if some of the keys are none.
    are_all_ids: bool,
}

impl NamedIds {
    pub(crate) fn of(keys: &[Key]) -> Self {
        let parsed = keys.iter().map(|key| key.as_str().parse().ok());
        let parsed: Vec<Option<OutboxId>> = parsed.collect();
        Self {
            ids: parsed.iter().copied().flatten().collect(),
            found: BTreeSet::new(),
            are_all_ids: parsed.iter().all(Option::is_some),
        }
    }

    /// Tells whether all of them are of relays; otherwise none is.
    ///
    /// # Errors   `InvalidInput`: some are, others are not
    pub(crate) fn are_of_relays(&self) -> Result<bool> {
        if self.found.is_empty() {
            Ok(false)
        } else if self.are_all_ids && self.found == self.ids {
            Ok(true)
        } else {
            Err(usage(
                "some of these are dead letters of relays, others are not; name those of a relay with --relay NAME, and \
                 the others apart",
            ))
        }
    }
}
