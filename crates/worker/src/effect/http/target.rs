//! The URL: the address to connect to, the path to ask for, and the parts that must stay secret.

use std::fmt;

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::PathAndQuery;

use semel_core::Result;

use super::super::base64;
use super::invalid;

/// A URL, split into its parts.
#[derive(Clone)]
pub(super) struct Target {
    host: Box<str>,
    port: u16,
    is_tls: bool,
    path_and_query: PathAndQuery,
    user_info: Option<Box<str>>,
    masked: Box<str>,
}

impl Target {
    /// # Errors
    ///
    /// `InvalidConfig`; the URL is not repeated, since it may hold a secret
    pub(super) fn parse(url: &str) -> Result<Self> {
        let url = url.trim();
        let wrong = |what: &str| invalid(&format!("url: {what}"));
        let without_fragment = url.split('#').next().unwrap_or(url);
        let uri: Uri = without_fragment
            .parse()
            .map_err(|_| wrong("it is no URL; write it as http://HOST:PORT/PATH"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it must begin with http:// or https://")),
        };
        let authority = uri
            .authority()
            .ok_or_else(|| wrong("it names no host; write one"))?;
        let host = authority.host();
        if host.is_empty() {
            return Err(wrong("it names no host; write one"));
        }
        let user_info = authority
            .as_str()
            .rsplit_once('@')
            .map(|(user_info, _)| user_info.into());
        let default_port = if is_tls { 443 } else { 80 };
        let host_and_port = authority.as_str().rsplit('@').next().unwrap_or_default();
        let port = match host_and_port.strip_prefix(host).unwrap_or_default() {
            "" | ":" => default_port,
            port => port[1..]
                .parse()
                .map_err(|_| wrong("its port is none; correct it"))?,
        };
        let path_and_query = match uri.path_and_query().map_or("", PathAndQuery::as_str) {
            rooted if rooted.starts_with('/') => rooted.parse(),
            rootless => format!("/{rootless}").parse(),
        };
        Ok(Self {
            host: host.trim_start_matches('[').trim_end_matches(']').into(),
            port,
            is_tls,
            path_and_query: path_and_query.map_err(|_| wrong("its path is none; correct it"))?,
            user_info,
            masked: masked(url).into(),
        })
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) const fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(super) fn path_and_query(&self) -> PathAndQuery {
        self.path_and_query.clone()
    }

    /// The URL as it may be shown.
    pub(super) fn masked(&self) -> &str {
        &self.masked
    }

    /// The URL without user, password and query; nothing if its path may have a part of them.
    pub(super) fn plain(&self) -> Option<String> {
        // A password with a `/` ends the authority, and what is behind it is read as a path.
        if self.path_and_query.as_str().contains('@') {
            return None;
        }
        let scheme = if self.is_tls { "https" } else { "http" };
        let host = self.host_header().ok()?;
        let path = self.path_and_query.path();
        Some(format!("{scheme}://{}{path}", host.to_str().ok()?))
    }

    pub(super) fn host_header(&self) -> Result<HeaderValue> {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.to_string()
        };
        let is_default = self.port == if self.is_tls { 443 } else { 80 };
        let host = if is_default {
            host
        } else {
            format!("{host}:{}", self.port)
        };
        HeaderValue::try_from(host).map_err(|_| invalid("url: its host is none; correct it"))
    }

    /// The header for user and password.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let user_info = percent_decoded(self.user_info.as_deref()?);
        let mut value = b"Basic ".to_vec();
        base64::write(&user_info, &mut value);
        let mut value = HeaderValue::from_bytes(&value).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// `text` without the secrets of the URL, in case an error repeats them.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let query = self.path_and_query.query().unwrap_or_default();
        let values = query.split('&').filter_map(|pair| pair.split_once('='));
        let user_info = self
            .user_info
            .iter()
            .flat_map(|user_info| user_info.split(':'));
        for secret in values.map(|(_, value)| value).chain(user_info) {
            let decoded = percent_decoded(secret);
            for secret in [secret, &String::from_utf8_lossy(&decoded)] {
                if secret.len() >= SHORTEST_SECRET_BYTES {
                    text = text.replace(secret, "***");
                }
            }
        }
        text
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.masked)
    }
}

/// A URL with `***` for user and password and for every value of its query.
pub fn masked(url: &str) -> String {
    let url = url.split('#').next().unwrap_or(url);
    let (place, query) = match url.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (url, None),
    };
    let mut masked = String::new();
    let rest = match place.split_once("://") {
        Some((scheme, rest)) => {
            masked.push_str(scheme);
            masked.push_str("://");
            rest
        }
        None => place,
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => {
            masked.push_str("***@");
            masked.push_str(host);
        }
        None => masked.push_str(authority),
    }
    masked.push_str(path);
    for (index, pair) in query.iter().flat_map(|query| query.split('&')).enumerate() {
        masked.push(if index == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, _)) => {
                masked.push_str(name);
                masked.push_str("=***");
            }
            None => masked.push_str(if pair.is_empty() { "" } else { "***" }),
        }
    }
    masked
}

/// Returns the bytes of a percent-encoded text; what is no escape stays as it is.
pub fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after
            .get(..2)
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped {
            Some(escaped) if byte == b'%' => {
                decoded.push(escaped);
                rest = &after[2..];
            }
            _ => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    decoded
}

/// The length below which a secret could occur by chance.
const SHORTEST_SECRET_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        for (url, shown) in [
            ("http://h/p", "http://h/p"),
            (
                "https://u:p%40@h:8/p?a=1&b&c=#f",
                "https://***@h:8/p?a=***&***&c=***",
            ),
            ("http://u@h", "http://***@h"),
            ("http://a@b@h/x@y", "http://***@h/x@y"),
            ("nonsense?k=v", "nonsense?k=***"),
        ] {
            assert_eq!(masked(url), shown);
        }
        let target = Target::parse("http://user:pass%21word@h/?key=abcdef&n=1").expect("a URL");
        let text = target.without_secrets("user pass!word pass%21word abcdef 1");
        assert_eq!(text, "*** *** *** *** 1");
    }

    #[test]
    fn a_url_is_taken_apart() {
        let target = Target::parse("http://[::1]:81?x=1#f").expect("a URL");
        assert_eq!(
            (target.host(), target.port(), target.is_tls()),
            ("::1", 81, false)
        );
        assert_eq!(target.path_and_query().as_str(), "/?x=1");
        assert_eq!(target.host_header().expect("a host"), "[::1]:81");
        assert_eq!(target.plain().as_deref(), Some("http://[::1]:81/"));
        let target = Target::parse("https://a:b%3A@example.org/p").expect("a URL");
        assert_eq!(
            (target.host(), target.port(), target.is_tls()),
            ("example.org", 443, true)
        );
        assert_eq!(target.host_header().expect("a host"), "example.org");
        assert_eq!(target.authorization().expect("basic"), "Basic YTpiOg==");
        assert_eq!(target.plain().as_deref(), Some("https://example.org/p"));
        // Of a password with a `/`, the rest is read as a path.
        let target = Target::parse("http://me:12/heim@pay/charge").expect("a URL");
        assert_eq!(target.plain(), None);
        for url in [
            "",
            "/p",
            "ftp://h",
            "http://",
            "http://:80/",
            "http://h:99999/",
            "http://h h/",
            "secret",
        ] {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(
                error.starts_with("url: ") && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
