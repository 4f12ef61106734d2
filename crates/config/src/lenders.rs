//! The listeners of the gateway and of the admin API, which sources of kind `ingest` may have a path at: what each has to
//! lend.

use semel_broker_webhook::Entrance;

use super::admin::AdminSettings;
use super::fields::Fields;
use super::gateway::{self, GatewaySettings};
use super::ingest::IngestSettings;

/// The listeners that lend paths.
#[derive(Clone, Copy)]
pub(super) struct Lenders<'s> {
    /// The gateway; none if it could not be read.
    pub(super) gateway: Option<&'s GatewaySettings>,
    pub(super) admin: &'s AdminSettings,
}

/// Tells each source the address and the certificate of the listener that is lent to it, and checks that it is there and
/// has the path to lend.
pub(super) fn enter<'s>(
    fields: &Fields<'_>,
    lenders: Lenders<'_>,
    sources: impl Iterator<Item = (&'s str, &'s mut IngestSettings)>,
) {
    for (name, source) in sources {
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
    if !gateway::is_exact(&source.path) {
        let message = "can be read as another path by what is behind a gateway; write it without `*`, `//`, `..`, `;` and `%`";
        fault("path", message.to_owned());
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
    if !gateway::is_exact(&source.path) {
        let message = "can be read as another path of the admin API by what is before it; write it without `*`, `//`, `..`, \
                       `;` and `%`";
        fault("path", message.to_owned());
    }
}

fn absent(lender: &str) -> String {
    format!("there is no such listener: set `{lender}.listen`, or write an address of its own here")
}
