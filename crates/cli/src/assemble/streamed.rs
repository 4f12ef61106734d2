//! The one place that knows whose transactions commit outputs together with how far a source was read.

use semel_core::port::streamed::StreamedStore;
#[cfg(not(feature = "kafka"))]
use semel_core::port::streamed::{Claimed, Committed, Finished, Standing};
#[cfg(feature = "kafka")]
use semel_core::{Error, ErrorKind};
use semel_core::{OpId, Record, Result, Timestamp, Window};
use semel_engine::consumer::Surroundings;
use semel_engine::pipeline::Pipeline;
use semel_worker::settings::StreamedSettings;

use super::source::AnySource;
use crate::config::SourceSettings;
use crate::status::LookAtRestored;

/// Opens a source and its transactions, and says how to see how far they are restored.
#[cfg(feature = "kafka")]
pub(crate) fn streamed(
    source: &SourceSettings,
    settings: &StreamedSettings,
    pipeline: &Pipeline,
    around: &Surroundings,
) -> Result<(AnySource, impl StreamedStore, LookAtRestored)> {
    use std::sync::Arc;

    use semel_broker_kafka::{KafkaSource, StreamOptions};

    use super::source::{kafka_options, properties};

    let SourceSettings::Kafka(source) = source else {
        let message = "a streamed effect commits how far a Kafka source was read";
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    };
    let mut options = kafka_options(source);
    options.max_message_bytes = usize::try_from(pipeline.max_message_bytes).unwrap_or(usize::MAX);
    let id = settings.transactional_id.clone().unwrap_or_else(|| {
        // A member that keeps its name keeps its transactions, too: a new one ends those of the former.
        let mut properties = source.properties.iter();
        let instance = properties.find(|(name, _)| name == "group.instance.id");
        let who = instance.map_or_else(|| around.claimant.to_string(), |(_, id)| id.clone());
        format!("semel.{}.{}.{who}", source.group, pipeline.name)
    });
    let (output, changelog) = (&settings.topic, &settings.changelog);
    let mut stream = StreamOptions::new(output, changelog, &id, pipeline.window);
    stream.properties = properties(&settings.properties);
    stream.transaction_timeout = settings.transaction_timeout;
    stream.is_copartitioned = settings.is_copartitioned;
    let (source, stream) = KafkaSource::streamed(options, stream, Arc::clone(&around.clock))?;
    let look = stream.clone();
    let look = Arc::new(move || look.restored());
    Ok((AnySource::Kafka(source), stream, look))
}

/// What the changelog of a pipeline says of these operations, as a store would.
///
/// # Cost     reads the whole changelog
/// # Errors   those of the cluster
#[cfg(feature = "kafka")]
pub(crate) async fn streamed_records(
    source: &SourceSettings,
    settings: &StreamedSettings,
    window: Window,
    operations: Vec<OpId>,
    now: Timestamp,
) -> Result<Vec<Option<Record>>> {
    let SourceSettings::Kafka(source) = source else {
        return Ok(vec![None; operations.len()]);
    };
    let options = super::source::kafka_options(source);
    let changelog = settings.changelog.clone();
    let finding = tokio::task::spawn_blocking(move || {
        semel_broker_kafka::find(&options, &changelog, window, &operations, now)
    });
    let found = finding.await.unwrap_or_else(|error| {
        let message = "the look into the changelog panicked";
        Err(Error::new(ErrorKind::Internal, message).with_source(error))
    })?;
    let record = |found: semel_broker_kafka::Remembered| completed(found.at, window);
    Ok(found.into_iter().map(|it| it.map(record)).collect())
}

/// The record of an operation of which nothing is kept but when it was done.
#[cfg(feature = "kafka")]
fn completed(at: Timestamp, window: Window) -> Record {
    use semel_core::{ClaimId, FencingToken, Outcome, State};

    Record {
        state: State::Completed { at, window },
        fingerprint: None,
        transport: None,
        // Nobody's.
        claim_id: ClaimId::from_u128(0),
        token: FencingToken::new(0),
        claimed_at: at,
        attempts: 1,
        vanished: 0,
        possible_repeats: 0,
        doubt: None,
        past: Vec::new(),
        created_at: at,
        first_started_at: None,
        last_error: None,
        gate: None,
        held: false,
        outcome: Some(Outcome::empty()),
    }
}

/// Says that this binary knows no Kafka.
#[cfg(not(feature = "kafka"))]
pub(crate) async fn streamed_records(
    _source: &SourceSettings,
    _settings: &StreamedSettings,
    _window: Window,
    _operations: Vec<OpId>,
    _now: Timestamp,
) -> Result<Vec<Option<Record>>> {
    std::future::ready(Err(super::source::not_built_in("kafka"))).await
}

/// Says that this binary knows no Kafka.
#[cfg(not(feature = "kafka"))]
pub(crate) fn streamed(
    _source: &SourceSettings,
    _settings: &StreamedSettings,
    _pipeline: &Pipeline,
    _around: &Surroundings,
) -> Result<(AnySource, Nobodys, LookAtRestored)> {
    Err(super::source::not_built_in("kafka"))
}

/// Nobody's transactions.
#[cfg(not(feature = "kafka"))]
pub(crate) enum Nobodys {}

#[cfg(not(feature = "kafka"))]
impl StreamedStore for Nobodys {
    async fn admit(&self, _batch: &[Claimed<'_>]) -> Result<Vec<Standing>> {
        match *self {}
    }

    async fn commit(&self, _batch: &std::sync::Arc<[Finished]>) -> Result<Vec<Committed>> {
        match *self {}
    }
}
