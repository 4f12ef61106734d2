//! The backends that are built into a program, opened by their settings: stores, sources and sinks.
//!
//! This is the only crate that knows every driver, and the only one with a feature for each of them: `postgres`,
//! `mysql` and `redis` for stores, `kafka`, `nats` and `amqp` for brokers. What needs no server is always there. A
//! program passes [`BACKENDS`] to the configuration, so that settings of a backend that is not built in are
//! refused where they are written, and opens what the settings name: [`store`], [`source`], [`sink`],
//! [`streamed`], and with [`layered`] the layers of a pipeline before its store.
//!
//! The crate reads no configuration, prints nothing, and decides nothing about messages.

pub mod layered;
pub mod sink;
pub mod source;
pub mod store;
pub mod streamed;

use semel_config::{Backends, Servers};

/// The stores and brokers that are built in, in the form in which the configuration asks for them.
pub const BACKENDS: Backends = Backends {
    servers: Servers {
        built_in: &[
            #[cfg(feature = "postgres")]
            semel_config::ServerKind::Postgres,
            #[cfg(feature = "mysql")]
            semel_config::ServerKind::Mysql,
            #[cfg(feature = "redis")]
            semel_config::ServerKind::Redis,
        ],
        check: store::check_url,
    },
    target: sink::target,
};
