//! Orders about relays, each in the store beside the outbox of its relay.

use std::path::Path;
use std::sync::Arc;

use semel_backends::store;
use semel_config::{Overrides, RelaySettings};
use semel_core::{AnyStore, Code, Error, ErrorKind, Result};
use semel_engine::system::SystemClock;
use semel_operate::pipelines::{OrderedPause, ordered_pauses};

use crate::args::Within;
use crate::configuration::load;

/// The relays of a configuration, as far as they are meant.
pub(super) struct Relays {
    /// The relays.
    pub(super) all: Vec<RelaySettings>,
    /// True if there is nothing else in the configuration, which needs no store of its own then.
    pub(super) are_alone: bool,
}

impl Relays {
    /// Reads the relays of the configuration; none where there is none, and where a store is named, which is the place of
    /// the orders then.
    pub(super) fn of(common: &Within) -> Self {
        let none = Self {
            all: Vec::new(),
            are_alone: false,
        };
        let file = common.config.as_deref();
        if common.store.is_some() || (file.is_none() && !Path::new("semel.toml").exists()) {
            return none;
        }
        // Faults are reported where the store is looked for.
        load(file, &Overrides::default()).map_or(none, |(_, settings)| Self {
            are_alone: settings.has_relays_alone(),
            all: settings.relays,
        })
    }

    /// Returns the relay of this name.
    pub(super) fn named(&self, name: &str) -> Option<&RelaySettings> {
        self.all.iter().find(|it| &*it.name == name)
    }
}

/// Reads the order about a relay; also returns the store that has it, if there is one.
///
/// # Errors   those of the database, with its url
pub(super) async fn standing(
    relay: &RelaySettings,
) -> Result<(Option<AnyStore>, Option<OrderedPause>)> {
    let read = async {
        let clock = Arc::new(SystemClock::new());
        let Some(store) = store::beside_outbox(&relay.store, clock).await? else {
            return Ok((None, None));
        };
        let orders = ordered_pauses(&store, &[&*relay.name]).await?;
        Ok((Some(store), orders.into_iter().next().flatten()))
    };
    read.await
        .map_err(|error| store::at_store(&relay.store, error))
}

/// The error of a relay whose database has no store.
pub(super) fn no_store(relay: &RelaySettings) -> Error {
    let message = format!(
        "relay {}: {} has no store, which would keep the order beside the outbox; `semel store migrate --yes` makes it",
        relay.name, relay.store
    );
    Error::new(ErrorKind::InvalidConfig, message)
        .with_code(Code::StoreUnavailable)
        .not_applied()
}
