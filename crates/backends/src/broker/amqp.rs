//! RabbitMQ.

use semel_broker_amqp::{AmqpSink, AmqpSource, Backlog, Options, SinkOptions, inspect};
use semel_config::{SinkPlace, SinkSettings, SourceSettings};
use semel_core::Result;
use semel_core::port::sink::AnySink;
use semel_core::port::source::AnySource;
use semel_worker::effect::publish::Facts;

use super::{Answer, Broker, other_kind};

pub(super) static BROKER: Broker = Broker {
    name: "amqp",
    open: |settings, limits| {
        let mut options = options(settings)?;
        options.max_message_bytes = limits.max_message_bytes;
        AmqpSource::new(options).map(AnySource::new)
    },
    rescan: None,
    horizons: |settings, _| Box::pin(async move { inspect(&options(settings)?).await }),
    backlog: |settings| Ok(Box::new(Backlog::new(options(settings)?))),
    sink: |settings| AmqpSink::new(sink_options(settings)?).map(AnySink::new),
    inspect: |settings| {
        Box::pin(async move {
            AmqpSink::inspect(sink_options(settings)?).await?;
            Ok(Facts::default())
        })
    },
};

impl super::Backlog for Backlog {
    fn count(&mut self) -> Answer<'_, Option<u64>> {
        Box::pin(async move { self.count().await.map(Some) })
    }
}

fn options(settings: &SourceSettings) -> Result<Options> {
    let SourceSettings::Amqp(settings) = settings else {
        return Err(other_kind());
    };
    let mut options = Options::new(&settings.url, &settings.queue);
    options.prefetch = settings.prefetch;
    options.tls.clone_from(&settings.tls);
    Ok(options)
}

fn sink_options(settings: &SinkSettings) -> Result<SinkOptions> {
    let SinkPlace::Amqp {
        url,
        tls,
        exchange,
        routing_key,
    } = &settings.place
    else {
        return Err(other_kind());
    };
    let mut options = SinkOptions::new(url, exchange, routing_key);
    options.confirm_timeout = settings.timeout;
    options.tls.clone_from(tls);
    Ok(options)
}
