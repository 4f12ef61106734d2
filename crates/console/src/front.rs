//! The parts that need no token: the page to log in at, the style and the script.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use semel_http::TOKEN_COOKIE;
use tower::ServiceExt;

use crate::assets::{ICON, SCRIPT, STYLE};
use crate::form::Form;
use crate::layout::html_page;
use crate::text::address;

/// Puts what needs no token before pages that a listener protects. Whoever asks for a page without a good token is sent
/// to log in.
pub fn front(protected: Router) -> Router {
    Router::new()
        .route("/login", get(ask).post(log_in))
        .route("/logout", post(log_out))
        .route(STYLE.path, get(async || STYLE.answer()))
        .route(SCRIPT.path, get(async || SCRIPT.answer()))
        .route(ICON.path, get(async || ICON.answer()))
        .fallback(inside)
        .with_state(protected)
}

/// Answers a request for a page, or sends its caller to log in.
async fn inside(State(protected): State<Router>, request: Request) -> Response {
    let path = request.uri().path();
    let is_page = !path.starts_with("/v1/");
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let target = request.uri().path_and_query().map(ToString::to_string);
    let shows_token = shows_token(request.headers());
    let Ok(answer) = protected.oneshot(request).await;
    if answer.status() != StatusCode::UNAUTHORIZED || !is_page {
        return answer;
    }
    let next = target.filter(|_| is_read).unwrap_or_default();
    let next = if next == "/" { String::new() } else { next };
    let answer = to(&address("/login", &[("next", &next)]));
    // A token that is not known is in the way where none is needed: one of another worker at the same name, or an old one.
    if shows_token {
        forgetting(answer)
    } else {
        answer
    }
}

/// Shows the page to log in at.
async fn ask(State(protected): State<Router>, head: Parts) -> Response {
    let query = head.uri.query().unwrap_or_default();
    let mut members = form_urlencoded::parse(query.as_bytes());
    let next = members.find(|(name, _)| name == "next");
    let next = next.map(|(_, value)| value.into_owned());
    let next = next.as_deref().unwrap_or_default();
    let is_open = asked(&protected, &head, None).await == StatusCode::OK;
    let content = html! {
        main.login #main {
            h1 { "Semel" }
            @if is_open {
                p.notice.good {
                    "Nobody needs a token at this address. "
                    a href=(if is_local(next) { next } else { "/" }) { "Go on without" }
                }
            }
            (login(next, false))
        }
    };
    html_page(StatusCode::OK, "Log in", &content)
}

/// Takes a token into a cookie, if the listener knows it.
async fn log_in(State(protected): State<Router>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let form = match Form::of_own_page(&head, body, MOST_BYTES).await {
        Ok(form) => form,
        Err(problem) => return problem.into_response(),
    };
    let (token, next) = (form.text("token").trim(), form.text("next"));
    let status = known(&protected, &head, token).await;
    if status == StatusCode::OK {
        // A page that came encrypted says so: then the cookie is never sent in the clear.
        let origin = head.headers.get(ORIGIN);
        let is_encrypted = origin.is_some_and(|it| it.as_bytes().starts_with(b"https://"));
        let secure = if is_encrypted { "; Secure" } else { "" };
        let cookie = format!("{TOKEN_COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict{secure}");
        let mut answer = to(if is_local(next) { next } else { "/" });
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            answer.headers_mut().insert(SET_COOKIE, cookie);
            return answer;
        }
    }
    let why = match status {
        StatusCode::TOO_MANY_REQUESTS => "Too many wrong tokens were sent. Wait some seconds.",
        StatusCode::FORBIDDEN => {
            "This listener is not known by the name in the address bar; see `hosts` of `[admin]`."
        }
        _ => "This token is not known, or has expired.",
    };
    let status = if status == StatusCode::OK {
        StatusCode::BAD_REQUEST
    } else {
        status
    };
    let content = html! {
        main.login #main {
            h1 { "Semel" }
            p.notice.bad role="alert" #why { (why) }
            (login(next, true))
        }
    };
    html_page(status, "Log in", &content)
}

/// Asks the listener whether it knows a token, with all its rules about names, origins and wrong tokens.
async fn known(protected: &Router, head: &Parts, token: &str) -> StatusCode {
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    let bearer = HeaderValue::from_str(&format!("Bearer {token}"));
    let bearer = bearer
        .ok()
        .filter(|_| !token.is_empty() && token.bytes().all(is_letter));
    let is_token = bearer.is_some();
    let status = asked(protected, head, bearer).await;
    if is_token || status == StatusCode::FORBIDDEN {
        status
    } else {
        StatusCode::UNAUTHORIZED
    }
}

/// Asks the listener for something that each caller may see, by the name and from the page that a request has.
async fn asked(protected: &Router, head: &Parts, bearer: Option<HeaderValue>) -> StatusCode {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = Uri::from_static("/v1/openapi.json");
    let headers = request.headers_mut();
    for name in [HOST, ORIGIN] {
        headers.extend(head.headers.get(&name).map(|it| (name, it.clone())));
    }
    headers.extend(bearer.map(|it| (AUTHORIZATION, it)));
    let Ok(answer) = protected.clone().oneshot(request).await;
    answer.status()
}

/// Forgets the token.
async fn log_out(State(protected): State<Router>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    if let Err(problem) = Form::of_own_page(&head, body, MOST_BYTES).await {
        return problem.into_response();
    }
    if asked(&protected, &head, None).await == StatusCode::FORBIDDEN {
        return StatusCode::FORBIDDEN.into_response();
    }
    forgetting(to("/login"))
}

/// Tells whether a browser shows a token.
fn shows_token(headers: &HeaderMap) -> bool {
    let cookies = headers.get_all(COOKIE).iter();
    let mut cookies = cookies.filter_map(|it| it.to_str().ok());
    cookies.any(|it| it.contains(TOKEN_COOKIE))
}

/// The same answer, after which a browser has no token.
fn forgetting(mut answer: Response) -> Response {
    let gone = format!("{TOKEN_COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    if let Ok(gone) = HeaderValue::from_str(&gone) {
        answer.headers_mut().insert(SET_COOKIE, gone);
    }
    answer
}

/// The form that takes a token, after a refusal or before.
fn login(next: &str, is_refused: bool) -> Markup {
    html! {
        form method="post" action="/login" {
            label for="token" { "Token" }
            input #token name="token" type="password" autocomplete="current-password" required
                aria-describedby=[is_refused.then_some("why")];
            input type="hidden" name="next" value=(next);
            button.primary { "Log in" }
        }
        p.hint { "An administrator makes one with " code { "semel token create NAME --role viewer" } "." }
    }
}

/// Tells whether an address leads to a page of this listener.
fn is_local(address: &str) -> bool {
    let mut letters = address.bytes();
    let is_path = letters.next() == Some(b'/') && !matches!(letters.next(), Some(b'/' | b'\\'));
    is_path && address.bytes().all(|it| it.is_ascii_graphic())
}

/// Sends a browser elsewhere.
fn to(address: &str) -> Response {
    let mut answer = StatusCode::SEE_OTHER.into_response();
    if let Ok(address) = HeaderValue::from_str(address) {
        answer.headers_mut().insert(LOCATION, address);
    }
    answer
}

/// The longest form of somebody who is not known.
const MOST_BYTES: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_another_site() {
        for good in ["/", "/key?key=a%20b", "/in-doubt"] {
            assert!(is_local(good), "{good}");
        }
        for bad in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "javascript:1",
            "/a\r\nb",
            "/\t/evil.example",
        ] {
            assert!(!is_local(bad), "{bad}");
        }
    }
}
