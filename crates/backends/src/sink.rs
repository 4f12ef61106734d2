//! Targets on brokers, that messages are published to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_config::SinkSettings;
use semel_core::port::sink::AnySink;
use semel_core::{Error, ErrorKind, Result};
use semel_worker::effect::Target;
use semel_worker::effect::publish::{Destination, Inspection};

use crate::broker::Broker;

/// Turns the settings of a target into something to publish to; connects to nothing.
pub fn target(settings: SinkSettings) -> Arc<dyn Target> {
    Arc::new(Place(settings))
}

/// A target on some broker, with its driver.
struct Place(SinkSettings);

impl Place {
    fn broker(&self) -> Result<&'static Broker> {
        let kind = self.0.place.broker();
        Broker::find(kind).ok_or_else(|| {
            let message = format!(
                "{self}: {kind} is not built into this program; build it with --features {kind}"
            );
            Error::new(ErrorKind::Unsupported, message)
        })
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Target for Place {
    fn sink(&self) -> Result<AnySink> {
        (self.broker()?.sink)(&self.0)
    }

    fn inspect(&self) -> Inspection<'_> {
        match self.broker() {
            Ok(broker) => (broker.inspect)(&self.0),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn timeout(&self) -> Duration {
        self.0.timeout
    }

    fn destination(&self) -> Destination {
        self.0.destination()
    }
}
