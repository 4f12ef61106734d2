//! Lets callers in: checks a request before the router of an API sees it, and hands over its caller and its whole body.

mod authority;
mod cookie;
mod pace;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, EXPECT, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use semel_core::{Clock, Code, planted};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

pub use self::authority::Hosts;
pub use self::cookie::{TOKEN_COOKIE, is_from_own_page};
use self::pace::Pace;
use super::caller::Caller;
use super::certificate::ClientCertificate;
use super::problem::Problem;
use super::tokens::{Shown, Tokens};

/// The rules by which the requests of one listener are let in.
pub struct Access {
    needs_token: bool,
    takes_cookies: bool,
    hosts: Hosts,
    tokens: watch::Receiver<Arc<Tokens>>,
    clock: Arc<dyn Clock>,
    pace: Pace,
    max_body_bytes: usize,
    large: Arc<Semaphore>,
}

/// The place of a large body among those that are in hand at once, an extension of its request. It is free again once
/// the request and this are dropped: a service that keeps the body for longer keeps this with it.
#[derive(Clone, Debug)]
pub struct LargeBody {
    _place: Arc<OwnedSemaphorePermit>,
}

impl Access {
    /// The rules of a listener at `address`: a loopback address needs no token, but one that is sent must be right.
    ///
    /// `hosts` are the names by which clients call it, beside those of a loopback address; none means any name
    /// where a token is needed.
    pub fn new(
        address: SocketAddr,
        hosts: &[Box<str>],
        tokens: watch::Receiver<Arc<Tokens>>,
        max_body_bytes: usize,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let needs_token = needs_token(address);
        Self {
            needs_token,
            takes_cookies: false,
            hosts: Hosts::new(hosts, !needs_token),
            tokens,
            pace: Pace::default(),
            clock,
            max_body_bytes,
            large: Arc::new(Semaphore::new(MOST_LARGE)),
        }
    }

    /// The same rules of a listener that has pages: a browser may show its token in the cookie [`TOKEN_COOKIE`]. What is more
    /// than reading must come from a page of the listener itself, then, and pages of others may read nothing either.
    #[must_use]
    pub fn with_cookies(self) -> Self {
        Self {
            takes_cookies: true,
            ..self
        }
    }

    /// Puts the rules before every route, which find a [`Caller`] among the extensions of a request.
    pub fn protect(self, router: Router) -> Router {
        let rules = Arc::new(self);
        router
            .layer(DefaultBodyLimit::disable())
            .layer(middleware::from_fn_with_state(rules, admit))
    }

    /// Puts the rules before a service that reads bodies itself, within bounds of its own: it finds a [`Caller`] among the
    /// extensions of a request, and the body unread.
    pub fn protect_unread(self, router: Router) -> Router {
        let rules = Arc::new(self);
        router.layer(middleware::from_fn_with_state(rules, admit_unread))
    }

    /// Lets a request in, and finds out who asks; answers one that it refuses.
    async fn let_in(&self, request: Request) -> Result<(Parts, Body), Response> {
        let (mut parts, body) = request.into_parts();
        let checked = self.hosts.check(&parts).and_then(|()| self.fetch(&parts));
        let caller = match checked {
            Ok(()) => self.caller(&parts).await,
            Err(refused) => Err(refused),
        };
        match caller {
            Ok(caller) => {
                parts.extensions.insert(caller);
                Ok((parts, body))
            }
            Err(refused) => {
                // Whoever is not let in has no place for long, and none for a next request.
                self.discard(&parts.headers, body, STRANGER).await;
                Err(closing(refused).into_response())
            }
        }
    }

    /// Refuses what pages of other origins ask for.
    fn fetch(&self, head: &Parts) -> Result<(), Problem> {
        if self.takes_cookies {
            cookie::check_fetch(head)
        } else {
            Ok(())
        }
    }

