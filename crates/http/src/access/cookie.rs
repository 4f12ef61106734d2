//! The token of a browser, which it sends by itself with whatever any page asks of this listener.

use axum::http::header::{COOKIE, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use semel_core::Code;

use crate::problem::Problem;

/// The token that a browser shows; none if there is no cookie of this name, or an empty one.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter();
    let cookies = cookies.filter_map(|it| it.to_str().ok());
    let mut pairs = cookies.flat_map(|it| it.split(';').map(str::trim));
    let value = pairs.find_map(|it| it.strip_prefix(TOKEN_COOKIE)?.strip_prefix('='))?;
    Some(value).filter(|it| !it.is_empty())
}

/// Refuses a request that a browser sends by itself, and that does more than read, unless it says that it comes from a page
/// of the listener. Where it names another origin, it is refused already.
pub(super) fn check_page(head: &Parts) -> Result<(), Problem> {
    if matches!(head.method, Method::GET | Method::HEAD) || is_from_own_page(head) {
        return Ok(());
    }
    let detail = "the browser does not say which page this comes from";
    let status = StatusCode::FORBIDDEN;
    Err(Problem::new(status, Code::OriginRefused.as_str(), detail))
}

/// Refuses what a page of another origin asks for by itself, be it only read: it would take the places of those who may
/// look. Whoever follows a link from there gets the page.
pub(super) fn check_fetch(head: &Parts) -> Result<(), Problem> {
    let says = |name: &str| {
        let value = head
            .headers
            .get(name)
            .map(|it| it.to_str().unwrap_or_default());
        value.unwrap_or_default()
    };
    let is_foreign = matches!(says("sec-fetch-site"), "cross-site" | "same-site");
    let is_link = says("sec-fetch-mode") == "navigate" && says("sec-fetch-dest") == "document";
    if !is_foreign || is_link {
        return Ok(());
    }
    let detail = "pages of other origins may lead to this listener, and not ask it";
    let status = StatusCode::FORBIDDEN;
    Err(Problem::new(status, Code::OriginRefused.as_str(), detail))
}

/// Tells whether a browser says that a request comes from a page of the listener itself, where [`Access`](super::Access)
/// has refused those of other origins.
pub fn is_from_own_page(head: &Parts) -> bool {
    let site = head.headers.get("sec-fetch-site");
    match site {
        Some(site) => site == "same-origin",
        None => head.headers.contains_key(ORIGIN),
    }
}

/// The cookie in which a browser shows a token.
pub const TOKEN_COOKIE: &str = "semel_token";
