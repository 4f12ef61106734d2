//! The promise of each pipeline, what it rests on, and what stands in the way: the model of `semel check`.
//!
//! A program looks at the store, the broker and the targets, hands in what it saw as a [`Subject`], and gets a
//! [`Report`]. A run asks two of the rules before it begins: [`window`] and [`durability`].

pub mod attempts;
mod broker;
pub mod durability;
mod finding;
mod inspection;
mod report;
mod rules;
mod sample;
mod storage;
pub mod window;

pub use broker::{Broker, BrokerFact, Reached, UnreadSetting};
pub use finding::{Finding, Severity, fail, warn};
pub use inspection::Inspection;
pub use report::{Coverage, Protection, Report, RetryReport, StoreReport};
pub use rules::Subject;
pub use sample::{Conflict, Sample, Unusable};
pub use storage::{AtRate, Storage};
