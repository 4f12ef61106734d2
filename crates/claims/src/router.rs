//! The paths of the API.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use semel_core::{Code, Store};
use semel_http::body::{caller, read};
use semel_http::member::INVALID;
use semel_http::{Problem, Role};

use crate::answer::{Answers, Decision, Json, Stepped, json_response};
use crate::openapi::OPENAPI;
use crate::operations::Found;
use crate::service::Service;
use crate::settings::Settings;
use crate::settlements::Verb;

/// Returns the claim API over `store`: every path of `/v1/openapi.json`.
///
/// The listener puts a [`Caller`](semel_http::Caller) into the extensions of each request; one without is refused.
pub fn router<S: Store + Clone>(store: S, settings: Settings) -> Router {
    let service = Arc::new(Service::new(store, settings));
    let routes = routes::<S>().into_iter().chain(step_routes());
    routes
        .fold(Router::new(), |router, (path, methods)| {
            router.route(&path, methods)
        })
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .with_state(service)
}

type Routes<S> = Vec<(String, MethodRouter<Arc<Service<S>>>)>;

fn routes<S: Store + Clone>() -> Routes<S> {
    [
        (CLAIMS, post(claim::<S>)),
        (CLAIM_BATCH, post(claim_batch::<S>)),
        (SETTLE_BATCH, post(settle_batch::<S>)),
        ("/v1/operations", get(look_up::<S>)),
        ("/v1/openapi.json", get(openapi)),
    ]
    .map(|(path, methods)| (path.to_owned(), methods))
    .into()
}

fn step_routes<S: Store + Clone>() -> Routes<S> {
    let route = |(_, verb): (&str, Verb)| {
        let answer =
            move |State(service): State<Arc<Service<S>>>,
                  path: Result<Path<String>, PathRejection>,
                  request: Request| async move { step(&service, verb, path, request).await };
        (verb.path().to_owned(), post(answer))
    };
    Verb::ALL.into_iter().map(route).collect()
}

/// Returns the paths of the API.
#[cfg(test)]
pub(crate) fn paths<S: Store + Clone>() -> Vec<String> {
    let routes = routes::<S>().into_iter().chain(step_routes());
    routes.map(|(path, _)| path).collect()
}

async fn claim<S: Store + Clone>(
    State(service): State<Arc<Service<S>>>,
    request: Request,
) -> Result<Json<Decision>, Problem> {
    let trace = service.trace(CLAIMS, request.headers());
    let (caller, body) = read(request, Role::Operator, service.settings.max_body_bytes).await?;
    service.claim(&caller, trace.as_ref(), body).await.map(Json)
}

async fn claim_batch<S: Store + Clone>(
    State(service): State<Arc<Service<S>>>,
    request: Request,
) -> Result<Json<Answers<Decision>>, Problem> {
    let trace = service.trace(CLAIM_BATCH, request.headers());
    let (caller, body) = read(request, Role::Operator, service.settings.max_body_bytes).await?;
    service
        .claim_batch(&caller, trace.as_ref(), body)
        .await
        .map(Json)
}

async fn settle_batch<S: Store + Clone>(
    State(service): State<Arc<Service<S>>>,
    request: Request,
) -> Result<Json<Answers<Stepped>>, Problem> {
    let trace = service.trace(SETTLE_BATCH, request.headers());
    let (caller, body) = read(request, Role::Operator, service.settings.max_body_bytes).await?;
    service
        .settle_batch(&caller, trace.as_ref(), body)
        .await
        .map(Json)
}

async fn step<S: Store + Clone>(
    service: &Service<S>,
    verb: Verb,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<Stepped>, Problem> {
    let trace = service.trace(verb.path(), request.headers());
    let (caller, body) = read(request, Role::Operator, service.settings.max_body_bytes).await?;
    let Path(claim) = path.map_err(|_| {
        let detail = "the claim in the path is not UTF-8";
        Problem::new(StatusCode::BAD_REQUEST, INVALID, detail)
    })?;
    let named = (verb, &*claim);
    let stepped = service.step(&caller, trace.as_ref(), named, body);
    stepped.await.map(Json)
}

async fn look_up<S: Store + Clone>(
    State(service): State<Arc<Service<S>>>,
    request: Request,
) -> Result<Json<Found>, Problem> {
    let (parts, _) = request.into_parts();
    let caller = caller(&parts, Role::Viewer)?;
    let query = parts.uri.query().unwrap_or_default();
    service.look_up(&caller, query).await.map(Json)
}

async fn openapi() -> Response {
    json_response(OPENAPI.into())
}

async fn unknown_path() -> Problem {
    let detail = "there is nothing at this path; /v1/openapi.json describes those that there are";
    Problem::new(StatusCode::NOT_FOUND, Code::PathUnknown.as_str(), detail)
}

async fn unknown_method() -> Problem {
    let detail = "the path takes another method, which the header `allow` names";
    let status = StatusCode::METHOD_NOT_ALLOWED;
    Problem::new(status, Code::MethodNotAllowed.as_str(), detail)
}

const CLAIMS: &str = "/v1/claims";
const CLAIM_BATCH: &str = "/v1/claims/batch";
const SETTLE_BATCH: &str = "/v1/settle/batch";
