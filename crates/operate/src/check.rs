//! The promise of each pipeline, its foundation, and what stands in its way: the model of `semel check`.
//!
//! A program looks at the store, the broker and the targets, passes its observations in as a [`Subject`], and
//! gets a [`Report`]. A run applies two of the rules before it begins: [`window`] and [`durability`].

pub mod attempts;
mod broker;
mod claims;
mod conclusion;
pub mod durability;
mod finding;
mod gateway;
mod inspection;
mod paused;
mod producers;
mod production;
mod relays;
mod report;
mod rules;
mod sample;
mod sequence_gate;
mod set_aside;
mod storage;
mod subject_report;
#[cfg(test)]
mod text_settings;
mod unavailable;
mod webhook;
pub mod window;
mod window_line;

pub use broker::{Broker, BrokerFact, Reached, UnreadSetting};
pub use claims::{ClaimsReport, TokensSeen};
pub use conclusion::{CheckAnswer, CheckFailure};
pub use finding::{Finding, Place, Severity, fail, warn};
pub use gateway::RouteReport;
pub use inspection::Inspection;
pub use paused::{paused, relay_orders_unread, relay_paused};
pub use producers::ProducerReport;
pub use production::{Disk, Line, Observed, Production, Room, Scrape, Standing};
pub use relays::RelayReport;
pub use report::{Coverage, Protection, Report, RetryReport, StoreReport};
pub use rules::Subject;
pub use sample::{Conflict, Sample, Unusable};
pub use set_aside::{Pile, SetAside};
pub use storage::{AtRate, Storage};
pub use subject_report::CheckReport;
pub use unavailable::{certificate_refused, target_unavailable};
pub use window_line::WindowLine;
