//! A reverse proxy that gives any API idempotency keys: one more service under the layer of `semel-gateway`.
//!
//! A [`Proxy`] forwards what it is asked to one of its [`Upstream`]s. A request that one of its [`PathRoute`]s matches goes
//! through the layer of that route; every other one passes as it is. Not for the policy, which is the gateway's, nor for
//! settings files.
//!
//! ```
//! use std::sync::Arc;
//!
//! use semel_engine::{once::Once, system::SystemClock};
//! use semel_gateway::Route;
//! use semel_proxy::{PathRoute, Proxy, Settings, Upstream};
//! use semel_store_memory::MemoryStore;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let once = Once::new(Arc::new(MemoryStore::new(Arc::new(SystemClock::new()))));
//! let mut settings = Settings::new(vec![Upstream::new("http://127.0.0.1:9000".parse()?)]);
//! settings.routes.push(PathRoute {
//!     path: "/charges/*".parse()?,
//!     methods: Vec::new(),
//!     route: Route::default(),
//!     proof: None,
//! });
//! let proxy = Proxy::new(&once, settings)?;
//! assert_eq!(proxy.counts().in_flight, 0);
//! # Ok(())
//! # }
//! ```

mod availability;
mod connector;
mod forward;
mod framing;
mod headers;
mod idle_limit;
mod in_flight;
mod jwt;
mod path;
mod proxy;
mod settings;
mod tenant;
mod tunnels;
mod unsent_body;
mod upstreams;

pub use availability::{Availability, UpstreamState};
pub use jwt::JwtVerifier;
pub use path::{InvalidPath, PathPattern};
pub use proxy::{Proxy, ProxyCounts, RouteCounts};
pub use settings::{Health, OwnPaths, PathRoute, Settings, TenantProof, Upstream};
