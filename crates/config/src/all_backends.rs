//! Backends for tests: every kind of server, and targets that take no message.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::sink::AnySink;
use semel_core::{Error, ErrorKind, Result};
use semel_worker::effect::Target;
use semel_worker::effect::publish::{Destination, Inspection};

use super::settings::Backends;
use super::sink::SinkSettings;
use super::store::Servers;

pub(super) const ALL_BACKENDS: Backends = Backends {
    servers: Servers {
        is_built_in: |_| true,
        check: |_| Ok(()),
    },
    target: |settings| Arc::new(Nowhere(settings)),
};

/// A target that can be shown, and takes no message.
struct Nowhere(SinkSettings);

impl fmt::Debug for Nowhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Nowhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Target for Nowhere {
    fn sink(&self) -> Result<AnySink> {
        Err(nothing())
    }

    fn inspect(&self) -> Inspection<'_> {
        Box::pin(std::future::ready(Err(nothing())))
    }

    fn timeout(&self) -> Duration {
        self.0.timeout
    }

    fn destination(&self) -> Destination {
        self.0.destination()
    }
}

fn nothing() -> Error {
    Error::new(ErrorKind::Unsupported, "a test publishes nothing")
}
