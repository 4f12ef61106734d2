//! The broker's address and login, as the url gives them; shown without the password.

use std::fmt;
use std::time::Duration;

use lapin::uri::{AMQPScheme, AMQPUri};
use semel_core::{Code, Error, ErrorKind, Result};
use semel_tls::Tls;

/// A broker, a virtual host of it, and a login.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) uri: AMQPUri,
    pub(crate) tls: Tls,
    /// The code of its errors: a source's or a sink's.
    pub(crate) code: Code,
}

/// Heartbeat in seconds, unless the url says otherwise: a dead peer is noticed after twice as long.
const HEARTBEAT_SECS: u16 = 10;
/// Time to connect, unless the url says otherwise.
const CONNECT_MILLIS: u64 = 10_000;
/// Time for everything until a channel can be used. The driver itself waits forever where a handshake is cut half way.
pub(crate) const OPEN: Duration = Duration::from_secs(10);
/// Length of the protocol's longest short string; names are such strings.
pub(crate) const SHORT_BYTES: usize = 255;

impl Address {
    /// Reads the url and its settings; connects to nothing.
    pub(crate) fn of(url: &str, tls: &Tls, code: Code) -> Result<Self> {
        tls.check().map_err(|error| error.with_code(code))?;
        let mut address = Self::read(url, code)?;
        if !tls.is_usual() && address.uri.scheme == AMQPScheme::AMQP {
            let message = "`tls` is set, and the broker's url is amqp://, which is not encrypted: write amqps://";
            return Err(Error::new(ErrorKind::InvalidConfig, message).with_code(code));
        }
        address.tls = tls.clone();
        Ok(address)
    }

    /// Reads the url.
    fn read(url: &str, code: Code) -> Result<Self> {
        let refused = |words: &str| Error::new(ErrorKind::InvalidConfig, words).with_code(code);
        // The parser's words are not repeated: they could hold the password.
        let mut uri: AMQPUri = url.parse().map_err(|_| {
            refused("the broker's url is not amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps://…, with special characters percent-encoded")
        })?;
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        if host.starts_with('[') {
            // The driver would silently take the local host in its place.
            return Err(refused(
                "the broker's url has an IPv6 address, which the driver cannot use: write a host name",
            ));
        }
        if host.is_empty() || host.starts_with(':') {
            return Err(refused("the broker's url names no host"));
        }
        if uri.vhost.is_empty() {
            uri.vhost.push('/');
        }
        if uri.vhost.len() > SHORT_BYTES {
            return Err(refused(
                "the broker's url has a virtual host of more than 255 bytes",
            ));
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECS);
        uri.query.connection_timeout.get_or_insert(CONNECT_MILLIS);
        let tls = Tls::default();
        Ok(Self { uri, tls, code })
    }

    /// Returns a url without its password.
    pub(crate) fn show(url: &str) -> String {
        match Self::read(url, Code::InvalidConfig) {
            Ok(address) => {
                let scheme = match address.uri.scheme {
                    AMQPScheme::AMQP => "amqp",
                    AMQPScheme::AMQPS => "amqps",
                };
                format!(
                    "{scheme}://{}:***@{address}/{}",
                    address.user(),
                    address.vhost()
                )
            }
            Err(_) => "***".to_owned(),
        }
    }

    pub(crate) fn user(&self) -> &str {
        &self.uri.authority.userinfo.username
    }

    pub(crate) fn vhost(&self) -> &str {
        &self.uri.vhost
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.uri.scheme == AMQPScheme::AMQPS
    }
}

/// Writes host and port.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = &self.uri.authority;
        write!(f, "{}:{}", at.host, at.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for url in [
            "amqp://ada:geheim@rabbit:5673/shop",
            "amqp://ada:geheim@[::1]/shop",
            "amqp//ada:geheim@rabbit",
            "amqp://ada:geheim@rabbit/%zz?heartbeat=geheim",
        ] {
            assert!(!Address::show(url).contains("geheim"));
            if let Err(error) = Address::read(url, Code::SourceUnavailable) {
                assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
            }
        }
        assert_eq!(
            Address::show("amqps://ada:geheim@rabbit/shop"),
            "amqps://ada:***@rabbit:5671/shop"
        );
    }

    #[test]
    fn a_url_without_a_virtual_host_means_the_default_one() {
        for url in ["amqp://rabbit", "amqp://rabbit/", "amqp://rabbit/%2f"] {
            let address = Address::read(url, Code::SourceUnavailable).expect("a url");
            assert_eq!((address.vhost(), address.user()), ("/", "guest"));
        }
        let address = Address::read(
            "amqp://ada:a%40b@127.0.0.1:1/a%2Fb",
            Code::SourceUnavailable,
        );
        let address = address.expect("a url");
        assert_eq!(address.vhost(), "a/b");
        assert_eq!(address.to_string(), "127.0.0.1:1");
        assert_eq!(address.uri.authority.userinfo.password, "a@b");
    }

    #[test]
    fn what_the_driver_would_get_wrong_is_refused() {
        for url in [
            "amqp://[::1]:5672/",
            "amqp:///shop",
            "http://rabbit/",
            "rabbit:5672",
        ] {
            let error = Address::read(url, Code::SourceUnavailable)
                .err()
                .expect(url);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        }
        let long = format!("amqp://rabbit/{}", "v".repeat(256));
        assert!(
            Address::read(&long, Code::SourceUnavailable).is_err(),
            "the driver would panic"
        );
    }
}
