//! NATS `JetStream`.

use std::time::Duration;

use semel_broker_nats::{Backlog, NatsSink, NatsSource, Options, SinkOptions, inspect, rescan};
use semel_config::{NatsSettings, SinkPlace, SinkSettings, SourceSettings};
use semel_core::Result;
use semel_core::port::sink::AnySink;
use semel_core::port::source::AnySource;
use semel_worker::effect::publish::Facts;

use super::{Answer, Broker, Limits, other_kind};

pub(super) static BROKER: Broker = Broker {
    name: "nats",
    open: |settings, limits| NatsSource::new(limited(settings, limits)?).map(AnySource::new),
    rescan: Some(|settings, limits, since| {
        rescan(limited(settings, limits)?, since).map(AnySource::new)
    }),
    horizons: |settings, lease| Box::pin(async move { inspect(&options(settings, lease)?).await }),
    backlog: |settings| {
        let options = options(settings, Duration::MAX)?;
        Ok(Box::new(Backlog::new(options)))
    },
    sink: |settings| sink(settings).map(AnySink::new),
    inspect: |settings| {
        Box::pin(async move {
            let window = sink(settings)?.duplicate_window().await?;
            Ok(Facts {
                duplicate_window: Some(window),
            })
        })
    },
};

impl super::Backlog for Backlog {
    fn count(&mut self) -> Answer<'_, Option<u64>> {
        Box::pin(async move { self.count().await.map(Some) })
    }
}

fn limited(settings: &SourceSettings, limits: Limits) -> Result<Options> {
    let mut options = options(settings, limits.lease)?;
    options.max_message_bytes = limits.max_message_bytes;
    Ok(options)
}

fn options(settings: &SourceSettings, lease: Duration) -> Result<Options> {
    let SourceSettings::Nats(NatsSettings {
        url,
        stream,
        consumer,
        subject,
        credentials,
        max_ack_pending,
        tls,
        retention: _,
    }) = settings
    else {
        return Err(other_kind());
    };
    let mut options = Options::new(url, stream, consumer);
    options.filter_subject.clone_from(subject);
    options.credentials_file.clone_from(credentials);
    options.max_ack_pending = *max_ack_pending;
    options.tls.clone_from(tls);
    options.lease = lease.min(options.lease);
    Ok(options)
}

fn sink(settings: &SinkSettings) -> Result<NatsSink> {
    let SinkPlace::Nats {
        url,
        subject,
        credentials,
        tls,
    } = &settings.place
    else {
        return Err(other_kind());
    };
    let mut options = SinkOptions::new(url, subject);
    options.credentials_file.clone_from(credentials);
    options.tls.clone_from(tls);
    options.timeout = settings.timeout;
    NatsSink::new(options)
}
