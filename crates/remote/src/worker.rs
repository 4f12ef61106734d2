//! A worker behind its admin API: requests, and their answers as reports.

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use semel_core::units::duration_text;
use semel_core::{Code, Error, ErrorKind, Result as CoreResult};
use semel_tls::Tls;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_rustls::rustls::ClientConfig;

use crate::address::Address;
use crate::connection::{Answer, Broken, MOST_BYTES, download, exchange};
use crate::effects::Effects;
use crate::problem::Problem;
use crate::report::{Read, of_format};

/// The way to a worker: what it is shown, and what it is trusted by.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The token; a loopback address needs none.
    pub token: Option<Token>,
    /// Authorities to trust, in PEM, instead of the system's.
    pub ca: Option<PathBuf>,
}

/// A token, which is never printed.
#[derive(Clone)]
pub struct Token(HeaderValue);

impl Token {
    /// Makes it of its text, without the white space around it.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: it is none
    pub fn new(text: &str) -> CoreResult<Self> {
        let text = text.trim();
        let is_token = !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic());
        let header = HeaderValue::try_from(format!("Bearer {text}")).ok();
        let mut header = header.filter(|_| is_token).ok_or_else(|| {
            let message = "the token is none: it is one word, as semel token create printed it";
            Error::new(ErrorKind::InvalidInput, message)
        })?;
        header.set_sensitive(true);
        Ok(Self(header))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A failure of a request.
#[derive(Debug)]
pub enum Failure {
    /// The worker refused it.
    Refused(Box<Problem>),
    /// There is no answer, or none that is understood.
    Failed(Error),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(problem) => problem.error(),
            Failure::Failed(error) => error,
        }
    }
}

/// A page of a list.
#[derive(Debug)]
pub struct Page<E> {
    /// Its entries.
    pub items: Vec<E>,
    /// The cursor of the next page; none on the last one.
    pub next: Option<String>,
    /// A member of an entry that this version does not know.
    pub unknown: Option<String>,
}

/// A page as it is sent.
#[derive(Deserialize)]
struct SentPage {
    items: Vec<Value>,
    next: Option<String>,
}

/// A worker behind its admin API.
#[derive(Debug)]
pub struct Worker {
    address: Address,
    token: Option<Token>,
    tls: Option<Arc<ClientConfig>>,
}

/// Members of a query.
type Members<'a> = &'a [(&'a str, &'a str)];

impl Worker {
    /// A worker at an address; connects to nothing yet.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: the address is none, or the authorities cannot be read
    pub fn new(address: &str, access: Access) -> CoreResult<Self> {
        let address = Address::parse(address)?;
        let tls = Tls {
            ca: access.ca,
            ..Tls::default()
        };
        let tls = if address.is_tls() {
            let config = tls.config().map_err(|error| {
                let message = error.to_string().replace("`tls.ca`", "--ca");
                Error::new(ErrorKind::InvalidInput, message)
            })?;
            Some(Arc::new(config))
        } else if tls.ca.is_some() {
            let message = "--ca is for an address that begins with https://";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        } else {
            None
        };
        Ok(Self {
            address,
            token: access.token,
            tls,
        })
    }

