//! The address of an admin API.

use std::fmt;

use hyper::Uri;
use semel_core::{Error, ErrorKind, Result};

/// The address of an admin API: `http://HOST:PORT` or `https://HOST`, perhaps with a path before `/v1/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: Box<str>,
    port: u16,
    is_tls: bool,
    /// The path before `/v1/`, without a slash at its end.
    prefix: Box<str>,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// `InvalidInput`; the text is not repeated, since it may hold a secret
    pub fn parse(text: &str) -> Result<Self> {
        let uri: Uri = text.trim().parse().map_err(|_| wrong(FORM))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => return Err(wrong(FORM)),
        };
        let authority = uri.authority().ok_or_else(|| wrong(FORM))?;
        if authority.as_str().contains('@') {
            return Err(wrong(
                "an address has neither user nor password; name the token with --token-file FILE or in SEMEL_TOKEN",
            ));
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(wrong("an address has neither query nor fragment"));
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        if host.is_empty() {
            return Err(wrong(FORM));
        }
        let has_port = authority
            .as_str()
            .rsplit(']')
            .next()
            .is_some_and(|it| it.contains(':'));
        let port = match authority.port_u16() {
            Some(port) => port,
            None if has_port => return Err(wrong("the port of the address is none")),
            None if is_tls => 443,
            None => 80,
        };
        Ok(Self {
            host: host.into(),
            port,
            is_tls,
            prefix: uri.path().trim_end_matches('/').into(),
        })
    }

    /// The host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// True if the connection is encrypted.
    pub const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// True if nothing of what is sent leaves this machine.
    pub fn is_loopback(&self) -> bool {
        let ip = self.host.parse::<std::net::IpAddr>();
        ip.map_or(&*self.host == "localhost", |it| it.is_loopback())
    }

    /// Returns a path as it is asked for.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// The header `host`.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.to_string()
        };
        let usual = if self.is_tls { 443 } else { 80 };
        if self.port == usual {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

fn wrong(why: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("--admin: {why}"))
}

const FORM: &str = "wanted is an address as http://HOST:PORT or https://HOST";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_a_port_and_perhaps_a_path() {
        for (text, shown, port, path) in [
            (
                "http://127.0.0.1:9464",
                "http://127.0.0.1:9464",
                9464,
                "/v1/keys",
            ),
            (
                "http://127.0.0.1:9464/",
                "http://127.0.0.1:9464",
                9464,
                "/v1/keys",
            ),
            (
                "https://ops.example",
                "https://ops.example",
                443,
                "/v1/keys",
            ),
            (
                "https://ops.example:443/semel/",
                "https://ops.example/semel",
                443,
                "/semel/v1/keys",
            ),
            ("http://[::1]:1", "http://[::1]:1", 1, "/v1/keys"),
            ("http://[::1]", "http://[::1]", 80, "/v1/keys"),
        ] {
            let address = Address::parse(text).expect(text);
            assert_eq!(
                (address.to_string().as_str(), address.port()),
                (shown, port)
            );
            assert_eq!(address.path("/v1/keys"), path);
        }
        for (text, is_loopback) in [
            ("http://[::1]", true),
            ("http://localhost", true),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(Address::parse(text).expect(text).is_loopback(), is_loopback);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_and_not_repeated() {
        for text in [
            "",
            "ops",
            "ops:9464",
            "ftp://ops",
            "http://",
            "http://ops:port",
            "http://ops:99999",
            "http://me:secret@ops",
            "http://ops/?token=secret",
            "http://ops/#secret",
        ] {
            let error = Address::parse(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
