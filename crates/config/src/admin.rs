//! `[admin]`: the address at which a worker reports its status.

use std::net::SocketAddr;
use std::time::Duration;

use super::fields::Fields;
use super::listener::{Certificate, host, tls};

/// The listener that reports the status of a worker over HTTP.
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// Its address; without one, the worker cannot be asked.
    pub listen: Option<SocketAddr>,
    /// Its certificate; without one, clients are answered in the clear.
    pub tls: Option<Certificate>,
    /// True if it serves the admin API beside its status.
    pub api: bool,
    /// The names by which clients call the admin API, beside those of a loopback address.
    pub hosts: Vec<Box<str>>,
    /// The time for which a store, a source or a target may give no answer before the worker is not ready.
    pub ready_after: Duration,
}

impl AdminSettings {
    const DEFAULT: Self = Self {
        listen: None,
        tls: None,
        api: true,
        hosts: Vec::new(),
        ready_after: Duration::from_secs(30),
    };
}

/// Reads `[admin]`.
pub(super) fn read(fields: &mut Fields<'_>) -> AdminSettings {
    let Some(mut table) = fields.optional_sub("admin") else {
        return AdminSettings::DEFAULT;
    };
    let listen = table.parsed_with("listen", |text| {
        text.parse().map_err(|_| {
            "must be an address and a port, as in `127.0.0.1:9464`; `0.0.0.0:9464` for all addresses"
                .to_owned()
        })
    });
    // A fault of it is reported.
    let tls = tls(&mut table).flatten();
    let api = table.boolean_or("api", AdminSettings::DEFAULT.api);
    let hosts = table.words("hosts", host);
    let default = AdminSettings::DEFAULT.ready_after;
    let ready_after = table.duration_or("ready_after", default);
    if let Some(node) = table.node("ready_after")
        && ready_after < SHORTEST
    {
        table.fault("ready_after", node, "must be a second at least");
    }
    table.finish();
    AdminSettings {
        listen,
        tls,
        api,
        hosts,
        ready_after,
    }
}

/// The shortest time; each dependency is asked three times within it.
const SHORTEST: Duration = Duration::from_secs(1);
