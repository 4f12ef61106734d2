//! The one place that knows every kind of target that messages are published to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_config::{SinkPlace, SinkSettings};
use semel_core::Result;
use semel_core::port::sink::AnySink;
use semel_worker::effect::Target;
use semel_worker::effect::publish::{Facts, Inspection};

/// Turns the settings of a target into something to publish to.
pub fn target(settings: SinkSettings) -> Arc<dyn Target> {
    Arc::new(Place(settings))
}

/// A target on some broker, with its driver.
struct Place(SinkSettings);

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
        match &self.0.place {
            SinkPlace::Kafka { .. } => self.kafka(),
            SinkPlace::Nats { .. } => self.nats(),
            SinkPlace::Amqp { .. } => self.amqp(),
        }
    }

    fn inspect(&self) -> Inspection<'_> {
        match &self.0.place {
            SinkPlace::Kafka { .. } => Box::pin(self.look_at_kafka()),
            SinkPlace::Nats { .. } => Box::pin(self.look_at_nats()),
            SinkPlace::Amqp { .. } => Box::pin(self.look_at_amqp()),
        }
    }

    fn timeout(&self) -> Duration {
        self.0.timeout
    }
}

#[cfg(feature = "kafka")]
impl Place {
    fn kafka(&self) -> Result<AnySink> {
        self.kafka_sink().map(AnySink::new)
    }

    async fn look_at_kafka(&self) -> Result<Facts> {
        self.kafka_sink()?.connect().await?;
        Ok(Facts::default())
    }

    fn kafka_sink(&self) -> Result<semel_broker_kafka::KafkaSink> {
        let SinkPlace::Kafka {
            brokers,
            topic,
            properties,
            has_id_header,
        } = &self.0.place
        else {
            return Err(other());
        };
        let mut options = semel_broker_kafka::SinkOptions::new(brokers, topic);
        options.has_id_header = *has_id_header;
        options.properties = super::source::properties(properties);
        options.timeout = self.0.timeout;
        semel_broker_kafka::KafkaSink::new(options)
    }
}

#[cfg(feature = "nats")]
impl Place {
    fn nats(&self) -> Result<AnySink> {
        self.nats_sink().map(AnySink::new)
    }

    async fn look_at_nats(&self) -> Result<Facts> {
        let window = self.nats_sink()?.duplicate_window().await?;
        Ok(Facts {
            duplicate_window: Some(window),
        })
    }

    fn nats_sink(&self) -> Result<semel_broker_nats::NatsSink> {
        let SinkPlace::Nats {
            url,
            subject,
            credentials,
            tls,
        } = &self.0.place
        else {
            return Err(other());
        };
        let mut options = semel_broker_nats::SinkOptions::new(url, subject);
        options.credentials_file.clone_from(credentials);
        options.tls.clone_from(tls);
        options.timeout = self.0.timeout;
        semel_broker_nats::NatsSink::new(options)
    }
}

#[cfg(feature = "amqp")]
impl Place {
    fn amqp(&self) -> Result<AnySink> {
        semel_broker_amqp::AmqpSink::new(self.amqp_options()?).map(AnySink::new)
    }

    async fn look_at_amqp(&self) -> Result<Facts> {
        semel_broker_amqp::AmqpSink::inspect(self.amqp_options()?).await?;
        Ok(Facts::default())
    }

    fn amqp_options(&self) -> Result<semel_broker_amqp::SinkOptions> {
        let SinkPlace::Amqp {
            url,
            tls,
            exchange,
            routing_key,
        } = &self.0.place
        else {
            return Err(other());
        };
        let mut options = semel_broker_amqp::SinkOptions::new(url, exchange, routing_key);
        options.confirm_timeout = self.0.timeout;
        options.tls.clone_from(tls);
        Ok(options)
    }
}

/// Methods that refuse, for a program built without this kind of broker.
macro_rules! absent {
    ($feature:literal: $sink:ident, $inspect:ident) => {
        #[cfg(not(feature = $feature))]
        impl Place {
            fn $sink(&self) -> Result<AnySink> {
                Err(self.not_built_in($feature))
            }

            fn $inspect(&self) -> std::future::Ready<Result<Facts>> {
                std::future::ready(Err(self.not_built_in($feature)))
            }
        }
    };
}

absent!("kafka": kafka, look_at_kafka);
absent!("nats": nats, look_at_nats);
absent!("amqp": amqp, look_at_amqp);

#[cfg(not(all(feature = "kafka", feature = "nats", feature = "amqp")))]
impl Place {
    fn not_built_in(&self, kind: &str) -> semel_core::Error {
        let message = format!(
            "{self}: {kind} is not built into this program; build it with --features {kind}"
        );
        semel_core::Error::new(semel_core::ErrorKind::Unsupported, message)
    }
}

#[cfg(any(feature = "kafka", feature = "nats", feature = "amqp"))]
fn other() -> semel_core::Error {
    let message = "a place of another kind of broker";
    semel_core::Error::new(semel_core::ErrorKind::Internal, message)
}
