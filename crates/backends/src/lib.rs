//! The backends that are built into a program, opened by their settings: stores, sources and sinks.
//!
//! This is the only crate of the binary that knows every driver, with a feature for each of them: `postgres`, `mysql`
//! and `redis` for stores, `kafka`, `nats` and `amqp` for brokers. What needs no server is always there. A program
//! passes [`BACKENDS`] to the configuration, so that the url of a store that is not built in is refused where it is
//! written, and opens what the settings name: [`store`], [`source`], [`sink`], [`streamed`] with its [`changelog`],
//! and with [`layered`] the layers of a pipeline before its store. A broker that is not built in is refused when it is
//! opened.
//!
//! The lists of drivers are data: [`broker::BROKERS`] and [`store::server::DRIVERS`] have an entry for each, with what it
//! can do.
//! ARCHITECTURE.md names what else belongs to a new one.
//!
//! The crate reads no configuration, prints nothing, and decides nothing about messages.

pub mod broker;
pub mod changelog;
pub mod ingest;
pub mod layered;
pub mod outbox;
pub mod producers;
pub mod sink;
pub mod source;
pub mod store;
pub mod streamed;
pub mod webhook;

use semel_config::{Backends, Servers};

/// The stores and brokers that are built in, in the form in which the configuration asks for them.
pub const BACKENDS: Backends = Backends {
    servers: Servers {
        is_built_in: store::is_built_in,
        check: store::check_url,
    },
    target: sink::target,
};

/// Tells whether a broker is built in, by its name in settings: `kafka`, `nats` or `amqp`.
#[must_use]
pub fn is_broker_built_in(name: &str) -> bool {
    broker::Broker::find(name).is_some()
}

#[cfg(test)]
mod tests {
    use semel_config::ServerKind;

    use super::store::server::DRIVERS;
    use super::*;

    #[test]
    fn what_is_built_in_is_what_the_features_say() {
        for (name, is_in) in [
            ("amqp", cfg!(feature = "amqp")),
            ("kafka", cfg!(feature = "kafka")),
            ("nats", cfg!(feature = "nats")),
        ] {
            let found = broker::BROKERS.iter().filter(|it| it.name == name);
            assert_eq!(found.count(), usize::from(is_in), "{name}");
            assert_eq!(is_broker_built_in(name), is_in, "{name}");
        }
        for (kind, is_in) in [
            (ServerKind::Mysql, cfg!(feature = "mysql")),
            (ServerKind::Postgres, cfg!(feature = "postgres")),
            (ServerKind::Redis, cfg!(feature = "redis")),
        ] {
            let found = DRIVERS.iter().filter(|it| it.kind == kind);
            assert_eq!(found.count(), usize::from(is_in), "{kind:?}");
            assert_eq!((BACKENDS.servers.is_built_in)(kind), is_in, "{kind:?}");
        }
    }
}
