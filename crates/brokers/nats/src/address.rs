//! Addresses of servers, and the login: taken apart from a URL that nobody may see whole.

use std::path::PathBuf;

use async_nats::{ConnectOptions, ServerAddr};
use semel_core::{Error, ErrorKind, Result};
use semel_tls::Tls;

/// Servers and credentials, checked.
#[derive(Clone)]
pub(crate) struct Address {
    servers: Vec<ServerAddr>,
    login: Login,
    credentials_file: Option<PathBuf>,
    tls: Tls,
    /// Name to show to people, without credentials.
    pub(crate) name: Box<str>,
}

#[derive(Clone)]
enum Login {
    Nobody,
    Token(String),
    User(String, String),
}

impl Address {
    pub(crate) fn new(url: &str, credentials_file: Option<PathBuf>, tls: Tls) -> Result<Self> {
        tls.check()?;
        let mut servers = Vec::new();
        let mut login = Login::Nobody;
        let name = redacted(url);
        for part in url
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            // The driver's error for a bad address may repeat it, password and all.
            let address = part.parse::<ServerAddr>();
            let address = address.map_err(|_| {
                let message = format!("{:?} is no address of a NATS server", redacted(part));
                Error::new(ErrorKind::InvalidConfig, message)
            })?;
            if matches!(login, Login::Nobody) {
                login = Login::of(&address)?;
            }
            servers.push(without_login(address)?);
        }
        if servers.is_empty() {
            let message = "the address of a NATS server is missing";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        Ok(Self {
            servers,
            login,
            credentials_file,
            tls,
            name: name.into(),
        })
    }

    /// Returns the addresses and options that the driver needs to connect.
    pub(crate) async fn dial(&self) -> Result<(Vec<ServerAddr>, ConnectOptions)> {
        let mut options = ConnectOptions::new();
        if let Some(path) = &self.credentials_file {
            options = options.credentials_file(path).await.map_err(|error| {
                let message = format!("cannot use the credentials file {}", path.display());
                Error::new(ErrorKind::InvalidConfig, message).with_source(error)
            })?;
        }
        options = match &self.login {
            Login::Nobody => options,
            Login::Token(token) => options.token(token.clone()),
            Login::User(user, password) => {
                options.user_and_password(user.clone(), password.clone())
            }
        };
        if !self.tls.is_usual() {
            options = options
                .tls_client_config(self.tls.config()?)
                .require_tls(true);
        }
        // A connection that broke is given up and reopened here; this many attempts are the least that tries each
        // server once.
        Ok((
            self.servers.clone(),
            options.max_reconnects(self.servers.len()),
        ))
    }
}

impl Login {
    fn of(address: &ServerAddr) -> Result<Self> {
        let decode = |text: &str| {
            decoded(text).ok_or_else(|| {
                let message = "user or password of the NATS URL are not percent-encoded UTF-8";
                Error::new(ErrorKind::InvalidConfig, message)
            })
        };
        Ok(match (address.username(), address.password()) {
            (None, None) => Self::Nobody,
            (Some(token), None) => Self::Token(decode(token)?),
            (user, Some(password)) => {
                Self::User(decode(user.unwrap_or_default())?, decode(password)?)
            }
        })
    }
}

fn without_login(address: ServerAddr) -> Result<ServerAddr> {
    let mut url = address.into_inner();
    let stripped = url.set_username("").and_then(|()| url.set_password(None));
    let address = stripped.ok().and_then(|()| ServerAddr::from_url(url).ok());
    address.ok_or_else(|| {
        let message = "the address of a NATS server needs a host";
        Error::new(ErrorKind::InvalidConfig, message)
    })
}

/// Returns the URL without user, password and token.
pub(crate) fn redacted(url: &str) -> String {
    let part = |part: &str| {
        let (scheme, rest) = part.split_once("://").unwrap_or(("nats", part));
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        format!("{}://{host}", scheme.trim())
    };
    url.split(',').map(part).collect::<Vec<_>>().join(",")
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (code, after) = rest.split_at_checked(2)?;
            let code = std::str::from_utf8(code).ok()?;
            bytes.push(u8::from_str_radix(code, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> Result<Address> {
        Address::new(url, None, Tls::default())
    }

    #[test]
    fn a_login_is_taken_out_and_decoded() {
        let one = address("nats://a,tls://m%40e:p%3aw@b:5").expect("an address");
        assert!(
            matches!(&one.login, Login::User(user, password) if user == "m@e" && password == "p:w")
        );
        let urls: Vec<_> = one.servers.iter().map(ServerAddr::as_url_str).collect();
        assert!(!urls.concat().contains('@'), "{urls:?}");
        assert!(one.servers[1].tls_required());
        let token = address("nats://t@b").expect("an address");
        assert!(matches!(&token.login, Login::Token(token) if token == "t"));
        assert!(matches!(
            address("localhost").expect("a host").login,
            Login::Nobody
        ));
    }

    #[test]
    fn a_bad_address_is_told_without_its_password() {
        for bad in [
            "",
            "http://u:s3cret@h",
            "nats://u:s3cret@h:port",
            "nats://u:%zz-s3cret@h",
        ] {
            let error = address(bad).err().expect("no address");
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }
}
