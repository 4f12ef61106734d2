//! Access to a store that only its worker may open, for operators' verbs: requests, answers, and a Unix socket to
//! carry them.
//!
//! The worker [`serve`]s its store at [`SOCKET`] in the store's folder. A verb [`connect`]s there and gets a
//! store like any other; the worker makes all of its calls. The messages are in [`wire`](self) and know nothing
//! of sockets, so that another transport can carry them too.

mod client;
mod frame;
mod server;
mod socket;
mod wire;

pub use client::{ControlStore, connect};
pub use server::serve;
pub use socket::SOCKET;

use std::time::Duration;

use semel_core::{Error, ErrorKind, Result};

/// The version of the messages; each side refuses another one.
const VERSION: u32 = 4;
/// The longest greeting. A peer that sends more is no verb of Semel's.
const MOST_GREETING_BYTES: usize = 4 << 10;
/// The longest message. A page of a list is made to fit.
const MOST_BYTES: usize = 256 << 20;
/// The time for which each side waits for a greeting, and the worker for the rest of a message that has begun.
const PATIENCE: Duration = Duration::from_secs(10);

/// The fault of a message, in the reader's words.
fn unlike(what: &str) -> Error {
    let message = format!("what came over {SOCKET} is no message of semel: {what}");
    Error::new(ErrorKind::InvalidInput, message)
}

/// Checks that a message is no longer than the limit.
fn within(len: usize) -> Result<()> {
    if len > MOST_BYTES {
        let message = format!("{len} bytes are too many for one message over {SOCKET}");
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
