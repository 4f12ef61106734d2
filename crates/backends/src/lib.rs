//! The backends that are built into a program, opened by their settings: stores, sources and sinks.
//!
//! This is the only crate that knows every driver, and the only one with a feature for each of them: `postgres`,
//! `mysql` and `redis` for stores, `kafka`, `nats` and `amqp` for brokers. What needs no server is always there. A
//! program passes [`BACKENDS`] to the configuration, so that settings of a backend that is not built in are
//! refused where they are written, and opens what the settings name: [`store`], [`source`], [`sink`],
//! [`streamed`] with its [`changelog`], and with [`layered`] the layers of a pipeline before its store.
//!
//! The list of them is data: [`broker::BROKERS`] and [`store::server::DRIVERS`] have an entry for each driver, with
//! what it can do. A new driver is its crate, an entry there, and its settings in `semel-config`.
//!
//! The crate reads no configuration, prints nothing, and decides nothing about messages.

pub mod broker;
pub mod changelog;
pub mod layered;
pub mod sink;
pub mod source;
pub mod store;
pub mod streamed;

use semel_config::{Backends, Servers};

/// The stores and brokers that are built in, in the form in which the configuration asks for them.
pub const BACKENDS: Backends = Backends {
    servers: Servers {
        is_built_in: store::is_built_in,
        check: store::check_url,
    },
    target: sink::target,
};

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
