//! The admin API and the console of a worker, at the listener of its status.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use semel_admin::{Lent, Orders};
use semel_config::Settings;
use semel_core::{Clock, Entropy};
use semel_http::Access;
use semel_operate::keys::names_of_routes;
use tokio::sync::watch;

use crate::status::Status;
use crate::tokens::Known;

/// Makes the admin API of a listener at `address`, and the console before it, which reads the store once there is one in `store`.
pub(crate) fn router(
    address: SocketAddr,
    settings: &Settings,
    status: &Arc<Status>,
    (tokens, clock, entropy): (Known, &Arc<dyn Clock>, &Arc<dyn Entropy>),
    (store, orders): (watch::Receiver<Option<Lent>>, Arc<Orders>),
) -> Router {
    let of_api = semel_admin::Settings {
        store,
        url: settings.store.to_string(),
        accepted: settings.accepted.names(),
        pipelines: settings.pipelines.clone(),
        serves_clients: settings.serves_claims() || settings.gateway.is_some(),
        routes: names_of_routes(settings),
        config: settings.effective.json(false),
        console: settings.console.clone(),
        worker: Arc::clone(status) as _,
        clock: Arc::clone(clock),
        entropy: Arc::clone(entropy),
    };
    let router = semel_admin::router(of_api, orders);
    let hosts = &settings.admin.hosts;
    let clock = Arc::clone(clock);
    let access = Access::new(address, hosts, tokens, semel_admin::MOST_BODY_BYTES, clock);
    semel_console::front(access.with_cookies().protect(semel_console::router(router)))
}
