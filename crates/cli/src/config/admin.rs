//! `[admin]`: where a worker says how it is.

use std::net::SocketAddr;

use super::fields::Fields;

/// What is said to whoever asks over HTTP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AdminSettings {
    /// Where; nobody can ask without it.
    pub(crate) listen: Option<SocketAddr>,
}

/// Reads it.
pub(super) fn read(fields: &mut Fields<'_>) -> AdminSettings {
    let Some(mut table) = fields.optional_sub("admin") else {
        return AdminSettings::default();
    };
    let listen = table.parsed_with("listen", |text| {
        text.parse().map_err(|_| {
            "must be an address and a port, as in `127.0.0.1:9464`; `0.0.0.0:9464` for all addresses"
                .to_owned()
        })
    });
    table.finish();
    AdminSettings { listen }
}
