//! The effects that a configuration can name: what the worker runs under a claim.
//!
//! Not for deciding anything about keys: an effect says how its call ended, and the engine goes by
//! that. Whatever an effect says about a failure is one line, bounded, without the message and
//! without secrets.

pub mod exec;
pub mod file;
pub mod http;
pub mod jsonl;
pub mod publish;
pub mod sql;
pub mod stdout;

pub(crate) mod base64;
mod child;
mod excerpt;

pub use exec::ExecEffect;
pub use file::FileOutput;
pub use http::HttpEffect;
pub use jsonl::JsonlEffect;
pub use publish::{PublishEffect, Target};
pub use sql::SqlBinding;
pub use stdout::{Closed, StdoutEffect};

/// The longest outcome that an effect keeps, far beyond what any pipeline does. A longer one is read
/// to its end and measured.
const MOST_OUTCOME_BYTES: usize = 8 << 20;
