//! Horizons of a topic, as the cluster's settings give them. Looks only: commits no offset, joins no group, creates no
//! topic.

mod oldest;

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{AdminOptions, ResourceSpecifier};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::{MetadataBroker, MetadataPartition, MetadataTopic};
use semel_core::port::horizon::{Horizon, HorizonReport};
use semel_core::units::{self, spelled};
use semel_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;

use crate::background_drop::{Admin, BackgroundDrop};
use crate::connection_error::Watch;
use crate::error::{away, not_made};
use crate::options::Options;

/// Returns the time for which records of these topics can come again.
///
/// # Shape
/// A setting that the user may not read is returned as unread, not as an error
///
/// # Errors
/// `InvalidConfig`: a setting that librdkafka does not take, or that is not the user's. `Unavailable` with
/// `source-unavailable`: the cluster is away, or a topic is not there yet
///
/// # Cancel safety
/// Safe; a call to the cluster that has begun ends by itself within half a minute
pub async fn inspect(options: &Options) -> Result<HorizonReport> {
    let (options, handle) = (options.clone(), Handle::current());
    let looked = tokio::task::spawn_blocking(move || all(&options, &handle));
    looked.await.unwrap_or_else(|error| {
        let message = "the look at the Kafka cluster did not end";
        Err(Error::new(ErrorKind::Internal, message).with_source(error))
    })
}

fn all(options: &Options, handle: &Handle) -> Result<HorizonReport> {
    let mut config = options.config()?;
    config.set("enable.partition.eof", "true");
    config.set("queued.min.messages", "1");
    let watch = Watch::default();
    let consumer: Asker = config
        .create_with_context(watch.clone())
        .map_err(not_made)?;
    let consumer = BackgroundDrop::new(consumer);
    let admin = Admin::new(config.create().map_err(not_made)?);
    let mut horizons: Option<HorizonReport> = None;
    for topic in &options.topics {
        let found = one(options, handle, &admin, &consumer, &watch, topic)?;
        horizons = Some(match horizons {
            Some(horizons) => both(horizons, found),
            None => found,
        });
    }
    let mut horizons = horizons.unwrap_or_else(HorizonReport::unknown);
    horizons.warnings.extend(of_client(options));
    Ok(horizons)
}

fn one(
    options: &Options,
    handle: &Handle,
    admin: &Admin,
    consumer: &Asker,
    watch: &Watch,
    topic: &str,
) -> Result<HorizonReport> {
    let unanswered = |error: &KafkaError| {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
        // Earlier events are heard by the next poll.
        for _ in 0..LISTEN {
            if watch.0.why(code).is_some() || watch.0.unreached(code).is_some() {
                break;
            }
            let _ = consumer.poll(Duration::from_millis(10));
        }
        away(code, options, &watch.0)
    };
    let metadata = consumer.fetch_metadata(Some(topic), SOON).or_else(|error| {
        // Earlier events are heard by the next poll, one at a time.
        for _ in 0..LISTEN {
            if watch.0.is_plain() {
                return Err(error);
            }
            if consumer.poll(Duration::from_millis(10)).is_none() {
                break;
            }
        }
        consumer.fetch_metadata(Some(topic), PATIENCE.saturating_sub(SOON))
    });
    let metadata = metadata.map_err(|error| unanswered(&error))?;
    let found = metadata.topics().first();
    if let Some(code) = found.and_then(MetadataTopic::error) {
        return Err(away(code.into(), options, &watch.0));
    }
    let partitions = found.map_or(&[][..], MetadataTopic::partitions);
    let partitions: Vec<_> = partitions.iter().map(MetadataPartition::id).collect();
    let settings = describe(handle, admin, &ResourceSpecifier::Topic(topic));
    let broker = metadata.brokers().first();
    let broker = broker.map_or(metadata.orig_broker_id(), MetadataBroker::id);
    let broker = describe(handle, admin, &ResourceSpecifier::Broker(broker));
    let mut horizons = of_settings(settings.as_ref(), broker.as_ref(), options);
    oldest::add(&mut horizons, consumer, topic, &partitions);
    Ok(horizons)
}

