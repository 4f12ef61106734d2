//! The changelog as a topic: created where it is not there, and refused where it would forget too early.

use std::time::Duration;

use rdkafka::admin::{AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use semel_core::{Error, ErrorKind};

use super::StreamOptions;
use crate::background_drop::Admin;
use crate::options::{Options, client};

/// Reason why the changelog is not fit for use.
pub(super) enum Unfit {
    /// The cluster is away.
    Away(KafkaError),
    /// It never will be.
    Never(Error),
}

impl From<KafkaError> for Unfit {
    fn from(error: KafkaError) -> Self {
        Self::Away(error)
    }
}

/// Creates the changelog where it is not there, and checks that it keeps its records. Returns the number of its
/// partitions, which is that of the input.
pub(super) async fn fit(
    source: &Options,
    options: &StreamOptions,
    asker: &BaseConsumer,
) -> Result<usize, Unfit> {
    let admin = client(&source.brokers, &source.properties, &[]).map_err(Unfit::Never)?;
    let admin = Admin::new(admin.create()?);
    let topic = source.topics.first().map_or("", |topic| topic);
    let Some(partitions) = count(asker, topic)? else {
        let unknown = RDKafkaErrorCode::UnknownTopicOrPartition;
        return Err(Unfit::Away(KafkaError::Global(unknown)));
    };
    let changelog = &*options.changelog;
    if count(asker, changelog)?.is_none() {
        make(&admin, options, partitions).await?;
    }
    let found = loop {
        // A topic that was created a moment ago is not known to every broker.
        if let Some(found) = count(asker, changelog)? {
            break found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    if found != partitions {
        return Err(never(format!(
            "{topic} has {partitions} partitions and its changelog {changelog} has {found}: records of \
             a key may have moved to another partition, whose changelog does not know them. Wait for \
             the window to pass without input, then name a new changelog"
        )));
    }
    keeps(&admin, options).await?;
    Ok(partitions)
}

/// Returns the number of partitions of a topic; `None` where there is none.
fn count(asker: &BaseConsumer, topic: &str) -> Result<Option<usize>, KafkaError> {
    let metadata = asker.fetch_metadata(Some(topic), ASK)?;
    let found = metadata.topics().iter().find(|it| it.name() == topic);
    let found = found.filter(|it| it.error().is_none());
    Ok(found
        .map(|it| it.partitions().len())
        .filter(|count| *count > 0))
}

async fn make(admin: &Admin, options: &StreamOptions, partitions: usize) -> Result<(), Unfit> {
    let retention = needed(options).as_millis().to_string();
    // As many as the brokers' own default says.
    let replication = TopicReplication::Fixed(-1);
    let partitions = i32::try_from(partitions).unwrap_or(i32::MAX);
    let topic = NewTopic::new(&options.changelog, partitions, replication)
        .set("cleanup.policy", "delete")
        .set("retention.bytes", "-1")
        .set("retention.ms", &retention);
    let made = admin.create_topics([&topic], &AdminOptions::new()).await?;
    match made.into_iter().next() {
        // Another worker was first.
        None | Some(Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(()),
        Some(Err((name, code))) => match code {
            RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed => Err(never(format!(
                "{name}: the user may not make the topic; grant Create on it, or make it with \
                 {partitions} partitions, cleanup.policy=delete and retention.ms={retention}"
            ))),
            _ => Err(Unfit::Away(KafkaError::AdminOp(code))),
        },
    }
}

/// Refuses a changelog that forgets inside the window.
async fn keeps(admin: &Admin, options: &StreamOptions) -> Result<(), Unfit> {
    let changelog = &*options.changelog;
    let asked = [ResourceSpecifier::Topic(changelog)];
    let told = admin.describe_configs(&asked, &AdminOptions::new()).await?;
    let Some(Ok(config)) = told.into_iter().next() else {
        // A user who may not read the settings has made them; `check` names those it could not read.
        return Ok(());
    };
    let read = |name| config.get(name).and_then(|entry| entry.value.as_deref());
    let needed = needed(options).as_millis();
    if let Some(policy) = read("cleanup.policy").filter(|policy| *policy != "delete") {
        return Err(never(format!(
            "{changelog}: cleanup.policy is {policy}, and a changelog needs delete"
        )));
    }
    if let Some(bytes) = read("retention.bytes").filter(|bytes| *bytes != "-1") {
        return Err(never(format!(
            "{changelog}: retention.bytes is {bytes}, so it may forget inside the window; set it to -1"
        )));
    }
    let kept = read("retention.ms").and_then(|millis| millis.parse::<u128>().ok());
    if let Some(kept) = kept.filter(|kept| *kept < needed) {
        return Err(never(format!(
            "{changelog}: retention.ms is {kept}, less than the window with its slack; set it to \
             {needed} or more"
        )));
    }
    Ok(())
}

/// Returns the time for which the changelog must keep a record.
fn needed(options: &StreamOptions) -> Duration {
    let window = options.window.duration();
    window + window / 8 + Duration::from_secs(600)
}

fn never(message: String) -> Unfit {
    Unfit::Never(Error::new(ErrorKind::InvalidConfig, message))
}

/// The longest wait for an answer of the cluster.
const ASK: Duration = Duration::from_secs(5);