    /// The address.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Asks for a report.
    ///
    /// # Errors
    ///
    /// Those of the worker, and of the way to it
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn get<R>(&self, path: &str, members: Members<'_>) -> Result<Read<R>, Failure>
    where
        R: DeserializeOwned + Serialize,
    {
        let text = self.text(path, members).await?;
        Read::of(&self.json(&text, Effects::None)?).map_err(|why| self.incompatible(path, &why))
    }

    /// Asks for the text of a report.
    ///
    /// # Errors
    ///
    /// Those of the worker, and of the way to it
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn text(&self, path: &str, members: Members<'_>) -> Result<Bytes, Failure> {
        let target = target(path, members);
        let answer = self.send(Method::GET, &target, Bytes::new(), READING).await;
        // Whatever became of it, nothing was changed.
        Ok(self.checked(path, answer, Effects::None)?.body)
    }

    /// Asks for a page of a list.
    ///
    /// # Errors
    ///
    /// Those of the worker, and of the way to it
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn page<E>(
        &self,
        path: &str,
        members: Members<'_>,
        cursor: Option<&str>,
    ) -> Result<Page<E>, Failure>
    where
        E: DeserializeOwned + Serialize,
    {
        let cursor = cursor.map(|it| ("cursor", it));
        let members: Vec<_> = members.iter().copied().chain(cursor).collect();
        let text = self.text(path, &members).await?;
        let wrong = |why: String| self.incompatible(path, &why);
        let sent = self.json(&text, Effects::None)?;
        let sent: SentPage = of_format(sent, VERSION, "lists").map_err(wrong)?;
        let mut page = Page {
            items: Vec::with_capacity(sent.items.len()),
            next: sent.next,
            unknown: None,
        };
        for item in &sent.items {
            let Read { report, unknown } = Read::of(item).map_err(wrong)?;
            page.items.push(report);
            page.unknown = page.unknown.or(unknown);
        }
        Ok(page)
    }

    /// Sends a JSON object.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: &Value,
        within: Duration,
        effects: Effects,
    ) -> Result<Value, Failure> {
        let body = Bytes::from(body.to_string());
        let answer = self.send(Method::POST, path, body, within).await;
        let answer = self.checked(path, answer, effects)?;
        self.json(&answer.body, effects)
    }

