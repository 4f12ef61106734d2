//! The console: what the admin API tells and does, as pages for a browser.
//!
//! [`router`] puts the pages before the router of the admin API, and [`front`] what needs no token before both: the page
//! to log in at, the style and the script. Every page asks the admin API in this process, as the caller that asks for the
//! page: what a caller may see and do is decided there alone, and so is every plan. Pages work without the script, which
//! keeps numbers and plots live.
//!
//! Not for sockets, tokens or stores. Nothing comes from another origin, and no page may be framed.
//!
//! ```
//! use axum::Router;
//!
//! # fn api() -> Router { Router::new() }
//! let pages = semel_console::router(api());
//! // The listener puts its rules before the pages here: `Access::new(…).with_cookies().protect(pages)`.
//! let service = semel_console::front(pages);
//! # let _: Router = service;
//! ```

mod api;
mod assets;
mod form;
mod front;
mod layout;
mod pages;
mod plot;
mod text;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tower::ServiceExt;

pub use front::front;

use crate::api::Api;
use crate::layout::Place;

/// Returns the pages, and behind them the admin API below `/v1/`.
///
/// The listener puts a [`Caller`](semel_http::Caller) into the extensions of each request; one without is refused.
pub fn router(api: Router) -> Router {
    Router::new()
        .route("/", get(pages::overview::show))
        .route("/key", get(pages::key::show))
        .route("/in-doubt", get(pages::doubts::show))
        .route("/dead-letters", get(pages::set_aside::dead_letters))
        .route("/dead-letters/message", get(pages::message::dead_letter))
        .route("/quarantine", get(pages::set_aside::quarantine))
        .route("/quarantine/message", get(pages::message::quarantined))
        .route("/runs", get(pages::runs::list))
        .route("/runs/{id}", get(pages::runs::show))
        .route("/runs/{id}/stop", post(pages::runs::stop))
        .route("/producers", get(pages::producers::show))
        .route("/window", get(pages::window::show))
        .route("/store", get(pages::store::show))
        .route("/store/export", post(pages::store::export))
        .route("/audit", get(pages::audit::show))
        .route("/orders/plan/{*action}", post(pages::orders::plan))
        .route("/orders/do/{*action}", post(pages::orders::carry_out))
        .fallback(elsewhere)
        .method_not_allowed_fallback(wrong_method)
        .with_state(Api::new(api))
}

/// Answers what is no page.
async fn elsewhere(State(api): State<Api>, request: Request) -> Response {
    if request.uri().path().starts_with("/v1/") {
        let Ok(answer) = api.into_inner().oneshot(request).await;
        return answer;
    }
    let caller = match semel_http::body::caller(&request.into_parts().0, semel_http::Role::Viewer) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let detail = "There is no such page.";
    layout::refusal(&caller, Place::Elsewhere, StatusCode::NOT_FOUND, detail)
}

async fn wrong_method() -> Response {
    let detail = "This page is asked for in another way.\n";
    (StatusCode::METHOD_NOT_ALLOWED, detail).into_response()
}
