//! Stand-in for a kind of store that is not part of this build; a url of it cannot exist.

use std::future::{Ready, ready};

use semel_core::port::transactional::Statements;
use semel_core::{Error, ErrorKind, Result};
use semel_operate::check::Inspection;

use super::{Served, Terms};
use crate::store::Formats;

pub(super) fn check_url(_: &str) -> Result<()> {
    Err(absent())
}

pub(super) fn open(_: &str, _: Terms) -> Ready<Result<Served>> {
    ready(Err(absent()))
}

pub(super) fn inspect(_: &str, _: Terms, _: &[Statements]) -> Ready<Result<(Formats, Inspection)>> {
    ready(Err(absent()))
}

pub(super) fn migrate(_: &str, _: Terms) -> Ready<Result<i64>> {
    ready(Err(absent()))
}

fn absent() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "this kind of store is not part of this build",
    )
}