    /// Finds out who asks: the holder of the token that is sent, else of the certificate that was shown. A cookie stands
    /// over the certificate if its token is good: a browser sends an old one, too.
    async fn caller(&self, head: &Parts) -> Result<Caller, Problem> {
        let mut sent = head.headers.get_all(AUTHORIZATION).iter();
        let certificate = head.extensions.get::<ClientCertificate>();
        let cookie = { self.takes_cookies }.then(|| cookie::token(&head.headers));
        let secret = match (sent.next(), sent.next(), cookie.flatten(), certificate) {
            (None, _, Some(secret), certificate) => {
                cookie::check_page(head)?;
                let shown = self.tokens.borrow().find(secret, self.clock.now());
                match (shown, certificate) {
                    (Shown::Expired | Shown::Unknown, Some(certificate)) => {
                        return self.holder(certificate);
                    }
                    (Shown::Known(_) | Shown::Expired | Shown::Unknown, _) => Some(secret),
                }
            }
            (None, _, None, Some(certificate)) => return self.holder(certificate),
            (None, _, None, None) if self.needs_token && !planted("H17") => {
                return Err(unauthorized("send a token", false));
            }
            (None, _, None, None) => return Ok(Caller::loopback()),
            (Some(one), None, ..) => bearer(one),
            (Some(_), Some(_), ..) => None,
        };
        let Some(secret) = secret else {
            let detail = "Authorization must be `Bearer` and a token";
            return Err(unauthorized(detail, true));
        };
        let shown = self.tokens.borrow().find(secret, self.clock.now());
        match shown {
            Shown::Known(caller) => Ok(caller),
            Shown::Expired => Err(unauthorized("the token has expired", true)),
            Shown::Unknown => {
                let Some(wait) = self.pace.wait(self.clock.monotonic()) else {
                    let detail = "too many wrong tokens at once";
                    let problem = Problem::new(
                        StatusCode::TOO_MANY_REQUESTS,
                        Code::Throttled.as_str(),
                        detail,
                    );
                    return Err(problem.with_header(RETRY_AFTER, HeaderValue::from_static("2")));
                };
                sleep(wait).await;
                Err(unauthorized("the token is not known", true))
            }
        }
    }

    /// Finds out whose certificate it is.
    fn holder(&self, certificate: &ClientCertificate) -> Result<Caller, Problem> {
        let subject = certificate.subject();
        let shown = self.tokens.borrow().find_subject(subject, self.clock.now());
        match shown {
            Shown::Known(caller) => Ok(caller),
            Shown::Expired => Err(unauthorized(
                "the token of this certificate has expired",
                true,
            )),
            Shown::Unknown if planted("H20") => Ok(Caller::loopback()),
            Shown::Unknown => {
                let detail = format!("there is no token for a certificate of {subject}");
                Err(unauthorized(&detail, true))
            }
        }
    }

    /// Reads a whole body, and takes a place once more than a small one has arrived: many large ones at once would need
    /// much memory.
    async fn body(&self, body: Body) -> Result<(Bytes, Option<LargeBody>), Problem> {
        let mut body = Limited::new(body, self.max_body_bytes);
        let deadline = Instant::now() + BODY;
        let (mut read, mut place) = (Vec::new(), None);
        loop {
            let frame = match timeout_at(deadline, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) if error.is::<LengthLimitError>() => {
                    return Err(self.too_large());
                }
                Ok(Some(Err(_))) => {
                    return Err(Problem::new(
                        StatusCode::BAD_REQUEST,
                        Code::InvalidInput.as_str(),
                        "the body broke off",
                    ));
                }
                Ok(None) => return Ok((read.into(), place)),
                Err(_) => {
                    let detail = format!("the body took longer than {} s", BODY.as_secs());
                    let problem =
                        Problem::new(StatusCode::REQUEST_TIMEOUT, Code::Timeout.as_str(), detail);
                    return Err(closing(problem.with("certainty", "not_applied")));
                }
            };
            if let Ok(data) = frame.into_data() {
                read.extend_from_slice(&data);
            }
            if place.is_none() && read.len() > SMALL_BYTES {
                let Some(taken) = self.place().await else {
                    drain(body, DISCARD).await;
                    return Err(no_place());
                };
                place = Some(taken);
            }
        }
    }

    /// Waits for a place among the large bodies; nothing if there is none in time.
    async fn place(&self) -> Option<LargeBody> {
        let place = Arc::clone(&self.large).acquire_owned();
        let place = timeout(PLACE, place).await.ok()?.ok()?;
        Some(LargeBody {
            _place: Arc::new(place),
        })
    }

    fn too_large(&self) -> Problem {
        let detail = format!(
            "a body has at most {} bytes here (`max_body`)",
            self.max_body_bytes
        );
        closing(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Code::BodyTooLarge.as_str(),
            detail,
        ))
    }

    /// Takes what is left of the body of a request that is refused. A client that sends before it listens would find
    /// the connection closed otherwise, and no answer.
    async fn discard(&self, headers: &HeaderMap, body: Body, longest: Duration) {
        if headers.contains_key(EXPECT) {
            return;
        }
        let most = self.max_body_bytes.saturating_mul(DISCARDED_TIMES);
        drain(Limited::new(body, most), longest).await;
    }
}

