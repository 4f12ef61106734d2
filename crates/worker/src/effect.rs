//! The effects that a configuration can name: the work that the worker runs under a claim.
//!
//! Not for decisions about keys: an effect reports how its call ended, and the engine decides by
//! that. Every message of an effect about a failure is one line, bounded, without the payload and
//! without secrets.

pub mod append;
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

pub use append::AppendSink;
pub use exec::ExecEffect;
pub use file::FileOutput;
pub use http::HttpEffect;
pub use jsonl::JsonlEffect;
pub use publish::{PublishEffect, Target};
pub use sql::SqlBinding;
pub use stdout::{Closed, StdoutEffect};

/// The longest outcome that an effect keeps, far beyond the limit of any pipeline. A longer one is
/// read to its end and measured.
const MOST_OUTCOME_BYTES: usize = 8 << 20;
