//! `[admin]`: the address at which a worker reports its status.

use std::net::SocketAddr;
use std::time::Duration;

use super::fields::Fields;

/// The listener that reports the status of a worker over HTTP.
#[derive(Clone, Copy, Debug)]
pub struct AdminSettings {
    /// Its address; without one, the worker cannot be asked.
    pub listen: Option<SocketAddr>,
    /// The time for which a store, a source or a target may give no answer before the worker is not ready.
    pub ready_after: Duration,
}

impl AdminSettings {
    const DEFAULT: Self = Self {
        listen: None,
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

/// The shortest time; each dependency is asked three times within it.
const SHORTEST: Duration = Duration::from_secs(1);
