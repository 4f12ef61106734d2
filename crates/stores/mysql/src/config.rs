//! Typed settings of the store, and the parts of its url.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::OptsBuilder;
use semel_core::percent::decoded;
use semel_core::{Clock, Error, ErrorKind, Result};

/// Settings of a store on its server.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The clock that decides in place of the server's. For tests only: records of two clocks do
    /// not mix.
    pub clock: Option<Arc<dyn Clock>>,
    /// Creates tables if there are none. The database must be there.
    pub create: bool,
    /// The most connections that the store holds, unless the url says otherwise.
    pub connections: usize,
    /// The longest wait for a connection.
    pub patience: Duration,
    /// The longest wait for an answer; a call that got none is given up, maybe applied. Lists, counts and exports may
    /// take ten times as long.
    pub answer: Duration,
    /// The longest wait of a statement for others at the same rows before it is tried again, in whole seconds; it is
    /// tried a few times.
    pub lock_wait: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            create: true,
            connections: 4,
            patience: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            lock_wait: Duration::from_secs(2),
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
            .field("answer", &self.answer)
            .field("lock_wait", &self.lock_wait)
            .finish()
    }
}

/// Contents of the url. Not printed: it holds the password.
pub(crate) struct Address {
    pub(crate) server: OptsBuilder,
    /// Host and port, or the socket, to show to people.
    pub(crate) shown: Box<str>,
    pub(crate) encryption: Encryption,
    /// Set if a network lies between.
    pub(crate) is_far: bool,
    /// Certificates to trust in place of the usual ones.
    pub(crate) root_cert: Option<PathBuf>,
    pub(crate) prefix: Box<str>,
    pub(crate) connections: Option<usize>,
}

/// Encryption of connections, as MySQL's own clients call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    /// Never.
    Disabled,
    /// If the server offers it, whichever server it is.
    Preferred,
    /// Always, whichever server it is.
    Required,
    /// Always, and its certificate is checked.
    VerifyCa,
    /// Always, and its certificate is checked to be that of the host.
    VerifyIdentity,
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
pub(crate) fn address(url: &str) -> Result<Address> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let rest = base
        .strip_prefix("mysql://")
        .or_else(|| base.strip_prefix("mariadb://"))
        .ok_or_else(unreadable)?;
    let (authority, database) = rest.rsplit_once('/').ok_or_else(unreadable)?;
    let database = decoded(database).filter(|name| !name.is_empty());
    let database = database.ok_or_else(|| invalid("the store's url names no database"))?;
    let (user, address) = authority.rsplit_once('@').ok_or_else(unreadable)?;
    let (user, password) = match user.split_once(':') {
        Some((user, password)) => (user, Some(decoded(password).ok_or_else(unreadable)?)),
        None => (user, None),
    };
    let user = decoded(user).filter(|user| !user.is_empty());
    let user = user.ok_or_else(|| invalid("the store's url names no user"))?;
    let (host, port) = host_and_port(address)?;
    let parameters = Parameters::read(query)?;
    let is_near = parameters.socket.is_some() || LOOPBACK.contains(&&*host);
    let shown = match &parameters.socket {
        Some(socket) => socket.as_str().into(),
        None if host.contains(':') => format!("[{host}]:{port}").into(),
        None => format!("{host}:{port}").into(),
    };
    let server = OptsBuilder::default()
        .ip_or_hostname(host)
        .tcp_port(port)
        .user(Some(user))
        .pass(password)
        .db_name(Some(database))
        .socket(parameters.socket)
        .prefer_socket(false)
        .tcp_keepalive(Some(KEEPALIVE))
        .stmt_cache_size(0);
    Ok(Address {
        server,
        shown,
        encryption: parameters.encryption.unwrap_or(if is_near {
            Encryption::Disabled
        } else {
            Encryption::Preferred
        }),
        is_far: !is_near,
        root_cert: parameters.root_cert,
        prefix: parameters.prefix,
        connections: parameters.connections,
    })
}

/// Contents of the url behind the question mark.
struct Parameters {
    prefix: Box<str>,
    connections: Option<usize>,
    encryption: Option<Encryption>,
    root_cert: Option<PathBuf>,
    socket: Option<String>,
}

