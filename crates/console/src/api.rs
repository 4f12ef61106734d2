//! The admin API in this process, asked as the caller of a page.

use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt;
use semel_http::{Caller, Leave};
use serde_json::Value;
use tower::ServiceExt;

use crate::text::address;

/// The admin API.
#[derive(Clone)]
pub(crate) struct Api(Router);

/// An answer that is no report.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// The problem, or null.
    pub(crate) problem: Value,
}

impl Refusal {
    /// The problem in words, with the member that it is about.
    pub(crate) fn detail(&self) -> String {
        let detail = self.problem["detail"].as_str();
        let detail = detail.unwrap_or("the worker gave no answer that can be read");
        let pointer = self.problem["pointer"].as_str().unwrap_or_default();
        match pointer.trim_start_matches('/').replace('_', " ") {
            member if member.is_empty() => detail.to_owned(),
            member => format!("{member}: {detail}"),
        }
    }
}

/// A report, or the reason why there is none.
pub(crate) type Told = Result<Value, Refusal>;

impl Api {
    pub(crate) const fn new(router: Router) -> Self {
        Self(router)
    }

    pub(crate) fn into_inner(self) -> Router {
        self.0
    }

    /// Asks for a report; members of the query that are empty are left out.
    pub(crate) async fn get(&self, caller: &Caller, path: &str, query: &[(&str, &str)]) -> Told {
        self.get_at(caller, &address(path, query)).await
    }

    /// Asks for the report at an address.
    pub(crate) async fn get_at(&self, caller: &Caller, address: &str) -> Told {
        self.ask(caller, Method::GET, address, Body::empty()).await
    }

    /// Sends an order, or asks for its plan.
    pub(crate) async fn post(&self, caller: &Caller, path: &str, body: &Value) -> Told {
        let body = Body::from(body.to_string());
        self.ask(caller, Method::POST, path, body).await
    }

    /// Sends an order whose answer is no report, and returns that as it is, to be read as it comes. The leave of the
    /// connection goes with it.
    pub(crate) async fn answer(
        &self,
        caller: &Caller,
        path: &str,
        (body, leave): (&Value, Option<Leave>),
    ) -> Result<Response, Refusal> {
        let body = Body::from(body.to_string());
        let mut request = request(caller, Method::POST, path, body)?;
        if let Some(leave) = leave {
            request.extensions_mut().insert(leave);
        }
        let Ok(answer) = self.0.clone().oneshot(request).await;
        if answer.status().is_success() {
            return Ok(answer);
        }
        Err(refusal(answer).await)
    }

    async fn ask(&self, caller: &Caller, method: Method, target: &str, body: Body) -> Told {
        let request = request(caller, method, target, body)?;
        let Ok(answer) = self.0.clone().oneshot(request).await;
        told(answer).await
    }
}

/// Makes a request of a caller.
fn request(
    caller: &Caller,
    method: Method,
    target: &str,
    body: Body,
) -> Result<Request<Body>, Refusal> {
    let request = Request::builder().method(method).uri(target);
    let request = request.header(CONTENT_TYPE, "application/json").body(body);
    let Ok(mut request) = request else {
        // A target that is too long for one.
        let status = StatusCode::URI_TOO_LONG;
        let problem = serde_json::json!({ "detail": "this is too long to be asked for" });
        return Err(Refusal { status, problem });
    };
    request.extensions_mut().insert(caller.clone());
    Ok(request)
}

/// Reads an answer to its end.
async fn told(answer: Response) -> Told {
    let status = answer.status();
    if !status.is_success() {
        return Err(refusal(answer).await);
    }
    json(answer).await.ok_or(Refusal {
        status: StatusCode::BAD_GATEWAY,
        problem: Value::Null,
    })
}

/// Reads the answer to a request that was refused.
async fn refusal(answer: Response) -> Refusal {
    let status = answer.status();
    let problem = json(answer).await.unwrap_or_default();
    Refusal { status, problem }
}

/// Reads JSON, if that is what there is.
async fn json(answer: Response) -> Option<Value> {
    let body = answer.into_body().collect().await.ok()?;
    serde_json::from_slice(&body.to_bytes()).ok()
}
