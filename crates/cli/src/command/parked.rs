//! What the verbs over parked messages share: which ones are meant, going through them page by page.
//! Not for saying what a message is kept for: that is each verb's.

mod detail;
mod dropping;
mod forecast;
mod name;
mod publishing;
mod running;

pub(crate) use detail::show;
pub(crate) use dropping::{SHORT, drop_all};
pub(crate) use name::names;
pub(crate) use running::{Meant, Running, replay};

use semel_core::Timestamp;
use semel_operate::parked::Filter;

use crate::args::dead_letters::Matching;

/// What must be true of a message of all, as the arguments say.
pub(crate) fn filter(matching: &Matching, now: Timestamp) -> Filter {
    Filter::new(matching.older_than, matching.reason_like.as_deref(), now)
}
