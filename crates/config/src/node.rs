//! Values as they were written, with their places.

use std::collections::BTreeMap;
use std::fmt;

/// A value and the place where it was written.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Boolean(bool),
    List(Vec<Node>),
    Table(Table),
    /// A float or a date: no setting takes one.
    Other(&'static str),
}

/// A table, sorted by the names of its keys.
pub(super) type Table = BTreeMap<String, Node>;

impl Value {
    /// Names the type of the value, with the article.
    pub(super) const fn noun(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Boolean(_) => "a boolean",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(noun) => noun,
        }
    }

    /// Returns the string, if the value is one.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Integer(_)
            | Self::Boolean(_)
            | Self::List(_)
            | Self::Table(_)
            | Self::Other(_) => None,
        }
    }
}

/// The place where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    File {
        name: std::sync::Arc<str>,
        line: usize,
    },
    /// An environment variable, a flag, another setting, a file of secrets.
    Named(Box<str>),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Named(name) => f.write_str(name),
            Self::Default => f.write_str("default"),
        }
    }
}

/// An empty table in place of one that was not written.
pub(super) static EMPTY: Node = Node {
    value: Value::Table(Table::new()),
    origin: Origin::Default,
};
