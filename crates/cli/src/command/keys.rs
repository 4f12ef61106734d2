//! `semel keys`: shows the records of keys, and gives orders about them.

mod change;
mod explain;
mod extend;
mod list;
mod show;
mod unknown;

pub(crate) use change::wanted;
pub(crate) use unknown::{tell_all_unknown, tell_missing};

use semel_core::Result;

use crate::Exit;
use crate::args::keys::Keys;

/// Carries out one of the verbs.
pub(crate) fn run(verb: &Keys) -> Result<Exit> {
    match verb {
        Keys::Show(arguments) => show::show(arguments),
        Keys::Explain(arguments) => explain::explain(arguments),
        Keys::List(arguments) => list::list(arguments),
        Keys::Release(arguments) => change::release(arguments),
        Keys::Forget(arguments) => change::forget(arguments),
        Keys::Hold(arguments) => change::hold(arguments),
        Keys::Extend(arguments) => extend::extend(arguments),
    }
}
