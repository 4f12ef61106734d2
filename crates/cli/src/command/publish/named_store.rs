//! The store of a publication, and the words by which another command names the same one.

use semel_config::{Fault, Overrides, StoreUrl};
use semel_core::{Error, ErrorKind, Result};

use crate::args::Publish;
use crate::configuration::{load, store_of_environment, store_url};
use crate::shell::{quoted, quoted_path};

/// The store that keeps the producer.
#[derive(Debug)]
pub(super) struct NamedStore {
    /// The url.
    pub(super) url: StoreUrl,
    /// The option that names it once more, behind a space; nothing if variables do. Without a secret.
    pub(super) typed: String,
    is_masked: bool,
}

impl NamedStore {
    /// Returns the store that the arguments name, else that of a named configuration or variable, else the default.
    pub(super) fn of(arguments: &Publish) -> Result<Result<Self, Vec<Fault>>> {
        if let Some(text) = &arguments.store {
            let url = store_url(text).map_err(|why| {
                Error::new(ErrorKind::InvalidInput, format!("--store: {why}")).not_applied()
            })?;
            return Ok(Ok(Self::typed_as(text, url)));
        }
        if let Some(file) = &arguments.config {
            let loaded = load(Some(file), &Overrides::default());
            return Ok(loaded.map(|(_, settings)| Self {
                url: settings.store,
                typed: format!(" --config {}", quoted_path(file)),
                is_masked: false,
            }));
        }
        Ok(store_of_environment().map(|named| match named {
            Some((url, _)) => Self {
                url,
                typed: String::new(),
                is_masked: false,
            },
            None => Self::typed_as(DEFAULT, StoreUrl::Embedded(DEFAULT_FOLDER.into())),
        }))
    }

    fn typed_as(text: &str, url: StoreUrl) -> Self {
        let shown = url.to_string();
        // A file is named as it was typed; a server only where nothing of its url is secret.
        let (is_masked, shown) = if url.is_server() {
            (shown != text, shown)
        } else {
            (false, text.to_owned())
        };
        Self {
            url,
            typed: format!(" --store {}", quoted(&shown)),
            is_masked,
        }
    }

    /// Says what is to be filled in before the command is of use.
    pub(super) const fn remark(&self) -> &'static str {
        if self.is_masked {
            " (put what `***` hides in its place, or name the store in `SEMEL__STORE__URL`)"
        } else {
            ""
        }
    }
}

const DEFAULT: &str = "embedded:./.semel-publish";
const DEFAULT_FOLDER: &str = "./.semel-publish";
