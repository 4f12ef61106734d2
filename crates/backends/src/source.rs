//! Sources: files, standard input, webhooks, and those of brokers.

use std::time::Duration;

use semel_broker_file::{FileSource, Format, Options, StdinSource};
use semel_config::SourceSettings;
use semel_core::port::horizon::{Horizon, HorizonReport};
use semel_core::port::source::AnySource;
use semel_core::units::spelled;
use semel_core::{Error, ErrorKind, Result, Timestamp};

use crate::broker::{Backlog, Broker, Limits};
use crate::webhook::{self, Inlet};

/// Opens a source. `lease` is the time for which the source holds a delivery that is not extended; a source that
/// requests come to needs an `inlet`.
///
/// # Errors
///
/// Those of a source that cannot be used; `Unsupported`: its broker is not built in.
pub async fn open(
    settings: &SourceSettings,
    max_message_bytes: u64,
    lease: Duration,
    inlet: Option<Inlet<'_>>,
) -> Result<AnySource> {
    let limits = limits(max_message_bytes, lease);
    let lines = |format: &Format| Options {
        format: *format,
        max_message_bytes: limits.max_message_bytes,
    };
    match settings {
        SourceSettings::File { path, format } => FileSource::open(path, lines(format))
            .await
            .map(AnySource::new),
        SourceSettings::Stdin { format } => {
            StdinSource::open(lines(format)).await.map(AnySource::new)
        }
        SourceSettings::Kafka(_) | SourceSettings::Nats(_) | SourceSettings::Amqp(_) => {
            (broker(settings)?.open)(settings, limits)
        }
        SourceSettings::Webhook(it) => webhook::open(it, limits.max_message_bytes, inlet),
        SourceSettings::Ingest(it) => {
            webhook::open_ingest(it, limits.max_message_bytes, inlet).await
        }
    }
}

/// Opens a source once more: it yields what it has now, and then ends. A live reader loses nothing to it.
///
/// # Errors
///
/// Those of [`open`]; `Unsupported`: it cannot be read twice.
pub async fn open_again(
    settings: &SourceSettings,
    max_message_bytes: u64,
    lease: Duration,
    since: Option<Timestamp>,
) -> Result<AnySource> {
    let rescan = match settings {
        SourceSettings::File { .. } => {
            return open(settings, max_message_bytes, lease, None).await;
        }
        SourceSettings::Kafka(_) | SourceSettings::Nats(_) => broker(settings)?.rescan,
        SourceSettings::Stdin { .. }
        | SourceSettings::Amqp(_)
        | SourceSettings::Webhook(_)
        | SourceSettings::Ingest(_) => None,
    };
    let Some(rescan) = rescan else {
        let message = format!(
            "{settings}: only files, Kafka topics and NATS streams are read again here; put the messages into a \
             file, a line each, and name it with --from FILE"
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    rescan(settings, limits(max_message_bytes, lease), since)
}

/// Asks the broker how long a message can come again; returns nothing if there is no broker. A limit that the
/// broker does not report is as long as the settings declare.
///
/// # Errors
///
/// Those of [`open`]; `Unavailable` if the broker is away.
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn horizons(settings: &SourceSettings, lease: Duration) -> Result<Option<HorizonReport>> {
    if let SourceSettings::Webhook(it) = settings {
        return Ok(Some(webhook::horizons(it)));
    }
    if let SourceSettings::Ingest(it) = settings {
        return Ok(Some(webhook::ingest_horizons(it)));
    }
    if !settings.has_broker() {
        return Ok(None);
    }
    let mut horizons = (broker(settings)?.horizons)(settings, lease).await?;
    if let Some(retention) = settings.retention() {
        let declared = Horizon::Within(retention);
        let mut is_taken = false;
        for horizon in [&mut horizons.redelivery, &mut horizons.replay] {
            if *horizon == Horizon::Unknown {
                *horizon = declared;
                is_taken = true;
            }
        }
        let meaning = if is_taken {
            "declared; nobody could read it"
        } else {
            "declared, and not taken: the broker tells"
        };
        horizons.fact("source.retention", spelled(retention), meaning);
    }
    Ok(Some(horizons))
}

/// Prepares to count what a broker has for a source and has not handed over; returns nothing if there is no broker that
/// could be asked.
///
/// # Errors
///
/// Those of [`open`].
pub fn backlog(settings: &SourceSettings) -> Result<Option<Box<dyn Backlog>>> {
    if settings.broker().is_none() {
        return Ok(None);
    }
    (broker(settings)?.backlog)(settings).map(Some)
}

/// Tells whether the broker may be there later. Every other error is wrong now and stays so.
pub fn is_away(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

fn limits(max_message_bytes: u64, lease: Duration) -> Limits {
    Limits {
        max_message_bytes: usize::try_from(max_message_bytes).unwrap_or(usize::MAX),
        lease,
    }
}

/// The broker of a source.
fn broker(settings: &SourceSettings) -> Result<&'static Broker> {
    let kind = settings.broker().unwrap_or_default();
    Broker::find(kind).ok_or_else(|| not_built_in(kind))
}

/// The error that sources of a kind are not built in.
pub(crate) fn not_built_in(kind: &str) -> Error {
    let message = format!(
        "sources of kind {kind} are not built into this program; build it with --features {kind}"
    );
    Error::new(ErrorKind::Unsupported, message)
}
