//! `[store]`: the store that remembers operations, and its weaknesses that are accepted.

mod url;

pub use url::{ServerKind, ServerUrl, Servers, StoreUrl};

use std::str::FromStr;

use semel_core::Code;

use super::fields::Fields;
use super::node::Origin;
use super::paths;
use super::refusal::Refusal;
use super::suggestion::suggestion;

/// The weaknesses of a store that are accepted by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Answers may survive less than a class needs.
    pub durability: bool,
    /// Redis may evict records inside their window.
    pub eviction: bool,
}

impl Accepted {
    /// All names, as they are written.
    const NAMES: [&'static str; 2] = ["durability", "eviction"];

    /// All weaknesses, for a caller that only looks.
    pub const ALL: Self = Self {
        durability: true,
        eviction: true,
    };

    /// Returns the names of the accepted weaknesses, as they are written.
    pub fn names(self) -> Vec<&'static str> {
        let Self {
            durability,
            eviction,
        } = self;
        let accepted = Self::NAMES.into_iter().zip([durability, eviction]);
        accepted
            .filter(|(_, is)| *is)
            .map(|(name, _)| name)
            .collect()
    }

    /// Accepts a weakness that either of the two accepts.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            durability: self.durability || other.durability,
            eviction: self.eviction || other.eviction,
        }
    }
}

impl FromStr for Accepted {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        match text {
            "durability" => Ok(Self {
                durability: true,
                ..Self::default()
            }),
            "eviction" => Ok(Self {
                eviction: true,
                ..Self::default()
            }),
            _ => Err(format!("`{text}` is unknown; {}", suggestion(text, &Self::NAMES)).into()),
        }
    }
}

/// Reads `[store]`; returns nothing if the url is wrong.
pub(super) fn read(fields: &mut Fields<'_>, servers: Servers) -> Option<(StoreUrl, Accepted)> {
    let parse = |text: &str| StoreUrl::parse(text, servers);
    let mut table = fields.optional_sub("store")?;
    let url = table.parsed_with("url", parse);
    let url = url.zip(table.node("url")).map(|(url, node)| {
        let whole = url.clone().written_in(node.origin.folder());
        if whole != url {
            table.show_as("url", node, &whole.whole());
        }
        whole
    });
    let url_file = table.secret_file("url_file", "url", parse);
    let url_file = url_file.map(|url| match table.path("url_file") {
        Some(file) => url.written_in(paths::folder(&file)),
        None => url,
    });
    let written = match (table.node("url"), table.node("url_file")) {
        (Some(node), Some(_)) => {
            table.fault("url", node, "either `url` or `url_file`, not both");
            Some(node)
        }
        (one, other) => one.or(other),
    };
    let is_volatile_allowed = table.boolean_or("allow_volatile", false);
    let accepted = table.words("accept", str::parse::<Accepted>);
    let accepted = accepted
        .into_iter()
        .fold(Accepted::default(), Accepted::and);
    let default = StoreUrl::Embedded("./semel-data".into()).written_in(fields.origin.folder());
    if written.is_none() {
        table.default("url", default.to_string());
    }
    let (store, origin) = written.map_or((Some(default), Origin::Default), |node| {
        (url.or(url_file), node.origin.clone())
    });
    table.finish();
    if store == Some(StoreUrl::Memory) && !is_volatile_allowed {
        let message = "`memory:` forgets everything at exit, so that no promise holds across runs; \
                       set `store.allow_volatile = true` to use it all the same";
        fields
            .found
            .fault(&origin, "store.url", Code::InvalidConfig, message);
    }
    Some((store?, accepted))
}
