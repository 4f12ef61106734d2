//! The frame of every page, and the headers that keep others out of it.

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use semel_http::Caller;

use crate::api::Refusal;
use crate::assets::{SCRIPT, STYLE};
use crate::text::address;

/// A page in the list of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Overview,
    Key,
    InDoubt,
    DeadLetters,
    Quarantine,
    Window,
    Store,
    Audit,
    Elsewhere,
}

impl Place {
    const LISTED: [(Self, &'static str, &'static str); 8] = [
        (Self::Overview, "/", "Overview"),
        (Self::Key, "/key", "Key"),
        (Self::InDoubt, "/in-doubt", "In doubt"),
        (Self::DeadLetters, "/dead-letters", "Dead letters"),
        (Self::Quarantine, "/quarantine", "Quarantine"),
        (Self::Window, "/window", "Window"),
        (Self::Store, "/store", "Store"),
        (Self::Audit, "/audit", "Audit"),
    ];
}

/// Lays a page out for a caller.
pub(crate) fn page(caller: &Caller, place: Place, title: &str, content: &Markup) -> Response {
    let sees_all = caller.tenant.is_none();
    let markup = html! {
        a.skip href="#main" { "Skip to the content" }
        header {
            a.brand href="/" { "Semel" }
            nav aria-label="Pages" {
                ul {
                    @for (listed, path, name) in Place::LISTED {
                        li {
                            a href=(path) aria-current=[(listed == place).then_some("page")] { (name) }
                        }
                    }
                }
            }
            div.who {
                span { (caller.name) ", " (caller.role.as_str()) }
                @if let Some(tenant) = &caller.tenant {
                    span { "tenant " (tenant.as_str()) }
                }
                @if &*caller.name != Caller::loopback().name.as_ref() {
                    form method="post" action="/logout" { button { "Log out" } }
                }
            }
        }
        div #gone role="alert" hidden {}
        main #main tabindex="-1" data-live=[sees_all.then_some("yes")] { (content) }
    };
    html_page(StatusCode::OK, title, &markup)
}

/// Lays out what is shown instead of a page.
pub(crate) fn refusal(caller: &Caller, place: Place, status: StatusCode, detail: &str) -> Response {
    let content = html! {
        h1 { "Not shown" }
        p.notice.bad { (detail) }
    };
    page_with(status, caller, place, "Not shown", &content)
}

/// Lays a page out that has this status.
pub(crate) fn page_with(
    status: StatusCode,
    caller: &Caller,
    place: Place,
    title: &str,
    content: &Markup,
) -> Response {
    let mut page = page(caller, place, title, content);
    *page.status_mut() = status;
    page
}

/// The same for an answer of the admin API.
pub(crate) fn refused(caller: &Caller, place: Place, refusal: &Refusal) -> Response {
    self::refusal(caller, place, refusal.status, &refusal.detail())
}

/// Says that a list has nothing: for certain if it was read to its end, else of the part that was read.
pub(crate) fn nothing(is_whole: bool, sentence: &str) -> Markup {
    html! {
        @if is_whole {
            p.notice.good { (sentence) }
        } @else {
            p.notice { "Nothing was found in this part of a longer list." }
        }
    }
}

/// A link to the next part of a list, if there is one; `query` is that of the page, whose cursor is replaced.
pub(crate) fn more(path: &str, query: &[(&str, &str)], next: &str, words: &str) -> Markup {
    let members = query.iter().filter(|(name, _)| *name != "cursor");
    let mut members: Vec<_> = members.copied().collect();
    members.push(("cursor", next));
    html! {
        @if !next.is_empty() {
            p { a href=(address(path, &members)) { (words) } }
        }
    }
}

/// A part of a page that cannot be shown.
pub(crate) fn missing(refusal: &Refusal) -> Markup {
    html! { p.notice { (refusal.detail()) } }
}

/// A whole document.
pub(crate) fn html_page(status: StatusCode, title: &str, body: &Markup) -> Response {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Semel" }
                link rel="icon" href="/console/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href=(STYLE.address());
                script src=(SCRIPT.address()) defer {}
            }
            body { (body) }
        }
    };
    let headers = [
        (
            CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        ),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        // Without a referrer, browsers would not say either where a form comes from.
        (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (
            HeaderName::from_static("x-content-type-options"),
            HeaderValue::from_static("nosniff"),
        ),
        (
            HeaderName::from_static("x-frame-options"),
            HeaderValue::from_static("DENY"),
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            HeaderValue::from_static("same-origin"),
        ),
    ];
    (status, headers, markup.into_string()).into_response()
}

/// The policy of every page: its own style, script and answers, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
