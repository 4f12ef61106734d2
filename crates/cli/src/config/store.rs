//! Where operations are remembered: the url of a store and the rest of `[store]`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use semel_core::Code;
use semel_core::sql::Dialect;

use super::fields::Fields;
use super::paths;
use super::refusal::Refusal;
use super::suggest::suggestion;
use super::tree::Origin;
use crate::assemble;
use crate::same_file::plain;
use crate::secret::masked;

/// Where operations are remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    Memory,
    Embedded(PathBuf),
    Sqlite(PathBuf),
    Server(ServerUrl),
}

/// A store on a server. Printed without its secrets, however it is printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    kind: ServerKind,
    secret: Box<str>,
}

/// What kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Postgres,
    Mysql,
    Redis,
}

/// What of a store's weaknesses is accepted by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// Answers may survive less than a class needs.
    pub(crate) durability: bool,
    /// Redis may evict records inside their window.
    pub(crate) eviction: bool,
}

impl StoreUrl {
    /// Its folder or file.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Memory | Self::Server(_) => None,
            Self::Embedded(path) | Self::Sqlite(path) => Some(path),
        }
    }

    /// The same with its whole path.
    pub(crate) fn absolute(&self) -> Self {
        match self {
            Self::Memory | Self::Server(_) => self.clone(),
            Self::Embedded(path) => Self::Embedded(plain(path)),
            Self::Sqlite(path) => Self::Sqlite(plain(path)),
        }
    }

    /// The same, as it was written in a file of `folder`.
    fn written_in(self, folder: Option<&Path>) -> Self {
        match self {
            Self::Memory => Self::Memory,
            Self::Embedded(path) => Self::Embedded(paths::from(folder, &path)),
            Self::Sqlite(path) => Self::Sqlite(paths::from(folder, &path)),
            Self::Server(ServerUrl { kind, secret }) => Self::Server(ServerUrl {
                kind,
                secret: paths::in_query(folder, &secret).into(),
            }),
        }
    }

    /// As it is written, secrets and all.
    fn whole(&self) -> String {
        match self {
            Self::Server(url) => url.secret.to_string(),
            Self::Memory | Self::Embedded(_) | Self::Sqlite(_) => self.to_string(),
        }
    }

    /// Whether effects can join its transactions.
    pub(crate) const fn is_transactional(&self) -> bool {
        self.dialect().is_some()
    }

    /// Whose SQL the statements are that join its transactions.
    pub(crate) const fn dialect(&self) -> Option<Dialect> {
        match self {
            Self::Memory | Self::Embedded(_) => None,
            Self::Sqlite(_) => Some(Dialect::Sqlite),
            Self::Server(url) => match url.kind {
                ServerKind::Postgres => Some(Dialect::Postgres),
                ServerKind::Mysql => Some(Dialect::Mysql),
                ServerKind::Redis => None,
            },
        }
    }

    /// Whether it can write a number of its user's together with records, which an output file needs.
    pub(crate) const fn keeps_marks(&self) -> bool {
        match self {
            Self::Memory | Self::Embedded(_) | Self::Sqlite(_) => true,
            Self::Server(url) => match url.kind {
                ServerKind::Postgres | ServerKind::Mysql => true,
                ServerKind::Redis => false,
            },
        }
    }

    /// Whether it is on a server.
    pub(crate) const fn is_server(&self) -> bool {
        matches!(self, Self::Server(_))
    }
}

impl ServerUrl {
    pub(crate) const fn kind(&self) -> ServerKind {
        self.kind
    }

    /// Whether it is spread over several servers that decide key by key.
    pub(crate) fn is_cluster(&self) -> bool {
        let (scheme, query) = (self.secret.split(':').next(), self.secret.split_once('?'));
        let mut parameters = query.map_or("", |(_, query)| query).split('&');
        scheme.is_some_and(|scheme| scheme.ends_with("+cluster"))
            || parameters.any(|parameter| parameter == "cluster=true")
    }

    /// All of it, for the driver alone.
    pub(crate) const fn secret(&self) -> &str {
        &self.secret
    }
}

impl ServerKind {
    pub(crate) const ALL: [Self; 3] = [Self::Postgres, Self::Mysql, Self::Redis];

    /// Its name, which is that of the feature too.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Redis => "redis",
        }
    }

    /// What a url looks like.
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Self::Postgres => "postgres://USER:PASSWORD@HOST:5432/DATABASE",
            Self::Mysql => "mysql://USER:PASSWORD@HOST:3306/DATABASE",
            Self::Redis => "redis://:PASSWORD@HOST:6379",
        }
    }

    const fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Postgres => &["postgres", "postgresql"],
            Self::Mysql => &["mysql", "mariadb"],
            Self::Redis => &["redis", "rediss", "redis+cluster", "rediss+cluster"],
        }
    }

    const fn is_built_in(self) -> bool {
        match self {
            Self::Postgres => cfg!(feature = "postgres"),
            Self::Mysql => cfg!(feature = "mysql"),
            Self::Redis => cfg!(feature = "redis"),
        }
    }
}

