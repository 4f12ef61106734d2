//! The listener of a source: one of its own, or that of the gateway or of the admin API, and what goes with each.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use semel_broker_webhook::Entrance;

use crate::fields::Fields;

/// Reads `listen`. The address of a listener that is lent is known once that is read, too.
pub(super) fn read(source: &mut Fields<'_>) -> Option<Entrance> {
    if !source.is_written("listen") {
        source.missing("listen");
    }
    source.parsed_with("listen", |text| match text {
        "gateway" => Ok(Entrance::Gateway(UNKNOWN)),
        "admin" => Ok(Entrance::Admin(UNKNOWN)),
        _ => text.parse().map(Entrance::Own).map_err(|_| {
            "must be an address and a port, as in `127.0.0.1:8283`; `0.0.0.0:8283` for all addresses; or `gateway` or \
             `admin` for a path at their listeners"
                .to_owned()
        }),
    })
}

/// Checks what the listener decides in the place of the source, and the form of its path.
pub(super) fn check(source: &mut Fields<'_>, entrance: Entrance, path: &str) {
    let refuse = |source: &mut Fields<'_>, name, message: &str| {
        if let Some(node) = source.node(name) {
            source.fault(name, node, message);
        }
    };
    match entrance {
        Entrance::Own(_) => {}
        Entrance::Gateway(_) => {
            refuse_tls(source, "gateway");
            if !source.is_written("token_file") {
                let message = "the gateway lets in clients of the API, each of whom could send for any tenant and fence any \
                               producer: set `token_file`, also at a loopback address and where certificates are shown";
                source.fault_at(&["listen"], message);
            }
        }
        Entrance::Admin(_) => {
            refuse_tls(source, "admin");
            let message = "is not for the admin's listener, whose own tokens say who may send: `semel token create NAME \
                           --role operator`";
            refuse(source, "token_file", message);
            let message = "is for sources with a listener of their own; set `admin.hosts`";
            refuse(source, "hosts", message);
            if path.strip_prefix(BELOW).is_none_or(str::is_empty) {
                let message = format!(
                    "must begin with `{BELOW}` at the admin's listener: its other paths are those of the admin API and the \
                     console, as in `{BELOW}orders`"
                );
                refuse(source, "path", &message);
            }
        }
    }
}

fn refuse_tls(source: &Fields<'_>, lender: &str) {
    if source.is_written("tls") {
        let message = format!("is that of the listener: set `{lender}.tls`");
        source.fault_at(&["tls"], message);
    }
}

/// The address of a listener that is not read yet.
const UNKNOWN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
/// The paths that the admin API and the console leave to sources.
const BELOW: &str = "/v1/ingest/";
