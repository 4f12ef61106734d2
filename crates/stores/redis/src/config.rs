//! Typed settings of the store, and the parts of its url.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Clock, Error, ErrorKind, Result, percent};

/// Settings of a store on its server.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The clock that decides in place of the server's. For tests only: records of two clocks do
    /// not mix, and nothing expires by itself.
    pub clock: Option<Arc<dyn Clock>>,
    /// Creates a store if there is none.
    pub create: bool,
    /// The most connections that the store holds to each server, unless the url says otherwise. Calls share them.
    pub connections: usize,
    /// The longest wait for a connection, and for a cluster that is busy with itself.
    pub patience: Duration,
    /// The longest wait for an answer. After that, the caller does not know whether the call was applied, and the next
    /// call has another connection. It is shorter than the wait of the engine, which then repeats the call.
    pub answer_timeout: Duration,
    /// Uses even a server that evicts keys when its memory is full: it forgets records inside their window, and takes a
    /// duplicate of them for new.
    pub allow_eviction: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            create: true,
            connections: 2,
            patience: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(25),
            allow_eviction: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("clock", &self.clock.as_ref().map(|_| "given"))
            .field("create", &self.create)
            .field("connections", &self.connections)
            .field("patience", &self.patience)
            .field("answer_timeout", &self.answer_timeout)
            .field("allow_eviction", &self.allow_eviction)
            .finish()
    }
}

/// Contents of the url.
#[derive(Clone)]
pub(crate) struct StoreAddress {
    /// Addresses to begin with; more than one only of a cluster.
    pub(crate) addresses: Vec<Address>,
    pub(crate) is_cluster: bool,
    pub(crate) is_encrypted: bool,
    pub(crate) user: Option<Box<str>>,
    pub(crate) password: Option<Box<str>>,
    pub(crate) database: i64,
    pub(crate) prefix: Box<str>,
    pub(crate) connections: Option<usize>,
    /// Certificates to trust in place of the system's.
    pub(crate) ca: Option<PathBuf>,
}

/// A server's host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Refuses a url that cannot be read; connects to nothing.
///
/// # Errors
///
/// `invalid-config`, without anything of the url that may be secret
pub fn check_url(url: &str) -> Result<()> {
    address(url).map(drop)
}

/// Reads a url; an error names the fault without repeating any part of the url that may be secret.
pub(crate) fn address(url: &str) -> Result<StoreAddress> {
    let (scheme, rest) = url.split_once("://").ok_or_else(unreadable)?;
    let (is_encrypted, is_cluster) = match scheme {
        "redis" => (false, false),
        "rediss" => (true, false),
        "redis+cluster" => (false, true),
        "rediss+cluster" => (true, true),
        _ => return Err(unreadable()),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(login), hosts),
        None => (None, authority),
    };
    let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
        None => (None, None),
        Some((user, password)) => (decoded(user)?, decoded(password)?),
    };
    let addresses = hosts
        .split(',')
        .map(host_and_port)
        .collect::<Result<Vec<_>>>()?;
    let database = match database {
        "" => 0,
        number => number
            .parse()
            .ok()
            .filter(|number| (0..=i64::from(u16::MAX)).contains(number))
            .ok_or_else(|| invalid("the path of the store's url is the number of a database"))?,
    };
    let mut address = StoreAddress {
        addresses,
        is_cluster,
        is_encrypted,
        user,
        password,
        database,
        prefix: "semel".into(),
        connections: None,
        ca: None,
    };
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        address.take_parameter(name, value)?;
    }
    if address.addresses.len() > 1 && !address.is_cluster {
        return Err(invalid(
            "the store's url names several hosts; those of a cluster begin with redis+cluster://",
        ));
    }
    if address.is_cluster && address.database != 0 {
        return Err(invalid("a cluster has database 0 and no other"));
    }
    Ok(address)
}

