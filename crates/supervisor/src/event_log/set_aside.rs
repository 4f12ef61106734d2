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

/// An operation by the name under which an operator looks for it: its key, as JSON, or the beginning of its id.
pub(super) fn named(operation: &Operation) -> String {
    let key = operation.key.as_str();
    let literal = if let Some(literal) = key.strip_prefix("json:") {
        literal.to_owned()
    } else {
        let mut literal = Vec::new();
        write_string(key, &mut literal);
        String::from_utf8_lossy(&literal).into_owned()
    };
    let id = operation.id().to_string();
    let short = id.get(..SHORT_ID).unwrap_or(&id);
    format!("key {literal}, operation {short}")
}

/// The number of digits of an id that messages show.
const SHORT_ID: usize = 8;
