//! `semel store export` and `semel store import`: a store's contents to a file and back.

mod export;
mod import;

pub(crate) use export::{export, is_closed, replaced, stdout, told, warn_of_worker};
pub(crate) use import::import;

use std::sync::Arc;

use semel_worker::transfer::OnTransfer;

use crate::progress::Bar;

/// Moves a bar, if there is one.
fn moves(bar: Bar, what: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> OnTransfer {
    Arc::new(move |items, bytes| bar.reach(what(items, bytes)))
}
