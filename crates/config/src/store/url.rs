//! The url of a store, and the kinds of store that a program can open.

use std::fmt;
use std::path::{Path, PathBuf};

use semel_core::sql::Dialect;

use crate::paths;
use crate::refusal::Refusal;
use crate::same_file::plain;
use crate::secret::masked;
use crate::server::server_of;
use crate::suggestion::suggestion;

/// The url of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// A store in memory; nothing survives the process.
    Memory,
    /// A folder of this machine.
    Embedded(PathBuf),
    /// A database file of this machine.
    Sqlite(PathBuf),
    /// A store on a server.
    Server(ServerUrl),
}

/// The url of a store on a server. It is always printed without its secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    kind: ServerKind,
    secret: Box<str>,
}

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// PostgreSQL.
    Postgres,
    /// MySQL or MariaDB.
    Mysql,
    /// Redis, one server or a cluster.
    Redis,
}

/// The servers whose stores a program can open.
#[derive(Clone, Copy, Debug)]
pub struct Servers {
    /// Tells whether a kind of server is built in.
    pub is_built_in: fn(ServerKind) -> bool,
    /// Refuses a url that its driver cannot read, without repeating it; connects to nothing.
    pub check: fn(&ServerUrl) -> semel_core::Result<()>,
}

impl StoreUrl {
    /// Returns its folder or file; nothing for a store in memory or on a server.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Memory | Self::Server(_) => None,
            Self::Embedded(path) | Self::Sqlite(path) => Some(path),
        }
    }

    /// Returns the same url with its whole path.
    #[must_use]
    pub fn absolute(&self) -> Self {
        match self {
            Self::Memory | Self::Server(_) => self.clone(),
            Self::Embedded(path) => Self::Embedded(plain(path)),
            Self::Sqlite(path) => Self::Sqlite(plain(path)),
        }
    }

    /// Returns the same url, as it was written in a file of `folder`.
    pub(crate) fn written_in(self, folder: Option<&Path>) -> Self {
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

    /// Returns the url as it is written, with its secrets.
    pub(super) fn whole(&self) -> String {
        match self {
            Self::Server(url) => url.secret.to_string(),
            Self::Memory | Self::Embedded(_) | Self::Sqlite(_) => self.to_string(),
        }
    }

    /// Tells whether effects can join the transactions of the store.
    pub const fn is_transactional(&self) -> bool {
        self.dialect().is_some()
    }

    /// The SQL dialect of the statements that join its transactions.
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

    /// Returns the name that OpenTelemetry has for the database that effects can join, and its server if it has one
    /// and that is certain.
    pub fn database(&self) -> Option<(&'static str, Option<(String, u16)>)> {
        let (system, default_port) = match self.dialect()? {
            Dialect::Sqlite => return Some(("sqlite", None)),
            Dialect::Postgres => ("postgresql", 5_432),
            Dialect::Mysql => ("mysql", 3_306),
        };
        let server = match self {
            Self::Server(url) => server_of(&url.secret, default_port),
            Self::Memory | Self::Embedded(_) | Self::Sqlite(_) => None,
        };
        Some((system, server))
    }

    /// Tells whether the store writes a mark, a number of its user's, together with records, which an output
    /// file needs.
    pub const fn keeps_marks(&self) -> bool {
        match self {
            Self::Memory | Self::Embedded(_) | Self::Sqlite(_) => true,
            Self::Server(url) => match url.kind {
                ServerKind::Postgres | ServerKind::Mysql => true,
                ServerKind::Redis => false,
            },
        }
    }

    /// Tells whether several processes can have the store open at once.
    pub(crate) const fn is_shared(&self) -> bool {
        match self {
            Self::Sqlite(_) | Self::Server(_) => true,
            Self::Memory | Self::Embedded(_) => false,
        }
    }

    /// Tells whether the store is on a server.
    pub const fn is_server(&self) -> bool {
        matches!(self, Self::Server(_))
    }
}

impl ServerUrl {
    /// Returns the kind of server.
    pub const fn kind(&self) -> ServerKind {
        self.kind
    }

