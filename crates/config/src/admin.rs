//! `[admin]`: the address where a worker says how it is.

use std::net::SocketAddr;
use std::time::Duration;

use super::fields::Fields;

/// The listener that answers over HTTP how a worker is.
#[derive(Clone, Copy, Debug)]
pub struct AdminSettings {
    /// Its address; nobody can ask without it.
    pub listen: Option<SocketAddr>,
    /// The time that a store, a source or a target may give no answer before the worker is not ready.
    pub ready_after: Duration,
}

impl AdminSettings {
    const DEFAULT: Self = Self {
        listen: None,
        ready_after: Duration::from_secs(30),
    };
}

/// Reads it.
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
        ready_after,
    }
}

/// Each of them is asked three times within.
const SHORTEST: Duration = Duration::from_secs(1);
