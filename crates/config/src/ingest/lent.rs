//! A source at the listener of the gateway or of the admin API: which of them lends it, and which paths it has to lend.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use semel_broker_webhook::Entrance;

use crate::admin::AdminSettings;
use crate::fields::Fields;
use crate::gateway::{self, GatewaySettings};
use crate::pipeline::PipelineSettings;
use crate::source::SourceSettings;

use super::IngestSettings;

/// The listeners that lend paths.
#[derive(Clone, Copy)]
pub(crate) struct Lenders<'s> {
    /// The gateway; none if it could not be read.
    pub(crate) gateway: Option<&'s GatewaySettings>,
    pub(crate) admin: &'s AdminSettings,
}

/// Reads `listen`. The address of a listener that is lent is known once that is read, too.
pub(super) fn entrance(source: &mut Fields<'_>) -> Option<Entrance> {
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
            if !gateway::is_exact(path) {
                let message = "can be read as another path by what is behind a gateway; write it without `*`, `//`, `..`, \
                               `;` and `%`";
                refuse(source, "path", message);
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

/// Tells each source the address and the certificate of the listener that is lent to it, and checks that it is there, lets
/// in nobody whom it does not know, and has the path to lend.
pub(crate) fn enter(fields: &Fields<'_>, lenders: Lenders<'_>, pipelines: &mut [PipelineSettings]) {
    for pipeline in pipelines {
        let name = &pipeline.pipeline.name;
        let SourceSettings::Ingest(source) = &mut pipeline.source else {
            continue;
        };
        let fault = |setting: &str, message: String| {
            fields.fault_at(&["pipelines", name, "source", setting], message);
        };
        match source.entrance {
            Entrance::Own(_) => {}
            Entrance::Gateway(_) => {
                let is_faulty = lenders.gateway.is_none() && gateway::is_served(fields);
                if let Some(gateway) = lenders.gateway {
                    at_gateway(source, gateway, &fault);
                } else if !is_faulty {
                    fault("listen", absent("gateway"));
                }
            }
            Entrance::Admin(_) => at_admin(source, lenders.admin, &fault),
        }
    }
}

fn at_gateway(
    source: &mut IngestSettings,
    gateway: &GatewaySettings,
    fault: &impl Fn(&str, String),
) {
    source.entrance = Entrance::Gateway(gateway.listen);
    source.tls.clone_from(&gateway.tls);
    let certificate = gateway.tls.as_ref();
    let asks_clients = certificate.is_some_and(|it| it.client_ca.is_some());
    let is_open = source.tokens.is_empty() && source.token_file.is_none() && !asks_clients;
    if is_open && !gateway.listen.ip().to_canonical().is_loopback() {
        let message = "other machines reach the gateway, and whoever does may send: set `token_file`, or have it ask for \
                       certificates (`gateway.tls.client_ca`)";
        fault("listen", message.to_owned());
    }
    if let Some(taken) = gateway.taken(&source.path) {
        let message = format!(
            "is a path that {taken} has; write one that no client of the API asks for, as in `/ingest/orders`"
        );
        fault("path", message);
    }
}

fn at_admin(source: &mut IngestSettings, admin: &AdminSettings, fault: &impl Fn(&str, String)) {
    let Some(listen) = admin.listen else {
        fault("listen", absent("admin"));
        return;
    };
    source.entrance = Entrance::Admin(listen);
    source.tls.clone_from(&admin.tls);
    if !admin.api {
        let message = "is the listener of the admin API, which `admin.api = false` leaves out; remove that, or write an \
                       address of its own";
        fault("listen", message.to_owned());
    }
}

fn absent(lender: &str) -> String {
    format!("there is no such listener: set `{lender}.listen`, or write an address of its own here")
}

/// The address of a listener that is not read yet.
const UNKNOWN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
/// The paths that the admin API and the console leave to sources.
const BELOW: &str = "/v1/ingest/";