    /// Tells whether the server is a cluster, whose servers decide key by key.
    pub(crate) fn is_cluster(&self) -> bool {
        let (scheme, query) = (self.secret.split(':').next(), self.secret.split_once('?'));
        let mut parameters = query.map_or("", |(_, query)| query).split('&');
        scheme.is_some_and(|scheme| scheme.ends_with("+cluster"))
            || parameters.any(|parameter| parameter == "cluster=true")
    }

    /// Returns the whole url with its password, for the driver alone.
    pub const fn secret(&self) -> &str {
        &self.secret
    }
}

impl ServerKind {
    /// Every kind.
    pub(crate) const ALL: [Self; 3] = [Self::Postgres, Self::Mysql, Self::Redis];

    /// Returns its name, which is also that of the feature.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Redis => "redis",
        }
    }

    /// Returns an example of a url.
    const fn example(self) -> &'static str {
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
}

impl StoreUrl {
    /// Reads the url of a store on one of these servers, or on this machine.
    ///
    /// # Errors
    ///
    /// A line that explains the fault and repeats no secret; with code `unsupported` for a kind that is not
    /// built in
    pub fn parse(text: &str, servers: Servers) -> Result<Self, Refusal> {
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
                    Some(kind) => server(kind, text, servers).map(Self::Server),
                    None => Err(unknown(scheme, servers)),
                }
            }
        }
    }
}

fn server(kind: ServerKind, text: &str, servers: Servers) -> Result<ServerUrl, Refusal> {
    let name = kind.name();
    if !(servers.is_built_in)(kind) {
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
    (servers.check)(&url).map_err(|error| error.to_string())?;
    Ok(url)
}

fn unknown(scheme: &str, servers: Servers) -> Refusal {
    let mut known = vec!["memory", "embedded", "sqlite"];
    let kinds = ServerKind::ALL.into_iter();
    let built_in = kinds.filter(|kind| (servers.is_built_in)(*kind));
    known.extend(built_in.map(ServerKind::name));
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

#[cfg(test)]
mod tests {
    use semel_core::{Code, Error, ErrorKind};

    use super::*;

    const ALL: Servers = Servers {
        is_built_in: |_| true,
        check: |_| Ok(()),
    };

    #[test]
    fn a_server_url_is_never_printed_whole() {
        let text = "postgres://me:geheim@db/shop?password=geheim";
        let url = StoreUrl::parse(text, ALL).expect("a sound url");
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
    fn a_database_has_its_name_in_traces_and_its_server() {
        let server = |host: &str, port| Some((host.to_owned(), port));
        for (text, database) in [
            ("memory:", None),
            ("embedded:./data", None),
            ("redis://db/0", None),
            ("sqlite:s.db", Some(("sqlite", None))),
            (
                "postgresql://me:geheim@db/shop",
                Some(("postgresql", server("db", 5_432))),
            ),
            (
                "mariadb://me:geheim@db:3307/shop",
                Some(("mysql", server("db", 3_307))),
            ),
            ("postgres://a,b/shop", Some(("postgresql", None))),
        ] {
            let url = StoreUrl::parse(text, ALL).expect("a sound url");
            assert_eq!(url.database(), database, "{text}");
        }
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
            let refused = StoreUrl::parse(text, ALL).expect_err(text);
            assert!(refused.message.contains(why), "{text}: {refused}");
            assert!(!refused.message.contains("geheim"), "{refused}");
        }
    }

    #[test]
    fn what_a_program_has_not_built_in_or_its_driver_cannot_read_is_refused() {
        let one = Servers {
            is_built_in: |kind| kind == ServerKind::Redis,
            check: |_| Err(Error::new(ErrorKind::InvalidConfig, "no such parameter")),
        };
        let refused = StoreUrl::parse("postgres://db/shop", one).expect_err("not built in");
        assert_eq!(refused.code, Code::Unsupported);
        assert!(
            refused.message.contains("`--features postgres`"),
            "{refused}"
        );
        let refused = StoreUrl::parse("redis://db/0?x=1", one).expect_err("its driver refuses it");
        assert_eq!(refused, "no such parameter".to_owned().into());
        let refused = StoreUrl::parse("db", one).expect_err("no kind");
        let known = "known are memory, embedded, sqlite, redis";
        assert!(refused.message.contains(known), "{refused}");
    }
}
