//! The requests to a store and its answers, as bytes: a line of JSON, and a line for each record or message as
//! an export has it. Nothing in here knows how the bytes travel.

mod answer;
mod parts;
mod request;

pub(super) use answer::Answer;
pub(super) use request::Request;

use semel_core::Result;
use semel_core::port::transfer::Item;
use serde::{Deserialize, Serialize};

use super::unlike;
use crate::transfer::{Scopes, read_item, write_item};

/// The first message of each side.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Greeting {
    /// The version of all messages after this one.
    pub(super) semel_control: u32,
    /// The version of semel, for people.
    pub(super) semel: String,
    /// The process id.
    pub(super) process: u32,
    /// The reason why the other side is not served, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<String>,
}

impl Greeting {
    pub(super) fn own() -> Self {
        Self {
            semel_control: super::VERSION,
            semel: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            refused: None,
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|_| unlike("no greeting"))
    }
}

/// A message that is being written.
struct Lines(Vec<u8>);

impl Lines {
    fn begin(head: &impl Serialize) -> Result<Self> {
        let head = serde_json::to_vec(head).map_err(|_| unlike("it does not fit into JSON"))?;
        Ok(Self(head))
    }

    fn item(&mut self, item: &Item) -> Result<()> {
        self.0.push(b'\n');
        write_item(item, &mut self.0)?;
        self.0.push(b'}');
        Ok(())
    }

    /// A line that stands for nothing.
    fn nothing(&mut self) {
        self.0.extend_from_slice(b"\nnull");
    }
}

/// The lines of a message after its first.
struct Items<'m> {
    lines: std::slice::Split<'m, u8, fn(&u8) -> bool>,
    scopes: Scopes,
}

/// The first line of a message, and the others.
fn split(message: &[u8]) -> (&[u8], Items<'_>) {
    let is_end: fn(&u8) -> bool = |byte| *byte == b'\n';
    let mut lines = message.split(is_end);
    let head = lines.next().unwrap_or_default();
    let scopes = Scopes::default();
    (head, Items { lines, scopes })
}

impl Iterator for Items<'_> {
    type Item = Result<Option<Item>>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.lines.next()?;
        if line == b"null" {
            return Some(Ok(None));
        }
        let body = line.strip_suffix(b"}").unwrap_or_default();
        Some(
            read_item(0, body, &mut self.scopes)
                .map(Some)
                .map_err(|_| unlike("no item")),
        )
    }
}
