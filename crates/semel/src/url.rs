//! From a url to an open store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use semel_core::{AnyStore, Clock, Error, ErrorKind, Result};
use semel_store_memory::MemoryStore;

/// Opens the store of `url`, off the runtime's own threads.
pub(crate) async fn open(url: &str, clock: Arc<dyn Clock>) -> Result<AnyStore> {
    let (kind, rest) = url.split_once(':').unwrap_or((url, ""));
    let path = rest.strip_prefix("//").unwrap_or(rest);
    match kind {
        "memory" if path.is_empty() => Ok(AnyStore::new(MemoryStore::new(clock))),
        "memory" => Err(refused("`memory:` has no path".to_owned())),
        "embedded" | "sqlite" if path.is_empty() => Err(refused(format!(
            "`{kind}:` needs a path, as in `{kind}:./data`"
        ))),
        "embedded" => apart(path, move |path| embedded(path, clock)).await,
        "sqlite" => apart(path, move |path| sqlite(path, clock)).await,
        // What follows may hold a password.
        kind => {
            let kind: String = kind
                .chars()
                .take(40)
                .filter(char::is_ascii_graphic)
                .collect();
            Err(refused(format!(
                "`{kind}` is no store of this build; a url is `embedded:DIR`, `sqlite:FILE` or `memory:`"
            )))
        }
    }
}

async fn apart(
    path: &str,
    open: impl FnOnce(&Path) -> Result<AnyStore> + Send + 'static,
) -> Result<AnyStore> {
    let path = PathBuf::from(path);
    let opened = tokio::task::spawn_blocking(move || open(&path)).await;
    opened.unwrap_or_else(|why| {
        Err(Error::new(ErrorKind::Internal, "opening the store panicked").with_source(why))
    })
}

#[cfg(feature = "embedded")]
fn embedded(path: &Path, clock: Arc<dyn Clock>) -> Result<AnyStore> {
    use semel_store_embedded::{EmbeddedStore, Options};
    EmbeddedStore::open(path, clock, Options::default()).map(AnyStore::new)
}

#[cfg(not(feature = "embedded"))]
fn embedded(_: &Path, _: Arc<dyn Clock>) -> Result<AnyStore> {
    Err(not_built_in("embedded"))
}

#[cfg(feature = "sqlite")]
fn sqlite(path: &Path, clock: Arc<dyn Clock>) -> Result<AnyStore> {
    use semel_store_sqlite::{Options, SqliteStore};
    SqliteStore::open(path, clock, Options::default()).map(AnyStore::new)
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &Path, _: Arc<dyn Clock>) -> Result<AnyStore> {
    Err(not_built_in("sqlite"))
}

#[cfg(not(all(feature = "embedded", feature = "sqlite")))]
fn not_built_in(kind: &str) -> Error {
    let message = format!("the store `{kind}:` needs the feature `{kind}` of the crate");
    Error::new(ErrorKind::Unsupported, message)
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}