/// A consumer that is in no group.
type Asker = BaseConsumer<Watch>;
type Settings = BTreeMap<String, String>;

/// Returns the settings of a topic or a broker, or the reason why they cannot be read. Never an error of the look: the
/// source works without.
fn describe(
    handle: &Handle,
    admin: &Admin,
    what: &ResourceSpecifier<'_>,
) -> std::result::Result<Settings, String> {
    let failed = |error: KafkaError| match error.rdkafka_error_code() {
        Some(code) => format!("the cluster does not tell: {code}"),
        None => "the cluster does not tell".to_owned(),
    };
    let patience = AdminOptions::new().request_timeout(Some(PATIENCE));
    let described = handle.block_on(admin.describe_configs([what], &patience));
    let described = described.map_err(failed)?.into_iter().next();
    let entries = match described {
        Some(Ok(resource)) => resource.entries,
        Some(Err(code)) => return Err(failed(KafkaError::AdminOp(code))),
        None => Vec::new(),
    };
    if entries.is_empty() {
        // A setting without a right to it comes back as nothing at all.
        return Err("the user may not read it; grant DescribeConfigs".to_owned());
    }
    let values = entries.into_iter();
    Ok(values
        .filter_map(|entry| Some((entry.name, entry.value?)))
        .collect())
}

/// Derives from the settings the time for which a record can come again.
fn of_settings(
    topic: std::result::Result<&Settings, &String>,
    broker: std::result::Result<&Settings, &String>,
    options: &Options,
) -> HorizonReport {
    let mut horizons = HorizonReport::unknown();
    let mut check = USUAL_CHECK;
    match broker {
        Ok(broker) => {
            if let Some(every) = millis(broker, "log.retention.check.interval.ms") {
                check = every;
                let meaning = "so long after it may go, a record can still be there";
                horizons.fact("log.retention.check.interval.ms", spelled(every), meaning);
            }
            if let Some(minutes) = number(broker, "offsets.retention.minutes") {
                let absence = Duration::from_secs(u64::try_from(minutes).unwrap_or(0) * 60);
                let meaning = if options.skips() {
                    "when a group is empty for longer, what it has not read is skipped"
                } else {
                    "when a group is empty for longer, everything that the topic has comes again"
                };
                horizons.fact("offsets.retention.minutes", spelled(absence), meaning);
            }
        }
        Err(why) => {
            horizons.unread("offsets.retention.minutes", why.as_str());
            let why = format!("{why}; taken for {}", spelled(USUAL_CHECK));
            horizons.unread("log.retention.check.interval.ms", why);
        }
    }
    let topic = match topic {
        Ok(topic) => topic,
        Err(why) => {
            for name in ["retention.ms", "segment.ms", "cleanup.policy"] {
                horizons.unread(name, why.as_str());
            }
            return horizons;
        }
    };
    let is_appended = is(topic, "message.timestamp.type", "LogAppendTime");
    horizons.is_stamped = is_appended;
    let meaning = if is_appended {
        "the age of a record is known from the time of its appending"
    } else {
        "records have the producer's time, which the age gate takes from `birth` alone"
    };
    let kind = if is_appended {
        "LogAppendTime"
    } else {
        "CreateTime"
    };
    horizons.fact("message.timestamp.type", kind, meaning);
    let kept = kept(&mut horizons, topic, check, is_appended);
    (horizons.redelivery, horizons.replay) = (kept, kept);
    if is(topic, "unclean.leader.election.enable", "true") {
        horizons.warnings.push(
            "unclean.leader.election.enable is true: after the loss of a leader another record may have the \
             coordinates of one that was read"
                .into(),
        );
    }
    horizons
}

