//! Webhooks and the messages of producers: the listeners of a worker, and the time for which a message comes again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semel_broker_webhook::{
    GateOptions, GatedSource, Identity, IngestOptions, IngestSource, Options, Scheme, WebhookSource,
};
use semel_config::{
    Certificate, Door, IngestSettings, PipelineSettings, StoreUrl, WebhookSettings,
};
use semel_core::port::horizon::{Horizon, HorizonReport};
use semel_core::port::source::AnySource;
use semel_core::units::spelled;
use semel_core::{Clock, Error, ErrorKind, Result};
use tokio::sync::watch;

pub use semel_broker_webhook::{Answers, Entrance, Listeners};

use crate::ingest;

/// Listens at the addresses of all sources of these pipelines that requests come to. Once `stopping` is true, new
/// requests are sent away.
///
/// # Errors
///
/// `Unavailable`: an address cannot be listened at. `InvalidConfig`: a certificate is of no use.
///
/// # Cancel safety
///
/// Safe.
pub async fn listeners(
    pipelines: &[PipelineSettings],
    clock: Arc<dyn Clock>,
    stopping: watch::Receiver<bool>,
) -> Result<Listeners> {
    let doors = pipelines.iter().filter_map(|it| it.source.door());
    let identity = |it: Door<'_>| Some((it.entrance, identity(it.tls?)));
    let tls: BTreeMap<_, _> = doors.clone().filter_map(identity).collect();
    let places: Vec<_> = doors.map(|it| (it.entrance, it.path.into())).collect();
    Listeners::bind(places, &tls, clock, Some(stopping)).await
}

/// Reads the certificate that those who send are to see, if there is one.
///
/// # Errors
///
/// `InvalidConfig`: it is of no use.
pub fn check_certificate(door: Door<'_>) -> Result<()> {
    let Some(certificate) = door.tls else {
        return Ok(());
    };
    identity(certificate).config().map(drop)
}

/// The certificate of a listener, as it is read from its files.
fn identity(certificate: &Certificate) -> Identity {
    let Certificate {
        cert,
        key,
        client_ca,
    } = certificate.clone();
    Identity {
        cert,
        key,
        client_ca,
    }
}

/// The parts of a worker that a source needs which requests come to.
#[derive(Clone, Copy, Debug)]
pub struct Inlet<'w> {
    /// The listeners.
    pub listeners: &'w Listeners,
    /// The store in which messages are kept.
    pub store: &'w StoreUrl,
    /// The name of the pipeline.
    pub pipeline: &'w str,
}

