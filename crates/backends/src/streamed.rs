//! The one place that knows the brokers whose transactions commit outputs together with the position in the
//! source.

use std::sync::Arc;

#[cfg(feature = "kafka")]
use semel_config::KafkaSettings;
use semel_config::SourceSettings;
use semel_core::port::source::AnySource;
#[cfg(not(feature = "kafka"))]
use semel_core::port::streamed::{Claimed, Committed, Finished, Standing, Turn};
use semel_core::port::streamed::{Restored, StreamedStore};
use semel_core::{ClaimRequest, Error, OpId, Parked, Record, Result, Timestamp, Window};
#[cfg(feature = "kafka")]
use semel_core::{ErrorKind, FencingToken};
use semel_engine::pipeline::Pipeline;
use semel_engine::surroundings::Surroundings;
use semel_worker::settings::StreamedSettings;

/// The view of a pipeline of class `streamed` from outside.
pub trait Monitor: Send + Sync {
    /// The progress of restoring each of its partitions.
    fn restored(&self) -> Vec<Restored>;

    /// The reason why transactions are written one after the other, if they are.
    fn hindrance(&self) -> Option<Error>;
}

/// Opens a source and its transactions; returns a view from outside, too.
///
/// # Errors
///
/// `InvalidConfig`: the source is no topic of Kafka; `Unsupported`: Kafka is not built in; those of the cluster.
#[cfg(feature = "kafka")]
pub fn open(
    source: &SourceSettings,
    settings: &StreamedSettings,
    pipeline: &Pipeline,
    around: &Surroundings,
) -> Result<(AnySource, impl StreamedStore, Arc<dyn Monitor>)> {
    use semel_broker_kafka::{KafkaSource, StreamOptions};

    use super::source::{kafka_options, properties};

    let source = kafka(source)?;
    let mut options = kafka_options(source);
    options.max_message_bytes = usize::try_from(pipeline.max_message_bytes).unwrap_or(usize::MAX);
    let id = settings.transactional_id.clone().unwrap_or_else(|| {
        // A member that keeps its name keeps its transactional id, too, so the new one ends the former one's
        // transactions.
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
    stream.has_id_header = settings.has_id_header;
    let (source, stream) = KafkaSource::streamed(options, stream, Arc::clone(&around.clock))?;
    let seen = Arc::new(stream.clone());
    Ok((AnySource::new(source), stream, seen))
}

#[cfg(feature = "kafka")]
impl Monitor for semel_broker_kafka::KafkaStream {
    fn restored(&self) -> Vec<Restored> {
        Self::restored(self)
    }

    fn hindrance(&self) -> Option<Error> {
        Self::hindrance(self)
    }
}

/// The source of a streamed pipeline.
#[cfg(feature = "kafka")]
fn kafka(source: &SourceSettings) -> Result<&KafkaSettings> {
    let SourceSettings::Kafka(source) = source else {
        let message = "a streamed effect commits how far a Kafka source was read";
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    };
    Ok(source)
}

/// Reads the records of these operations from the changelog of a pipeline, in the form in which a store returns
/// them. `requests` holds the request that is made of each operation now, if there is one.
///
/// # Cost
///
/// Reads the whole changelog.
///
/// # Errors
///
/// Those of the cluster; `Unsupported`: Kafka is not built in.
#[cfg(feature = "kafka")]
pub async fn records(
    source: &SourceSettings,
    settings: &StreamedSettings,
    window: Window,
    operations: Vec<OpId>,
    requests: &[Option<&ClaimRequest>],
    now: Timestamp,
) -> Result<Vec<Option<Record>>> {
    let source = kafka(source)?;
    let options = super::source::kafka_options(source);
    let changelog = settings.changelog.clone();
    let finding = tokio::task::spawn_blocking(move || {
        semel_broker_kafka::find(&options, &changelog, window, &operations, now)
    });
    let found = finding.await.unwrap_or_else(|error| {
        let message = "the look into the changelog panicked";
        Err(Error::new(ErrorKind::Internal, message).with_source(error))
    })?;
    let found = found.into_iter().zip(requests).map(|(found, request)| {
        // The caller claims nothing.
        let token = FencingToken::new(0);
        found.map(|it| it.entry.record(it.at, window, *request, token))
    });
    Ok(found.collect())
}

/// Publishes these messages to the partitions from which they were read, with their own keys and headers, and
/// waits until the brokers have confirmed all of them.
///
/// # Errors
///
/// Those of the cluster; `InvalidInput`: a message is not of the source's topic. Some messages may be published
/// by then. `Unsupported`: Kafka is not built in.
#[cfg(feature = "kafka")]
pub async fn publish_again(source: &SourceSettings, messages: &[Parked]) -> Result<()> {
    use std::collections::BTreeMap;

    use semel_broker_kafka::{KafkaSink, SinkOptions, partition_of};
    use semel_core::Operation;
    use semel_core::port::sink::{Publication, Sink};

    let source = kafka(source)?;
    let mut partitions: BTreeMap<i32, Vec<Publication>> = BTreeMap::new();
    for message in messages {
        let (topic, coordinates) = (&source.topic, &message.coordinates);
        let Some(partition) = partition_of(coordinates, topic) else {
            let message = format!(
                "{coordinates} is no record of the topic {topic}, so its partition is not known"
            );
            return Err(Error::new(ErrorKind::InvalidInput, message));
        };
        // The id that an earlier stage gave the message may be its key.
        let mut headers = message.headers.iter();
        let given = headers.find(|(name, _)| &**name == "semel-id");
        let given = given.and_then(|(_, id)| std::str::from_utf8(id).ok());
        let key = message.key.clone();
        let own = key.map(|key| Operation::new(message.scope.clone(), key).id().to_string());
        let id = given.map(str::to_owned).or(own).unwrap_or_default();
        partitions.entry(partition).or_default().push(Publication {
            id: id.into(),
            order: None,
            payload: message.payload.clone(),
            headers: message.headers.clone(),
        });
    }
    for (partition, batch) in partitions {
        let mut options = SinkOptions::new(&source.brokers, &source.topic);
        options.properties = super::source::properties(&source.properties);
        options.partition = Some(partition);
        for confirmed in KafkaSink::new(options)?.publish(&batch).await {
            confirmed?;
        }
    }
    Ok(())
}

/// Answers that this binary has no Kafka.
#[cfg(not(feature = "kafka"))]
pub async fn publish_again(_source: &SourceSettings, _messages: &[Parked]) -> Result<()> {
    std::future::ready(Err(super::source::not_built_in("kafka"))).await
}

/// Answers that this binary has no Kafka.
#[cfg(not(feature = "kafka"))]
pub async fn records(
    _source: &SourceSettings,
    _settings: &StreamedSettings,
    _window: Window,
    _operations: Vec<OpId>,
    _requests: &[Option<&ClaimRequest>],
    _now: Timestamp,
) -> Result<Vec<Option<Record>>> {
    std::future::ready(Err(super::source::not_built_in("kafka"))).await
}

/// Answers that this binary has no Kafka.
#[cfg(not(feature = "kafka"))]
pub fn open(
    _source: &SourceSettings,
    _settings: &StreamedSettings,
    _pipeline: &Pipeline,
    _around: &Surroundings,
) -> Result<(AnySource, Nobodys, Arc<dyn Monitor>)> {
    Err(super::source::not_built_in("kafka"))
}

/// The transactions of a build without Kafka, which do not exist.
#[cfg(not(feature = "kafka"))]
pub enum Nobodys {}

#[cfg(not(feature = "kafka"))]
impl StreamedStore for Nobodys {
    async fn admit(&self, _batch: &[Claimed<'_>]) -> Result<Vec<Standing>> {
        match *self {}
    }

    async fn commit(
        &self,
        _batch: &Arc<Vec<Finished>>,
        _turn: impl Turn,
    ) -> Result<Vec<Committed>> {
        match *self {}
    }
}