impl StoreAddress {
    fn take_parameter(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "prefix" => self.prefix = prefix(value)?,
            "connections" => {
                let number = value
                    .parse()
                    .ok()
                    .filter(|number| (1..=1_000).contains(number));
                self.connections = Some(number.ok_or_else(|| {
                    invalid("`connections` in the store's url is a number from 1 to 1000")
                })?);
            }
            "cluster" => {
                let is_cluster: bool = value
                    .parse()
                    .map_err(|_| invalid("`cluster` in the store's url is true or false"))?;
                self.is_cluster |= is_cluster;
            }
            "ca" => {
                let path =
                    decoded(value)?.ok_or_else(|| invalid("`ca` in the store's url is a file"))?;
                self.ca = Some(PathBuf::from(&*path));
            }
            _ => {
                let name: String = name
                    .chars()
                    .take(40)
                    .filter(char::is_ascii_graphic)
                    .collect();
                return Err(invalid(&format!(
                    "the store's url has a parameter `{name}` that is not known; there are prefix, \
                     connections, cluster and ca"
                )));
            }
        }
        Ok(())
    }
}

fn host_and_port(text: &str) -> Result<Address> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(unreadable)?;
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or_else(unreadable)?),
            };
            (host, port)
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => port.parse().map_err(|_| unreadable())?,
    };
    let host = decoded(host)?.ok_or_else(unreadable)?;
    Ok(Address { host, port })
}

fn prefix(text: &str) -> Result<Box<str>> {
    let text = decoded(text)?.unwrap_or_default();
    let is_fit =
        |letter: char| letter.is_ascii_graphic() && !matches!(letter, '{' | '}' | '*' | '?');
    if !text.is_empty() && text.len() <= 64 && text.chars().all(is_fit) {
        return Ok(text);
    }
    Err(invalid(
        "`prefix` in the store's url is 1 to 64 letters, digits and signs, without braces, * and ?",
    ))
}

/// Returns the text with its `%41` resolved; `None` if it is empty.
fn decoded(text: &str) -> Result<Option<Box<str>>> {
    let text = percent::decoded(text).ok_or_else(unreadable)?;
    Ok((!text.is_empty()).then(|| text.into()))
}

fn unreadable() -> Error {
    invalid(
        "the store's url cannot be read; it is redis://USER:PASSWORD@HOST:PORT/DATABASE, rediss:// for TLS, \
         redis+cluster://HOST:PORT,HOST:PORT for a cluster, with % codes for special signs",
    )
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

const DEFAULT_PORT: u16 = 6379;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_the_store_is() {
        let url = "rediss://ada:ge%40heim@db.example:7000/3?prefix=shop:dedup&connections=9&ca=/etc/ca.pem";
        let address = address(url).expect("an address");
        assert_eq!(address.addresses[0].to_string(), "db.example:7000");
        assert_eq!(
            (address.is_encrypted, address.is_cluster, address.database),
            (true, false, 3)
        );
        assert_eq!(
            (address.user.as_deref(), address.password.as_deref()),
            (Some("ada"), Some("ge@heim"))
        );
        assert_eq!(
            (&*address.prefix, address.connections),
            ("shop:dedup", Some(9))
        );
    }

    #[test]
    fn a_cluster_is_named_by_some_of_its_nodes() {
        for url in [
            "redis+cluster://:geheim@a:7001,[::1]:7002,c",
            "redis://:geheim@a:7001,[::1]:7002,c?cluster=true",
        ] {
            let address = address(url).expect("an address");
            let addresses: Vec<_> = address.addresses.iter().map(Address::to_string).collect();
            assert_eq!(addresses, ["a:7001", "[::1]:7002", "c:6379"]);
            assert!(address.is_cluster && address.user.is_none());
        }
    }

    #[test]
    fn a_faulty_url_is_refused_without_its_password() {
        for (url, part) in [
            ("redis://ada:geheim@db?prefix=a{b}", "prefix"),
            ("redis://ada:geheim@db?prefix=", "prefix"),
            ("redis://ada:geheim@db?connections=0", "connections"),
            ("redis://ada:geheim@db?cluster=geheim", "cluster"),
            ("redis://ada:geheim@db?wrong=geheim", "not known"),
            ("redis://ada:geheim@db:port", "cannot be read"),
            ("redis://ada:geheim@", "cannot be read"),
            ("redis://ada:geheim%4@db", "cannot be read"),
            ("redis://ada:geheim@db/geheim", "database"),
            ("redis+cluster://ada:geheim@db/1", "database 0"),
            ("redis://ada:geheim@a,b", "several hosts"),
            ("http://ada:geheim@db", "cannot be read"),
            ("geheim", "cannot be read"),
        ] {
            let Err(error) = address(url) else {
                panic!("{url} was taken");
            };
            assert!(error.to_string().contains(part), "{error}");
            assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
        }
    }
}
