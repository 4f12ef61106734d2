//! The store and the pipelines that the arguments and the configuration name.

use std::path::Path;
use std::time::Duration;

use semel_config::{Accepted, Overrides, PipelineSettings, StoreUrl, TelemetrySettings};
use semel_core::{Code, Error, ErrorKind, Result};
use semel_operate::keys::names_of_routes;

use super::usage;
use crate::args::Common;
use crate::configuration::{load, store_of_environment, store_url};
use crate::output;
use crate::shell::{quoted, quoted_path};

/// The options with which the operator named the store, to type them again.
pub(super) fn typed(common: &Common) -> String {
    let Common { config, store, .. } = common;
    // Secrets in the url are left out.
    let store = store.as_deref().and_then(|url| store_url(url).ok());
    let options = [
        config
            .as_deref()
            .map(|file| ("--config", quoted_path(file))),
        store.map(|url| ("--store", quoted(&url.to_string()))),
    ];
    let options = options.into_iter().flatten();
    options.fold(String::new(), |typed, (option, value)| {
        typed + " " + option + " " + &value
    })
}

/// The names that the arguments and the configuration give.
pub(super) struct Named {
    pub(super) url: StoreUrl,
    pub(super) accepted: Accepted,
    pub(super) pipelines: Vec<PipelineSettings>,
    pub(super) patience: Duration,
    pub(super) telemetry: TelemetrySettings,
    pub(super) serves_clients: bool,
    pub(super) takes_claims: bool,
    pub(super) routes: Vec<Box<str>>,
}

impl Named {
    /// A store without a configuration.
    fn alone(url: StoreUrl, accepted: Accepted) -> Self {
        Self {
            url,
            accepted,
            pipelines: Vec::new(),
            patience: Duration::ZERO,
            telemetry: TelemetrySettings::default(),
            serves_clients: false,
            takes_claims: false,
            routes: Vec::new(),
        }
    }
}

/// Reads the store and the pipelines that the arguments name; nothing after faults were reported.
pub(super) fn place(common: &Common) -> Result<Option<Named>> {
    let named = common.store.as_deref().map(store_url);
    let named = named
        .transpose()
        .map_err(|why| usage(format!("--store: {why}")))?;
    let is_default = common.config.is_none();
    if is_default && !Path::new(DEFAULT_CONFIG).exists() {
        return match (named, store_of_environment()) {
            (Some(url), _) => Ok(Some(Named::alone(url, Accepted::default()))),
            (None, Ok(Some((url, accepted)))) => Ok(Some(Named::alone(url, accepted))),
            (None, Ok(None)) => Err(no_store()),
            (None, Err(faults)) => {
                output::errors(&faults);
                Ok(None)
            }
        };
    }
    // A command-line store need not be able to do what the configuration asks of its own store.
    let read = load(common.config.as_deref(), &Overrides::default());
    match (read, named) {
        (Ok((_, settings)), named) => Ok(Some(Named {
            routes: names_of_routes(&settings),
            serves_clients: settings.serves_claims() || settings.gateway.is_some(),
            takes_claims: settings.serves_claims(),
            url: named.unwrap_or(settings.store),
            accepted: settings.accepted,
            pipelines: settings.pipelines,
            patience: settings.shutdown,
            telemetry: settings.telemetry,
        })),
        // Nobody asked for this file, and the store can be looked at without it.
        (Err(faults), Some(url)) if is_default => {
            let first = faults.first().map(ToString::to_string);
            output::warning(format_args!(
                "going on without the configuration: {}",
                first.unwrap_or_default()
            ));
            Ok(Some(Named::alone(url, Accepted::default())))
        }
        (Err(faults), _) => {
            output::errors(&faults);
            Ok(None)
        }
    }
}

fn no_store() -> Error {
    let hint = if Path::new(DEFAULT_STORE).is_dir() {
        "--store embedded:./semel-data"
    } else {
        "--store embedded:DIR"
    };
    let message = format!(
        "which store? there is no {DEFAULT_CONFIG} here; name a configuration with --config FILE or \
         a store with {hint}, or in the variable SEMEL__STORE__URL"
    );
    Error::new(ErrorKind::InvalidConfig, message).with_code(Code::ConfigUnreadable)
}

const DEFAULT_CONFIG: &str = "semel.toml";
const DEFAULT_STORE: &str = "semel-data";
