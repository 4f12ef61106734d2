//! The store, looked at without changing it.

use std::sync::Arc;

use semel_backends::store::{self, Formats};
use semel_config::Settings;
use semel_core::port::transactional::Statements;
use semel_core::{AnyStore, Clock, Code, Error, ErrorKind, Result};
use semel_operate::check::Inspection;
use semel_operate::shell::quoted;

use crate::own_thread::apart;

/// Inspects the store, and refuses one that only another version can use, or that must be migrated first.
///
/// # Errors   `store-newer`; `store-unavailable` with the command; those of the store
pub(crate) async fn inspect(
    settings: &Settings,
    (opened, unfinished): (Option<&AnyStore>, &Arc<()>),
    clock: Arc<dyn Clock>,
    statements: &[Statements],
) -> Result<Inspection> {
    let url = &settings.store;
    let inspected = if let Some(store) = opened {
        store::inspect_opened(store, url, settings.accepted, clock, statements).await?
    } else {
        let (own, accepted) = (url.clone(), settings.accepted);
        let statements = statements.to_vec();
        let looking = async move { store::inspect(&own, accepted, clock, &statements).await };
        apart(url, unfinished, looking).await?
    };
    let refused = |message| Error::new(ErrorKind::Unavailable, message).not_applied();
    match inspected.formats {
        Some(Formats {
            stored: Some(stored),
            newest,
        }) if stored > newest => Err(refused(format!(
            "the store has format {stored}, and this version knows {newest}; use a newer version"
        ))
        .with_code(Code::StoreNewer)),
        Some(Formats {
            stored: Some(stored),
            newest,
        }) if stored < newest => Err(refused(format!(
            "the store has format {stored}, and this version works with {newest}; bring it forward: semel store \
             migrate --store {}",
            quoted(&url.to_string())
        ))),
        Some(_) | None => Ok(inspected.inspection),
    }
}