/// Opens the source of one path.
pub(crate) fn open(
    settings: &WebhookSettings,
    max_message_bytes: usize,
    inlet: Option<Inlet<'_>>,
) -> Result<AnySource> {
    let Some(inlet) = inlet else {
        let message = format!("webhook {settings}: only a worker (`semel run`) takes webhooks in");
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    let WebhookSettings {
        listen,
        path,
        tls: _,
        verification,
        secret_file: _,
        hosts,
        max_body_bytes,
        answer_within,
        max_in_hand,
        retention: _,
    } = settings;
    let options = Options {
        listen: *listen,
        path: path.clone(),
        verification: verification.clone(),
        hosts: hosts.clone(),
        max_body_bytes: usize::try_from(*max_body_bytes).unwrap_or(usize::MAX),
        max_message_bytes,
        answer_within: *answer_within,
        max_in_hand: usize::try_from(*max_in_hand).unwrap_or(usize::MAX),
    };
    WebhookSource::on(inlet.listeners, options).map(AnySource::new)
}

/// Opens the source of one path that producers send to, over the journal of the store.
pub(crate) async fn open_ingest(
    settings: &IngestSettings,
    max_message_bytes: usize,
    inlet: Option<Inlet<'_>>,
) -> Result<AnySource> {
    let Some(inlet) = inlet else {
        let message = format!("ingest {settings}: only a worker (`semel run`) takes messages in");
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    let IngestSettings {
        entrance,
        path,
        tls: _,
        tokens,
        token_file: _,
        hosts,
        is_required,
        is_any_first,
        is_key_whole,
        max_body_bytes,
        max_waiting,
        max_producers,
        retention: _,
        forget_producers,
    } = settings;
    let options = IngestOptions {
        tokens: tokens.clone(),
        hosts: hosts.clone(),
        is_required: *is_required,
        is_any_first: *is_any_first,
        is_key_whole: *is_key_whole,
        is_shared: is_shared(inlet.store),
        max_body_bytes: usize::try_from(*max_body_bytes).unwrap_or(usize::MAX),
        max_message_bytes,
        max_waiting: (*max_waiting).into(),
        max_producers: usize::try_from(*max_producers).unwrap_or(usize::MAX),
        forget_producers: *forget_producers,
        entrance: *entrance,
        ..IngestOptions::new(entrance.address(), path.clone(), inlet.pipeline)
    };
    let journal = ingest::open(inlet.store)?;
    let source = IngestSource::on(inlet.listeners, options, journal).await?;
    Ok(AnySource::new(source))
}

/// Puts a sequence gate before a source, over the journal of the store, for a pipeline of this name.
///
/// # Errors
///
/// `Unsupported`: a store of this kind has no gate; those of its journal.
///
/// # Cancel safety
///
/// Safe, but `source` is dropped.
pub async fn gated(
    source: AnySource,
    options: &GateOptions,
    store: &StoreUrl,
    pipeline: &str,
    clock: Arc<dyn Clock>,
) -> Result<AnySource> {
    let options = GateOptions {
        is_shared: is_shared(store),
        ..options.clone()
    };
    let journal = ingest::open(store)?;
    let gated = GatedSource::new(source, options, pipeline, journal, clock).await?;
    Ok(AnySource::new(gated))
}

/// Tells whether other workers may have the same store.
const fn is_shared(store: &StoreUrl) -> bool {
    matches!(store, StoreUrl::Sqlite(_) | StoreUrl::Server(_))
}

/// Says how long a message of a producer comes again: nobody knows, unless it is declared.
pub(crate) fn ingest_horizons(settings: &IngestSettings) -> HorizonReport {
    let mut horizons = HorizonReport::unknown();
    // The journal says when it took a message.
    horizons.is_stamped = true;
    match settings.retention {
        Some(declared) => {
            horizons.fact("source.retention", spelled(declared), "declared");
            horizons.redelivery = Horizon::Within(declared);
            horizons.replay = Horizon::Within(declared);
        }
        None => horizons.unread("retries", "a producer sends again for as long as it likes"),
    }
    horizons
}

/// Says how long the provider sends a message again, as its documentation has it.
pub(crate) fn horizons(settings: &WebhookSettings) -> HorizonReport {
    let mut horizons = HorizonReport::unknown();
    let mut within = |name: &str, length, meaning: &str| {
        let value = match length {
            Duration::ZERO => "none".to_owned(),
            length => spelled(length),
        };
        horizons.fact(name, value, meaning);
        Horizon::Within(length)
    };
    let documented = provider(settings.verification.scheme());
    let (redelivery, replay) = match (settings.retention, documented) {
        (Some(declared), _) => {
            let both = within("source.retention", declared, "declared");
            (both, both)
        }
        (None, Some(Provider { retries, by_hand })) => (
            within("retries", retries, "documented by the provider: unasked"),
            within("by hand", by_hand, "documented by the provider: on request"),
        ),
        (None, None) => {
            horizons.unread("retries", "this provider has no documented time");
            return horizons;
        }
    };
    horizons.redelivery = redelivery;
    horizons.replay = replay;
    horizons
}

/// The documented times of a provider.
struct Provider {
    /// The time for which it sends a message again unasked.
    retries: Duration,
    /// The time for which it does so on request.
    by_hand: Duration,
}

const fn provider(scheme: &Scheme) -> Option<Provider> {
    let (retries, by_hand) = match scheme {
        // None unasked; deliveries of the last 3 days can be sent again.
        Scheme::GitHub => (0, 3 * DAY),
        // 3 days unasked, 15 days from the dashboard, 30 days by command.
        Scheme::Stripe => (3 * DAY, 30 * DAY),
        // Once after an hour, and with delayed events once an hour for a day.
        Scheme::Slack => (DAY, DAY),
        // 4 hours, 2 days for older subscriptions.
        Scheme::Shopify => (2 * DAY, 2 * DAY),
        Scheme::Standard | Scheme::Hmac { .. } | Scheme::None => return None,
    };
    Some(Provider {
        retries: Duration::from_secs(retries),
        by_hand: Duration::from_secs(by_hand),
    })
}

const DAY: u64 = 86_400;

#[cfg(test)]
mod tests {
    use semel_broker_webhook::Verification;

    use super::*;

    fn settings(scheme: Scheme, retention: Option<Duration>) -> WebhookSettings {
        let verification = Verification::new(scheme, "AAEC").expect("a secret");
        WebhookSettings {
            listen: ([127, 0, 0, 1], 0).into(),
            path: "/".into(),
            tls: None,
            verification,
            secret_file: None,
            hosts: Vec::new(),
            max_body_bytes: 1,
            answer_within: Duration::from_secs(1),
            max_in_hand: 1,
            retention,
        }
    }

    #[test]
    fn the_horizon_is_what_the_provider_documents_unless_another_is_declared() {
        let days = |days| Horizon::Within(Duration::from_secs(days * DAY));
        for (scheme, redelivery, replay) in [
            (Scheme::GitHub, days(0), days(3)),
            (Scheme::Stripe, days(3), days(30)),
            (Scheme::Slack, days(1), days(1)),
            (Scheme::Shopify, days(2), days(2)),
            (Scheme::Standard, Horizon::Unknown, Horizon::Unknown),
        ] {
            let found = horizons(&settings(scheme, None));
            assert_eq!((found.redelivery, found.replay), (redelivery, replay));
            assert!(!found.is_stamped);
        }
        let declared = Some(Duration::from_secs(5 * DAY));
        for scheme in [Scheme::Stripe, Scheme::Standard] {
            let found = horizons(&settings(scheme, declared));
            assert_eq!((found.redelivery, found.replay), (days(5), days(5)));
            assert_eq!(found.facts.len(), 1, "{:?}", found.facts);
        }
    }

    #[test]
    fn only_a_worker_takes_webhooks_in() {
        let refused = open(&settings(Scheme::GitHub, None), 1_000, None);
        let refused = refused.expect_err("no listener");
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    }
}
