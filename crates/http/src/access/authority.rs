//! The names by which a listener may be called, and the pages that may call it: whoever can point a name of their own
//! at this machine could reach the listener through the browser of somebody who is on it (DNS rebinding), and so could
//! a page of another site (CSRF).

use std::net::IpAddr;

use axum::http::header::{CONNECTION, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, Version};

use semel_core::Code;

use crate::problem::Problem;

/// The names by which a listener may be called, and the pages that may call it.
#[derive(Clone, Debug)]
pub struct Hosts {
    names: Vec<Box<str>>,
    /// True if only those names and the ones of a loopback address are good.
    is_closed: bool,
    /// True if pages of the listener itself may call it.
    has_pages: bool,
}

impl Hosts {
    /// The names of a listener, whose own pages may call it; `is_loopback` if it is on a loopback address, where nobody
    /// needs a token. There its own names are good, too; elsewhere any name is good if there are none.
    pub fn new(names: &[Box<str>], is_loopback: bool) -> Self {
        Self {
            names: names.to_vec(),
            is_closed: is_loopback || !names.is_empty(),
            has_pages: true,
        }
    }

    /// The same names of a listener that has no pages: a request that a page sends is refused.
    #[must_use]
    pub fn without_pages(self) -> Self {
        Self {
            has_pages: false,
            ..self
        }
    }

    /// Checks the name that a request calls the listener by, and the page that it comes from.
    ///
    /// # Errors
    ///
    /// 400 `invalid-input`: no name, or several; 403 `host-refused`, `origin-refused`
    pub fn check(&self, request: &Parts) -> Result<(), Problem> {
        let authority = authority(request)?;
        if let Some(authority) = &authority
            && !self.knows(authority.host())
        {
            let detail = "the listener is not known by the name in `Host`; see `hosts`";
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                Code::HostRefused.as_str(),
                detail,
            ));
        }
        let mut origins = request.headers.get_all(ORIGIN).iter();
        let is_own = |origin: &HeaderValue| {
            let origin = origin.to_str().unwrap_or_default();
            let place = ["http://", "https://"].map(|scheme| strip(origin, scheme));
            let mut place = place.into_iter().flatten();
            let authority = authority.as_ref().filter(|_| self.has_pages);
            authority.is_some_and(|own| place.any(|it| it.eq_ignore_ascii_case(own.as_str())))
        };
        if !origins.all(is_own) {
            let detail = if self.has_pages {
                "pages of other origins may not call this listener"
            } else {
                "web pages may not call this listener"
            };
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                Code::OriginRefused.as_str(),
                detail,
            ));
        }
        Ok(())
    }

    fn knows(&self, host: &str) -> bool {
        if !self.is_closed || host.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let address = bare.unwrap_or(host).parse::<IpAddr>();
        address.is_ok_and(|ip| ip.to_canonical().is_loopback())
            || self
                .names
                .iter()
                .any(|name| name.eq_ignore_ascii_case(host))
    }
}

/// The name that a request calls the listener by; nothing for a client of HTTP/1.0 that knows no names.
fn authority(request: &Parts) -> Result<Option<Authority>, Problem> {
    let mut hosts = request.headers.get_all(HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    let refused = |detail: &str| {
        Problem::new(StatusCode::BAD_REQUEST, Code::InvalidInput.as_str(), detail)
            .with_header(CONNECTION, HeaderValue::from_static("close"))
    };
    match (first, second) {
        (_, Some(_)) => Err(refused("`Host` is sent twice")),
        (None, None) if request.version == Version::HTTP_10 => Ok(None),
        (None, None) => Err(refused("`Host` is missing")),
        (Some(host), None) => {
            let host = host.to_str().ok().and_then(|it| it.parse().ok());
            let host: Authority = host.ok_or_else(|| refused("`Host` is no name"))?;
            // The target of the request stands over the header.
            Ok(Some(request.uri.authority().cloned().unwrap_or(host)))
        }
    }
}

/// The rest of `text` behind `start`, whose case does not matter.
fn strip<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(start.len())?;
    head.eq_ignore_ascii_case(start).then_some(rest)
}