impl Parameters {
    fn read(query: &str) -> Result<Self> {
        let mut read = Self {
            prefix: "semel_".into(),
            connections: None,
            encryption: None,
            root_cert: None,
            socket: None,
        };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = decoded(value).ok_or_else(unreadable)?;
            match name {
                "prefix" => read.prefix = prefix(&value)?,
                "connections" => {
                    let number = value
                        .parse()
                        .ok()
                        .filter(|number| (1..=1_000).contains(number));
                    read.connections = Some(number.ok_or_else(|| {
                        invalid("`connections` in the store's url is a number from 1 to 1000")
                    })?);
                }
                "ssl-mode" => read.encryption = Some(encryption(&value)?),
                "ssl-ca" => read.root_cert = Some(PathBuf::from(value)),
                "socket" => read.socket = Some(value),
                _ => {
                    let name: String = name
                        .chars()
                        .take(40)
                        .filter(char::is_ascii_graphic)
                        .collect();
                    return Err(invalid(&format!(
                        "the store's url has a parameter `{name}` that is not known; there are prefix, \
                         connections, ssl-mode, ssl-ca and socket"
                    )));
                }
            }
        }
        Ok(read)
    }
}

fn encryption(text: &str) -> Result<Encryption> {
    Ok(match &*text.to_ascii_lowercase().replace('-', "_") {
        "disabled" => Encryption::Disabled,
        "preferred" => Encryption::Preferred,
        "required" => Encryption::Required,
        "verify_ca" => Encryption::VerifyCa,
        "verify_identity" => Encryption::VerifyIdentity,
        _ => {
            return Err(invalid(
                "`ssl-mode` in the store's url is disabled, preferred, required, verify_ca or \
                 verify_identity",
            ));
        }
    })
}

/// Checks the prefix of a store's tables, which is put into statements as it is.
pub(crate) fn prefix(text: &str) -> Result<Box<str>> {
    let is_part =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    let begins = text.starts_with(|letter: char| letter.is_ascii_lowercase());
    if begins && text.len() <= 40 && text.chars().all(is_part) {
        return Ok(text.into());
    }
    Err(invalid(
        "the `prefix` of a store is up to 40 small letters, digits and underscores, a letter first",
    ))
}

fn host_and_port(address: &str) -> Result<(String, u16)> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(unreadable)?;
            (host, port.strip_prefix(':'))
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let host = decoded(host).filter(|host| !host.is_empty());
    let port = port.map_or(Ok(DEFAULT_PORT), str::parse);
    Ok((
        host.ok_or_else(unreadable)?,
        port.map_err(|_| unreadable())?,
    ))
}

fn unreadable() -> Error {
    invalid(
        "the store's url cannot be read; it is mysql://USER:PASSWORD@HOST:PORT/DATABASE, with % escapes \
         for special characters",
    )
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

const DEFAULT_PORT: u16 = 3306;
const KEEPALIVE: Duration = Duration::from_secs(15);
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

#[cfg(test)]
mod tests {
    use mysql_async::Opts;

    use super::*;

    #[test]
    fn a_url_is_read_whole() {
        let url = "mysql://ada:ge%40heim@db.example:3307/shop?prefix=dedup_&connections=9&ssl-mode=VERIFY_IDENTITY";
        let address = address(url).expect("an address");
        assert_eq!((&*address.prefix, address.connections), ("dedup_", Some(9)));
        assert_eq!(address.encryption, Encryption::VerifyIdentity);
        let opts = Opts::from(address.server);
        assert_eq!((opts.user(), opts.pass()), (Some("ada"), Some("ge@heim")));
        assert_eq!(
            (opts.ip_or_hostname(), opts.tcp_port()),
            ("db.example", 3307)
        );
        assert_eq!(opts.db_name(), Some("shop"));
    }

    #[test]
    fn encryption_is_preferred_wherever_a_network_lies_between() {
        for (host, expected) in [
            ("127.0.0.1:3306", Encryption::Disabled),
            ("[::1]", Encryption::Disabled),
            ("10.0.0.7", Encryption::Preferred),
        ] {
            let address = address(&format!("mysql://root@{host}/semel")).expect("an address");
            assert_eq!(address.encryption, expected, "{host}");
        }
    }

    #[test]
    fn a_faulty_url_is_refused_without_its_password() {
        for (url, part) in [
            ("mysql://ada:geheim@db/shop?prefix=A-b", "prefix"),
            ("mysql://ada:geheim@db/shop?prefix=", "prefix"),
            ("mysql://ada:geheim@db/shop?connections=0", "connections"),
            ("mysql://ada:geheim@db/shop?ssl-mode=geheim", "ssl-mode"),
            ("mysql://ada:geheim@db/shop?wrong=geheim", "not known"),
            ("mysql://ada:geheim@db:port/shop", "cannot be read"),
            ("mysql://ada:geheim%zz@db/shop", "cannot be read"),
            ("mysql://ada:geheim@db", "cannot be read"),
            ("mysql://ada:geheim@db/", "no database"),
            ("mysql://:geheim@db/shop", "no user"),
            ("postgres://ada:geheim@db/shop", "cannot be read"),
        ] {
            let Err(error) = address(url) else {
                panic!("{url} was taken");
            };
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
        }
    }
}
