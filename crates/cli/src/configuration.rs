//! Reads the configuration that the command line and the environment name, for the backends that are built in.

use std::path::{Path, PathBuf};

use semel_backends::BACKENDS;
use semel_config::{Accepted, Fault, Overrides, Refusal, Settings, StoreUrl};
use semel_core::Code;

/// Reads the configuration in `file`, or else that of the current folder; returns its path, too.
pub(crate) fn load(
    file: Option<&Path>,
    overrides: &Overrides,
) -> Result<(PathBuf, Settings), Vec<Fault>> {
    let file = file.unwrap_or(Path::new("semel.toml")).to_owned();
    let name = file.display().to_string();
    let text = std::fs::read_to_string(&file).map_err(|error| {
        let hint = if error.kind() == std::io::ErrorKind::NotFound {
            "; name another with --config, or make one with `semel init`"
        } else {
            ""
        };
        vec![Fault {
            origin: name.clone(),
            path: String::new(),
            message: format!("cannot read the configuration: {error}{hint}"),
            code: Code::ConfigUnreadable,
        }]
    })?;
    let settings = Settings::of(&name, &text, std::env::vars_os(), overrides, BACKENDS)?;
    Ok((file, settings))
}

/// The store that variables name if there is no configuration, and its weaknesses that are accepted.
pub(crate) fn store_of_environment() -> Result<Option<(StoreUrl, Accepted)>, Vec<Fault>> {
    Settings::store_of(std::env::vars_os(), BACKENDS.servers)
}

/// Reads the url of a store as it is typed.
pub(crate) fn store_url(text: &str) -> Result<StoreUrl, Refusal> {
    StoreUrl::parse(text, BACKENDS.servers)
}