/// Takes what is left of a body, up to its limit.
async fn drain(mut body: Limited<Body>, longest: Duration) {
    let discard = async { while let Some(Ok(_)) = body.frame().await {} };
    // A client that sends more or takes longer has to live without the answer.
    let _ = timeout(longest, discard).await;
}

/// Tells whether a listener at this address lets in nobody without a token.
pub fn needs_token(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

async fn admit(State(rules): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = match rules.let_in(request).await {
        Ok(admitted) => admitted,
        Err(refused) => return refused,
    };
    if body.size_hint().lower() > u64::try_from(rules.max_body_bytes).unwrap_or(u64::MAX) {
        rules.discard(&parts.headers, body, DISCARD).await;
        return rules.too_large().into_response();
    }
    match rules.body(body).await {
        Ok((body, place)) => {
            if let Some(place) = place {
                parts.extensions.insert(place);
            }
            next.run(Request::from_parts(parts, Body::from(body))).await
        }
        Err(refused) => refused.into_response(),
    }
}

async fn admit_unread(State(rules): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match rules.let_in(request).await {
        Ok((parts, body)) => next.run(Request::from_parts(parts, body)).await,
        Err(refused) => refused,
    }
}

/// The token of a header.
fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn unauthorized(detail: &str, is_wrong: bool) -> Problem {
    let challenge = if is_wrong {
        "Bearer realm=\"semel\", error=\"invalid_token\""
    } else {
        "Bearer realm=\"semel\""
    };
    Problem::new(
        StatusCode::UNAUTHORIZED,
        Code::Unauthorized.as_str(),
        detail,
    )
    .with_header(WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
}

/// Refuses a large body for which no place became free.
fn no_place() -> Problem {
    let detail = "too many large bodies are in hand";
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let problem = Problem::new(status, Code::Throttled.as_str(), detail)
        .with("certainty", "not_applied")
        .with_header(RETRY_AFTER, HeaderValue::from_static("1"));
    closing(problem)
}

/// The same problem, after which the connection ends.
fn closing(problem: Problem) -> Problem {
    problem.with_header(CONNECTION, HeaderValue::from_static("close"))
}

/// The time for a whole body.
const BODY: Duration = Duration::from_secs(30);
/// The time for the rest of the body of a refused request.
const DISCARD: Duration = Duration::from_secs(5);
/// The same where nobody knows who sends it.
const STRANGER: Duration = Duration::from_secs(1);
/// So many times the largest body are discarded.
const DISCARDED_TIMES: usize = 4;
/// The largest body that needs no place.
const SMALL_BYTES: usize = 64 << 10;
/// The longest wait of a large body for a place.
const PLACE: Duration = Duration::from_secs(5);
/// The number of larger bodies that are in hand at once.
const MOST_LARGE: usize = 16;

#[cfg(test)]
mod tests;