impl Accepted {
    /// What may be accepted, as it is written.
    const NAMES: [&'static str; 2] = ["durability", "eviction"];

    /// Everything: for whoever only looks.
    pub(crate) const ALL: Self = Self {
        durability: true,
        eviction: true,
    };

    /// What is accepted, as it is written.
    pub(crate) fn names(self) -> Vec<&'static str> {
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

    /// The same, and more.
    pub(crate) const fn and(self, other: Self) -> Self {
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

impl FromStr for StoreUrl {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
        let path = rest.strip_prefix("//").unwrap_or(rest);
        match scheme {
            "memory" if path.is_empty() => Ok(Self::Memory),
            "embedded" | "sqlite" if path.is_empty() => {
                Err(format!("`{scheme}:` needs a path, as in `{scheme}:./semel-data`").into())
            }
            "embedded" => Ok(Self::Embedded(path.into())),
            "sqlite" => Ok(Self::Sqlite(path.into())),
            "dynamodb" | "cassandra" => {
                let message = format!("`{scheme}` stores are not supported by this release");
                Err(Refusal::unsupported(message))
            }
            _ => {
                let mut kinds = ServerKind::ALL.into_iter();
                match kinds.find(|kind| kind.schemes().contains(&scheme)) {
                    Some(kind) => server(kind, text).map(Self::Server),
                    None => Err(unknown(scheme)),
                }
            }
        }
    }
}

fn server(kind: ServerKind, text: &str) -> Result<ServerUrl, Refusal> {
    let name = kind.name();
    if !kind.is_built_in() {
        let message = format!(
            "`{name}` stores are not part of this build; build semel with `--features {name}`, or \
             with `--features full` for every kind"
        );
        return Err(Refusal::unsupported(message));
    }
    let place = text.split_once("://").map(|(_, place)| place);
    if place.is_none_or(|place| place.is_empty() || place.starts_with(['/', '?', '#'])) {
        let example = kind.example();
        return Err(format!("a `{name}` store needs a host, as in `{example}`").into());
    }
    let url = ServerUrl {
        kind,
        secret: text.into(),
    };
    assemble::check_url(&url).map_err(|error| error.to_string())?;
    Ok(url)
}

fn unknown(scheme: &str) -> Refusal {
    let mut known = vec!["memory", "embedded", "sqlite"];
    let servers = ServerKind::ALL.into_iter();
    known.extend(
        servers
            .filter(|kind| kind.is_built_in())
            .map(ServerKind::name),
    );
    let hint = suggestion(scheme, &known);
    format!("a store url begins with its kind, as in `embedded:./data`; {hint}").into()
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Embedded(path) => write!(f, "embedded:{}", path.display()),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Server(url) => url.fmt(f),
        }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.secret))
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Reads `[store]`: nothing where the url is none.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<(StoreUrl, Accepted)> {
    let mut table = fields.optional_sub("store")?;
    let url = table.parsed_with("url", str::parse::<StoreUrl>);
    let url = url.zip(table.node("url")).map(|(url, node)| {
        let whole = url.clone().written_in(node.origin.folder());
        if whole != url {
            table.show_as("url", node, &whole.whole());
        }
        whole
    });
    let url_file = table.secret_file("url_file", "url", str::parse::<StoreUrl>);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_url_is_never_printed_whole() {
        let text = "postgres://me:geheim@db/shop?password=geheim";
        let Ok(url) = text.parse::<StoreUrl>() else {
            return assert!(!ServerKind::Postgres.is_built_in());
        };
        for printed in [url.to_string(), format!("{url:?}"), format!("{url:#?}")] {
            assert!(!printed.contains("geheim"), "{printed}");
            assert!(printed.contains("me:***@db/shop?password=***"), "{printed}");
        }
        let StoreUrl::Server(server) = url else {
            panic!("a server")
        };
        assert_eq!(server.secret(), text);
    }

    #[test]
    fn what_is_no_store_is_told_without_repeating_it() {
        for (text, why) in [
            ("postgres:", "needs a host"),
            ("redis:///0", "needs a host"),
            ("mysql://?geheim", "needs a host"),
            ("postgre://me:geheim@db", "did you mean `postgres`?"),
            ("me:geheim@db", "a store url begins with its kind"),
            ("geheim", "a store url begins with its kind"),
            ("cassandra://geheim", "not supported by this release"),
            ("sqlite:", "needs a path"),
        ] {
            let refused = text.parse::<StoreUrl>().expect_err(text);
            let is_told = refused.message.contains(why)
                || refused.message.contains("are not part of this build");
            assert!(is_told, "{text}: {refused}");
            assert!(!refused.message.contains("geheim"), "{refused}");
        }
    }
}
