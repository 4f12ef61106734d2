//! Verbs over keys: the model of `semel keys`.

mod arrival;
mod declared;
mod detail;
mod entry;
mod explanation;
mod lookup;
mod order;
mod proposal;
mod summary;
mod traces;

pub use arrival::Arrival;
pub use declared::{Declared, names_of_routes};
pub use detail::{Detail, Kept, Past};
pub use entry::KeyEntry;
pub use explanation::{
    AuditEntry, Beside, Choice, Event, Explanation, Facts, KeptMessage, Prospect,
};
pub use lookup::{Candidates, ENOUGH, ID_DIGITS, Places, candidates, in_list, of_keys};
pub use order::{Changed, Extended, Planned};
pub use proposal::{KeyChange, Proposal, Seen};
pub use summary::{reason, signature, since, state_of};
pub use traces::{Traces, scopes_of};
