//! Semel's vocabulary, decisions and ports.
//!
//! This crate defines keys, claims, records and outcomes, decides what to do with a key ([`decide`]), and
//! states the ports that stores and brokers implement ([`port`]). It is pure: no I/O, no async runtime, no
//! clock and no random numbers of its own.
//!
//! ```
//! use semel_core::{decide, Admission, Change, ClaimId, ClaimRequest, FencingToken, Key, Scope, Timestamp};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scope = Scope::new("", "payments")?;
//! let request = ClaimRequest::new(scope, Key::parse("pay-1")?, ClaimId::from_u128(7));
//! let now = Timestamp::from_millis(1_000);
//!
//! let first = decide::claim(None, None, &request, now, FencingToken::new(1));
//! assert!(matches!(first.answer, Admission::Granted(_)));
//!
//! let Change::Put(record) = first.change else { panic!("a grant writes its record") };
//! let other = ClaimRequest { claim_id: ClaimId::from_u128(8), ..request };
//! let second = decide::claim(Some(&record), None, &other, now, FencingToken::new(2));
//! assert!(matches!(second.answer, Admission::Busy { .. }));
//! # Ok(())
//! # }
//! ```

pub mod attempt;
pub mod audit;
pub mod backoff;
pub mod birth;
pub mod claim;
pub mod code;
pub mod connection;
pub mod decide;
pub mod entity;
pub mod error;
pub mod fate;
pub mod fingerprint;
mod ids;
pub mod ingest;
pub mod json;
pub mod key;
pub mod law;
pub mod ledger;
mod note;
pub mod operation;
pub mod outbox;
pub mod outcome;
pub mod parked;
pub mod partition;
pub mod percent;
mod planted;
pub mod port;
pub mod producer;
pub mod record;
pub mod select;
pub mod settle;
pub mod sql;
pub mod tenant;
pub mod time;
pub mod trace_context;
pub mod units;
pub mod window;

/// Text that is shared, or part of what was read, without a copy.
pub use bytestring::ByteString;

pub use attempt::{AttemptEnd, PastAttempt};
pub use audit::{Audited, Note};
pub use backoff::Backoff;
pub use claim::{
    Admission, AttemptLimits, Claim, ClaimId, ClaimRequest, Claimant, Duplicate, FencingToken,
    Grant, Start,
};
pub use code::Code;
pub use decide::{Change, Decision};
pub use entity::{Entity, EntityRecord, VersionGate};
pub use error::{Advice, Certainty, Error, ErrorKind, Result};
pub use fate::Fate;
pub use fingerprint::{Differing, Fingerprint, Members};
pub use key::{Key, OpId, Scope, Unusable};
pub use law::LawId;
pub use operation::Operation;
pub use outcome::Outcome;
pub use parked::{Parked, ParkedId, Reason};
#[doc(hidden)]
pub use planted::planted;
pub use port::store::{AnyStore, Store, StoreExt};
pub use record::{Record, Recovery, State, StateKind};
pub use settle::{Mark, Renewal, Renewed, Settled, Settlement, Step};
pub use time::{Clock, Entropy, Timestamp};
pub use trace_context::{Carried, SpanId, TraceContext, TraceFlags, TraceId};
pub use window::Window;
