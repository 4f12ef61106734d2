//! Transactions of Kafka.

use std::collections::BTreeMap;
use std::sync::Arc;

use semel_broker_kafka::{
    KafkaSink, KafkaSource, KafkaStream, SinkOptions, StreamOptions, find, partition_of,
};
use semel_config::{KafkaSettings, SourceSettings};
use semel_core::port::sink::{Publication, Sink};
use semel_core::port::source::AnySource;
use semel_core::port::streamed::{Restored, StreamedStore};
use semel_core::{
    ClaimRequest, Error, ErrorKind, FencingToken, OpId, Operation, Parked, Record, Result,
    Timestamp, Window,
};
use semel_engine::pipeline::Pipeline;
use semel_engine::surroundings::Surroundings;
use semel_worker::settings::StreamedSettings;

use super::Monitor;
use crate::broker::kafka::{options, properties};

/// Opens a source and its transactions; returns a view from outside, too.
///
/// # Errors
///
/// `InvalidConfig`: the source is no topic of Kafka; `Unsupported`: Kafka is not built in; those of the cluster.
pub fn open(
    source: &SourceSettings,
    settings: &StreamedSettings,
    pipeline: &Pipeline,
    around: &Surroundings,
) -> Result<(AnySource, impl StreamedStore + use<>, Arc<dyn Monitor>)> {
    let source = kafka(source)?;
    let mut options = options(source);
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

impl Monitor for KafkaStream {
    fn restored(&self) -> Vec<Restored> {
        Self::restored(self)
    }

    fn hindrance(&self) -> Option<Error> {
        Self::hindrance(self)
    }
}

/// The source of a streamed pipeline.
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
pub async fn records(
    source: &SourceSettings,
    settings: &StreamedSettings,
    window: Window,
    operations: Vec<OpId>,
    requests: &[Option<&ClaimRequest>],
    now: Timestamp,
) -> Result<Vec<Option<Record>>> {
    let source = kafka(source)?;
    let options = options(source);
    let changelog = settings.changelog.clone();
    let finding =
        tokio::task::spawn_blocking(move || find(&options, &changelog, window, &operations, now));
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
pub async fn publish_again(source: &SourceSettings, messages: &[Parked]) -> Result<()> {
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
        options.properties = properties(&source.properties);
        options.partition = Some(partition);
        for confirmed in KafkaSink::new(options)?.publish(&batch).await {
            confirmed?;
        }
    }
    Ok(())
}
