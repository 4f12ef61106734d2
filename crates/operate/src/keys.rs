//! Verbs over keys: the model of `semel keys`.

mod arrival;
mod detail;
mod entry;
mod explanation;
mod lookup;
mod proposal;
mod summary;

pub use arrival::Arrival;
pub use detail::{Detail, Kept, Past};
pub use entry::KeyEntry;
pub use explanation::{
    AuditEntry, Beside, Choice, Event, Explanation, Facts, KeptMessage, Prospect,
};
pub use lookup::{Candidates, ID_DIGITS, Places, candidates, in_list};
pub use proposal::{KeyChange, Proposal, Seen};
pub use summary::{reason, signature, since};
