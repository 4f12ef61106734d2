//! The admin API and the console of a worker, at the listener of its status.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use semel_admin::{Lent, Orders, RelayPlace};
use semel_backends::{outbox, producers};
use semel_config::Settings;
use semel_core::{Clock, Entropy, Error, Result};
use semel_http::Access;
use semel_operate::keys::names_of_routes;
use tokio::sync::watch;
use tokio_rustls::rustls::ServerConfig;

use crate::gateway;
use crate::pause::RelayOrders;
use crate::self_check::SelfCheck;
use crate::status::Status;
use crate::tokens::Known;

/// Makes the admin API of a listener at `address`, and the console before it, which reads the store once there is one in
/// `store`. `written` are the settings as they are checked.
pub(crate) fn router(
    address: SocketAddr,
    (settings, written): (&Settings, &Settings),
    status: &Arc<Status>,
    (tokens, clock, entropy): (Known, &Arc<dyn Clock>, &Arc<dyn Entropy>),
    (store, orders, relays): (watch::Receiver<Option<Lent>>, Arc<Orders>, &RelayOrders),
) -> Router {
    let of_api = semel_admin::Settings {
        store,
        url: settings.store.to_string(),
        accepted: settings.accepted.names(),
        pipelines: settings.pipelines.clone(),
        relays: relay_places(settings, relays),
        // A store that keeps none says so where somebody asks.
        producers: producers::open_all(&settings.store).ok(),
        serves_clients: settings.serves_claims() || settings.gateway.is_some(),
        routes: names_of_routes(settings),
        config: settings.effective.json(false),
        console: settings.console.clone(),
        worker: Arc::clone(status) as _,
        checker: Some(Arc::new(SelfCheck::new(written, status, address, clock))),
        clock: Arc::clone(clock),
        entropy: Arc::clone(entropy),
    };
    let router = semel_admin::router(of_api, orders);
    let hosts = &settings.admin.hosts;
    let clock = Arc::clone(clock);
    let access = Access::new(address, hosts, tokens, semel_admin::MOST_BODY_BYTES, clock);
    semel_console::front(access.with_cookies().protect(semel_console::router(router)))
}

/// Reads the certificate of the listener, if it has one.
///
/// # Errors
///
/// `InvalidConfig`: a file is not there or of no use
pub(crate) fn encryption(settings: &Settings) -> Result<Option<ServerConfig>> {
    let encrypted = settings.admin.tls.as_ref().map(gateway::encryption);
    encrypted.transpose().map_err(|error| {
        let message = format!("admin: {error}");
        Error::new(error.kind(), message).with_code(error.code())
    })
}

/// Returns each relay, with its outbox and the place of the orders about it.
fn relay_places(settings: &Settings, orders: &RelayOrders) -> Vec<RelayPlace> {
    let mut elsewhere = orders.stores();
    let relays = settings.relays.iter();
    let places = relays.map(|it| RelayPlace {
        name: it.name.clone(),
        stream: it.stream.clone(),
        // A relay without one ends the run when it begins.
        outbox: outbox::open(&it.store).ok(),
        elsewhere: elsewhere.remove(&it.name),
    });
    places.collect()
}