    /// Asks for everything that its store holds, as `semel store export` writes it, and passes that to `visit` as it comes.
    /// The audit trail of the worker keeps the reason.
    ///
    /// # Errors
    ///
    /// Those of `visit`, of the worker, and of the way to it: what was passed by then is no whole export
    ///
    /// # Cancel safety
    ///
    /// Safe: the export breaks off
    pub async fn export(
        &self,
        reason: &str,
        mut visit: impl FnMut(&[u8]) -> CoreResult<()> + Send,
    ) -> Result<(), Failure> {
        let path = "/v1/store/export";
        let body = Bytes::from(json!({ "reason": reason }).to_string());
        let (mut failed, mut bytes) = (None, 0);
        let mut pass = |part: Bytes| {
            bytes += part.len();
            match visit(&part) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        let answer = match self.request(&Method::POST, path, body) {
            Ok(request) => {
                let tls = self.tls.as_ref();
                download(&self.address, tls, request, (PART, &mut pass)).await
            }
            Err(broken) => Err(broken),
        };
        if let Some(error) = failed {
            return Err(Failure::Failed(error));
        }
        let cause = match &answer {
            Err(Broken::Sent(cause)) => Some(cause.clone()),
            Err(Broken::Late) => Some(format!("nothing more came within {}", duration_text(PART))),
            Err(Broken::Unsent(_) | Broken::TooLarge) | Ok(_) => None,
        };
        if let Some(cause) = cause.filter(|_| bytes > 0) {
            let message = format!(
                "the worker at {} broke off after {bytes} bytes of the export, which is not whole: {cause}",
                self.address
            );
            let error = Error::new(ErrorKind::Unavailable, message).not_applied();
            return Err(Failure::Failed(error.with_code(Code::WorkerUnreachable)));
        }
        self.checked(path, answer, Effects::None).map(|_| ())
    }

    async fn send(
        &self,
        method: Method,
        target: &str,
        body: Bytes,
        within: Duration,
    ) -> Result<Answer, Broken> {
        let request = self.request(&method, target, body)?;
        exchange(&self.address, self.tls.as_ref(), request, within).await
    }

    fn request(
        &self,
        method: &Method,
        target: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Broken> {
        let unsent = |why: &str| Broken::Unsent(why.to_owned());
        let mut request = Request::builder()
            .method(method)
            .uri(self.address.path(target))
            .header(HOST, self.address.authority())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("semel/", env!("CARGO_PKG_VERSION")));
        if let Some(Token(token)) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        if *method == Method::POST {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(body));
        request.map_err(|_| unsent("the request cannot be written"))
    }

    /// Returns an answer of success; else the failure that it is.
    fn checked(
        &self,
        path: &str,
        answer: Result<Answer, Broken>,
        effects: Effects,
    ) -> Result<Answer, Failure> {
        let address = &self.address;
        let unreachable = |message: String, effects: Effects| {
            let error = effects.failure(ErrorKind::Unavailable, message);
            error.with_code(Code::WorkerUnreachable)
        };
        let answer = answer.map_err(|broken| {
            Failure::Failed(match broken {
                Broken::Unsent(cause) => {
                    let message = format!("cannot reach the worker at {address}: {cause}");
                    unreachable(message, Effects::None)
                }
                Broken::Sent(cause) => {
                    let message = format!(
                        "the worker at {address} broke off before it had answered: {cause}"
                    );
                    unreachable(message, effects)
                }
                Broken::Late => {
                    let message = format!("no answer from the worker at {address} in time");
                    effects.failure(ErrorKind::Timeout, message)
                }
                Broken::TooLarge => {
                    let mib = MOST_BYTES >> 20;
                    self.other(
                        &format!("{path} has an answer of more than {mib} MiB"),
                        effects,
                    )
                }
            })
        })?;
        let status = answer.status;
        if status.is_success() {
            return Ok(answer);
        }
        Err(match Problem::read(status, &answer.body) {
            Some(problem) if matches!(problem.code, Code::PathUnknown | Code::MethodNotAllowed) => {
                Failure::Failed(self.other(&format!("it does not know {path}"), Effects::None))
            }
            Some(problem) => Failure::Refused(Box::new(problem.after(effects))),
            None if status.is_redirection() => {
                let place = answer.headers.get(hyper::header::LOCATION);
                let place = place.and_then(|it| it.to_str().ok()).unwrap_or_default();
                let place = place.split(['?', '#']).next().unwrap_or_default();
                let message = format!("it sends elsewhere, which is not followed: {place}");
                // A form of a login, or another address: what did something sends to its result with 303.
                let effects = match status {
                    StatusCode::SEE_OTHER => effects,
                    _ => Effects::None,
                };
                Failure::Failed(self.other(&message, effects))
            }
            None if is_of_a_proxy(status) => {
                let message = format!(
                    "what stands before the worker at {address} does not reach it: HTTP {}",
                    status.as_u16()
                );
                Failure::Failed(unreachable(message, effects))
            }
            None => {
                let said = Problem::words(&answer.body);
                let said = said.map_or_else(String::new, |it| format!(": {it}"));
                let message = format!("{path} is answered with HTTP {}{said}", status.as_u16());
                Failure::Failed(self.other(&message, effects))
            }
        })
    }

    pub(crate) fn json(&self, text: &[u8], effects: Effects) -> Result<Value, Failure> {
        serde_json::from_slice(text).map_err(|why| {
            let message = format!("its answer is no JSON: {why}");
            Failure::Failed(self.other(&message, effects))
        })
    }

    /// The failure of an answer that this version does not understand, and that changed nothing.
    pub(crate) fn incompatible(&self, path: &str, why: &str) -> Failure {
        self.unread(path, why, Effects::None)
    }

    /// The failure of an answer that this version does not understand.
    pub(crate) fn unread(&self, path: &str, why: &str, effects: Effects) -> Failure {
        let message = format!("the answer of {path} is not that of this version: {why}");
        Failure::Failed(self.other(&message, effects))
    }

    /// The failure of an answer that the caller does not understand, and that changed nothing.
    pub fn strange(&self, path: &str, why: &str) -> Failure {
        self.incompatible(path, why)
    }

    fn other(&self, why: &str, effects: Effects) -> Error {
        let message = format!(
            "the worker at {} is of another version, or none: {why}",
            self.address
        );
        let error = effects.failure(ErrorKind::Unavailable, message);
        error.with_code(Code::WorkerIncompatible)
    }
}

/// Returns a path with its query.
fn target(path: &str, members: Members<'_>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let query = query.extend_pairs(members).finish();
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

/// Tells whether a status is that of something in front of a worker which does not reach it.
fn is_of_a_proxy(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    )
}

/// The version of the format of lists, plans, answers to orders and runs.
pub(crate) const VERSION: u64 = 1;
/// The time that an answer takes which changes nothing; a worker gives up a reading after seven seconds.
const READING: Duration = Duration::from_secs(30);
/// The time that a part of an export takes; a worker gives up on a store that gives none for a minute.
const PART: Duration = Duration::from_secs(75);
