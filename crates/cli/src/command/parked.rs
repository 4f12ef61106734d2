//! Shared parts of the verbs over parked messages: selecting the messages, and going through them page by page.
//! Each verb says itself what its messages are kept for.

mod detail;
mod forecast;
mod name;
mod publishing;
mod removal;
mod running;

pub(crate) use detail::{print_payload, show};
pub(crate) use name::names;
pub(crate) use removal::drop_all;
pub(crate) use running::{Meant, Running, replay};

use semel_core::Timestamp;
use semel_operate::parked::Filter;

use crate::args::dead_letters::Matching;

/// The conditions of the arguments on messages.
pub(crate) fn filter(matching: &Matching, now: Timestamp) -> Filter {
    Filter::new(matching.older_than, matching.reason_like.as_deref(), now)
}
