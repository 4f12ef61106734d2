//! HTTP as every listener of Semel serves it: [`Problem`] is the answer when something went wrong, and [`Caller`]
//! the one who asks, which the listener puts into the extensions of a request.
//!
//! A router of an API knows these two, and nothing of sockets or tokens:
//!
//! ```
//! use axum::Extension;
//! use axum::http::StatusCode;
//! use semel_http::{Caller, Problem, Role};
//!
//! async fn pause(Extension(caller): Extension<Caller>) -> Result<&'static str, Problem> {
//!     caller.may(Role::Operator)?;
//!     let tenant = caller.for_tenant(Some("acme"))?;
//!     if tenant.is_none() {
//!         return Err(Problem::new(StatusCode::BAD_REQUEST, "tenant-missing", "name a tenant"));
//!     }
//!     Ok("paused")
//! }
//! # let router: axum::Router = axum::Router::new().route("/v1/pause", axum::routing::post(pause));
//! ```

//! A program that serves such a router binds a [`Listener`], puts [`Access`] before the routes, which checks the name
//! that the listener is called by, the token and the body, and keeps the [`tokens`] in a file. A router that takes JSON
//! reads it with [`body`] and [`member`].

mod access;
pub mod body;
mod caller;
mod certificate;
mod held_body;
mod limits;
mod listener;
pub mod member;
mod port_owner;
mod problem;
mod protocols;
mod sockets;
pub mod tokens;

pub use access::{Access, Hosts, LargeBody, TOKEN_COOKIE, is_from_own_page, needs_token};
pub use caller::{Caller, Role, Tenant};
pub use certificate::ClientCertificate;
pub use held_body::held_until_gone;
pub use limits::Limits;
pub use listener::{Listener, Reserved};
pub use problem::Problem;
#[cfg(feature = "protocols")]
pub use protocols::Protocols;
pub use protocols::{Leave, Peer};
pub use sockets::Sockets;
