//! Typed settings of the store, and the parts of its url.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::tokio_postgres::Config;
use deadpool_postgres::tokio_postgres::config::Host;
use semel_core::{Clock, Error, ErrorKind, Result};

/// Settings of a store on its server.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The clock that decides in place of the server's. For tests only: records of two clocks do not mix.
    pub clock: Option<Arc<dyn Clock>>,
    /// Number of claimed keys in a row that count as new at the start. For tests only: a store that has seen enough of
    /// them claims as if all keys were new, and finds out if one is not.
    pub new_keys: u64,
    /// Creates schema and tables if there are none.
    pub create: bool,
    /// The most connections that the store holds, unless the url says otherwise.
    pub connections: usize,
    /// The longest wait for a connection.
    pub patience: Duration,
    /// The longest run of a statement, and its longest wait for others at the same rows.
    pub statement_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            new_keys: 0,
            create: true,
            connections: 4,
            patience: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("clock", &self.clock.as_ref().map(|_| "given"))
            .field("new_keys", &self.new_keys)
            .field("create", &self.create)
            .field("connections", &self.connections)
            .field("patience", &self.patience)
            .field("statement_timeout", &self.statement_timeout)
            .finish()
    }
}

/// Contents of the url.
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) schema: Box<str>,
    pub(crate) connections: Option<usize>,
    /// Certificates to trust in place of the system's.
    pub(crate) root_cert: Option<PathBuf>,
}

impl Address {
    /// Returns hosts and ports, to show to people.
    pub(crate) fn hosts_and_ports(&self) -> Box<str> {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate();
        let each = hosts.map(|(index, host)| {
            let port = ports.get(index).or_else(|| ports.first()).unwrap_or(&5_432);
            match host {
                Host::Tcp(host) if host.contains(':') => format!("[{host}]:{port}"),
                Host::Tcp(host) => format!("{host}:{port}"),
                #[cfg(unix)]
                Host::Unix(folder) => format!("{}:{port}", folder.display()),
            }
        });
        each.collect::<Vec<_>>().join(", ").into()
    }
}

/// Refuses a url that cannot be read; connects to nothing.
///
/// # Errors
/// `invalid-config`, without anything of the url that may be secret.
pub fn check_url(url: &str) -> Result<()> {
    address(url).map(drop)
}

/// Reads a url; an error names the fault without repeating any part of the url that may be secret.
pub(crate) fn address(url: &str) -> Result<Address> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut schema: Box<str> = "semel".into();
    let (mut connections, mut root_cert) = (None, None);
    let mut theirs = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name {
            "schema" => schema = schema_name(value)?,
            "connections" => {
                let number = value
                    .parse()
                    .ok()
                    .filter(|number| (1..=1_000).contains(number));
                connections = Some(number.ok_or_else(|| {
                    invalid("`connections` in the store's url is a number from 1 to 1000")
                })?);
            }
            "sslrootcert" => root_cert = Some(PathBuf::from(value)),
            "sslmode" => match value {
                "disable" | "prefer" => theirs.push(part.to_owned()),
                // Every certificate is checked against its host, whichever of these it is.
                "require" | "verify-ca" | "verify-full" => {
                    theirs.push("sslmode=require".to_owned());
                }
                _ => {
                    return Err(invalid(
                        "`sslmode` in the store's url is disable, prefer, require or verify-full",
                    ));
                }
            },
            "application_name"
            | "connect_timeout"
            | "target_session_attrs"
            | "channel_binding"
            | "keepalives"
            | "keepalives_idle"
            | "keepalives_interval"
            | "keepalives_retries"
            | "tcp_user_timeout"
            | "options"
            | "host"
            | "hostaddr"
            | "port"
            | "user"
            | "password"
            | "dbname"
            | "load_balance_hosts" => theirs.push(part.to_owned()),
            // A password with a `?` of its own: this is the rest of it.
            _ if query.contains('@') && !base.contains('@') => {
                return Err(invalid(
                    "the store's url has a `?` before its `@`; write %3F for one in a password",
                ));
            }
            _ => {
                let name: String = name
                    .chars()
                    .take(40)
                    .filter(char::is_ascii_graphic)
                    .collect();
                return Err(invalid(&format!(
                    "the store's url has a parameter `{name}` that is not known; ours are schema, \
                     connections, sslmode and sslrootcert"
                )));
            }
        }
    }
    let text = if theirs.is_empty() {
        base.to_owned()
    } else {
        format!("{base}?{}", theirs.join("&"))
    };
    // The parser's own words may hold a part of the url, so they are not passed on.
    let mut config: Config = text.parse().map_err(|_| {
        invalid("the store's url cannot be read; it is postgres://USER:PASSWORD@HOST:PORT/DATABASE")
    })?;
    if config.get_application_name().is_none() {
        config.application_name("semel");
    }
    // A server that is gone without a word is noticed within a minute, where the system's own defaults take hours and
    // hold the connection meanwhile.
    let says = |name: &str| theirs.iter().any(|part| part.starts_with(name));
    if !says("keepalives") {
        config
            .keepalives_idle(Duration::from_secs(30))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(4);
    }
    if !says("tcp_user_timeout") {
        config.tcp_user_timeout(Duration::from_secs(50));
    }
    Ok(Address {
        config,
        schema,
        connections,
        root_cert,
    })
}

fn schema_name(text: &str) -> Result<Box<str>> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let begins = text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    if begins && text.len() <= 63 && text.chars().all(is_name) {
        return Ok(text.into());
    }
    Err(invalid(
        "`schema` in the store's url is up to 63 letters, digits and underscores",
    ))
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
mod tests {
    use deadpool_postgres::tokio_postgres::config::SslMode;

    use super::*;

    #[test]
    fn our_parameters_are_taken_out_of_the_url() {
        let url = "postgres://ada:geheim@db.example:5433/shop?schema=dedup&connections=9&sslmode=verify-full";
        let address = address(url).expect("an address");
        assert_eq!((&*address.schema, address.connections), ("dedup", Some(9)));
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(address.config.get_dbname(), Some("shop"));
        assert_eq!(address.config.get_ports(), [5433]);
        let keepalives = address.config.get_keepalives_idle();
        assert_eq!(
            keepalives,
            Duration::from_secs(30),
            "not the hours of a driver"
        );
    }

    #[test]
    fn a_faulty_url_is_refused_without_its_password() {
        for (url, part) in [
            ("postgres://ada:geheim@db/shop?schema=a-b", "schema"),
            ("postgres://ada:geheim@db/shop?connections=0", "connections"),
            ("postgres://ada:geheim@db/shop?sslmode=geheim", "sslmode"),
            ("postgres://ada:geheim@db/shop?wrong=geheim", "not known"),
            ("postgres://ada:geheim@db:port/shop", "cannot be read"),
            ("postgres://ada:x?geheim@db/shop", "%3F"),
            ("postgres://ada:x?geheim=1@db/shop", "%3F"),
            ("postgres://ada:x?a=1&geheim@db/shop", "%3F"),
        ] {
            let Err(error) = address(url) else {
                panic!("{url} was taken");
            };
            assert!(error.to_string().contains(part), "{error}");
            assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
        }
    }
}
