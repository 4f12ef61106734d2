//! `semel store`: the store as a whole.

mod audit;
mod migrate;
mod stats;
mod sweep;

use semel_core::Result;

use crate::Exit;
use crate::args::store::Store;
use crate::command::transfer;

/// Carries out one of the verbs.
pub(crate) fn run(verb: &Store) -> Result<Exit> {
    match verb {
        Store::Stats(arguments) => stats::stats(arguments),
        Store::Sweep(arguments) => sweep::sweep(arguments),
        Store::Migrate(arguments) => migrate::migrate(arguments),
        Store::Audit(arguments) => audit::audit(arguments),
        Store::Export(arguments) => transfer::export(arguments),
        Store::Import(arguments) => transfer::import(arguments),
    }
}
