//! Verbs over keys: the model of `semel keys`.

mod proposal;

pub use proposal::{KeyChange, Proposal, Seen};
