//! Operations that are set aside for a person, as messages name them.

use semel_core::Operation;
use semel_core::json::write_string;

/// The kinds of operations that are set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// Semel gave the operation up.
    Dead,
    /// Nobody knows whether the effect happened.
    InDoubt,
}

impl Aside {
    /// The kind in words.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::InDoubt => "in doubt",
        }
    }
}

/// An operation by the names under which an operator looks for it: its tenant if it has one, and its key, as JSON, or
/// the beginning of its id.
pub(super) fn named(operation: &Operation) -> String {
    let key = operation.key.as_str();
    let literal = key
        .strip_prefix("json:")
        .map_or_else(|| quoted(key), str::to_owned);
    let tenant = match operation.scope.tenant() {
        "" => String::new(),
        tenant => format!("tenant {}, ", quoted(tenant)),
    };
    let id = operation.id().to_string();
    let short = id.get(..SHORT_ID).unwrap_or(&id);
    format!("{tenant}key {literal}, operation {short}")
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    let mut literal = Vec::new();
    write_string(text, &mut literal);
    String::from_utf8_lossy(&literal).into_owned()
}

/// The number of digits of an id that messages show.
const SHORT_ID: usize = 8;