/// Returns the time for which a record stays: then nobody can have it again.
fn kept(
    horizons: &mut HorizonReport,
    topic: &Settings,
    check: Duration,
    is_appended: bool,
) -> Horizon {
    let policy = topic.get("cleanup.policy").map_or("delete", String::as_str);
    let is_compacted = policy.contains("compact");
    let meaning = if is_compacted {
        "the newest record of each key stays without end"
    } else {
        "records go by age or size"
    };
    horizons.fact("cleanup.policy", policy, meaning);
    let Some(retention) = number(topic, "retention.ms") else {
        horizons.unread("retention.ms", "the cluster does not tell it");
        return Horizon::Unknown;
    };
    let Ok(retention) = u64::try_from(retention) else {
        let bytes = number(topic, "retention.bytes").unwrap_or(-1);
        if is_compacted || bytes < 0 {
            horizons.fact("retention.ms", "-1", "no record goes because it is old");
            return Horizon::Endless;
        }
        let meaning = "no record goes because it is old";
        horizons.fact("retention.ms", "-1", meaning);
        let meaning = "records go by size: how long they stay depends on how many come";
        horizons.fact("retention.bytes", bytes.to_string(), meaning);
        return Horizon::Unknown;
    };
    let retention = Duration::from_millis(retention);
    let meaning = "a segment goes when its newest record is older";
    horizons.fact("retention.ms", spelled(retention), meaning);
    if is_compacted {
        return Horizon::Endless;
    }
    let mut longest = retention.saturating_add(check);
    if let Some(segment) = millis(topic, "segment.ms") {
        let meaning = "a segment takes in records for so long; its oldest goes with its newest";
        horizons.fact("segment.ms", spelled(segment), meaning);
        longest = longest.saturating_add(segment);
    }
    if !is_appended && let Some(ahead) = millis(topic, "message.timestamp.after.max.ms") {
        if ahead < FOREVER {
            let meaning =
                "a producer's time may lie so far ahead, and its record stays so much longer";
            horizons.fact("message.timestamp.after.max.ms", spelled(ahead), meaning);
            longest = longest.saturating_add(ahead);
        } else {
            let meaning =
                "a record whose producer's time lies ahead stays longer; that is not counted";
            horizons.fact("message.timestamp.after.max.ms", "no limit", meaning);
        }
    }
    if longest < FOREVER {
        Horizon::Within(longest)
    } else {
        Horizon::Endless
    }
}

/// Returns warnings about the user's own properties.
fn of_client(options: &Options) -> Vec<Box<str>> {
    let mut warnings = Vec::new();
    if options.skips() {
        warnings.push(
            "auto.offset.reset does not begin at the earliest record: what a group has not read is skipped \
             when its offsets are forgotten; remove it"
                .into(),
        );
    }
    let is_uncommitted = |(name, value): &(Box<str>, Box<str>)| {
        &**name == "isolation.level" && &**value == "read_uncommitted"
    };
    if options.properties.iter().any(is_uncommitted) {
        warnings.push(
            "isolation.level is read_uncommitted: records of transactions that were broken off are handed \
             over, and their effects happen; remove it"
                .into(),
        );
    }
    warnings
}

/// Combines two topics; the farther horizon counts.
fn both(mut one: HorizonReport, mut other: HorizonReport) -> HorizonReport {
    one.redelivery = one.redelivery.max(other.redelivery);
    one.replay = one.replay.max(other.replay);
    one.is_stamped &= other.is_stamped;
    one.oldest = match (one.oldest, other.oldest) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    one.facts.append(&mut other.facts);
    one.unread.append(&mut other.unread);
    one.warnings.append(&mut other.warnings);
    one
}

fn is(settings: &Settings, name: &str, value: &str) -> bool {
    settings.get(name).is_some_and(|found| found == value)
}

fn number(settings: &Settings, name: &str) -> Option<i64> {
    settings.get(name)?.parse().ok()
}

fn millis(settings: &Settings, name: &str) -> Option<Duration> {
    let millis = u64::try_from(number(settings, name)?).ok()?;
    Some(Duration::from_millis(millis))
}

/// The usual time of an answer, after which it is plain that there is nobody.
const SOON: Duration = Duration::from_secs(1);
/// The longest wait for one answer of the cluster.
const PATIENCE: Duration = Duration::from_secs(5);
/// Hundredths of a second for which it listens for the cause of a failure.
const LISTEN: u32 = 30;
/// Kafka's own default, where a broker does not give it.
const USUAL_CHECK: Duration = Duration::from_secs(300);
/// As good as without end.
const FOREVER: Duration = units::LONGEST;

#[cfg(test)]
mod tests;
