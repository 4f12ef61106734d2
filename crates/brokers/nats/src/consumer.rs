//! The durable consumer: created where it is absent, checked where it is there.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{self, AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::context::{ConsumerInfoErrorKind, GetStreamErrorKind};
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{self, ConsumerCreateStrictErrorKind, StorageType, Stream};
use semel_core::code::Code;
use semel_core::{Error, Result};

use crate::error::{answered, away, wrong};
use crate::link::Link;
use crate::options::Options;

pub(crate) const CODE: Code = Code::SourceUnavailable;

/// Properties of the consumer.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Time after which the server takes a delivery back.
    pub(crate) ack_wait: Duration,
    /// The most messages that one request may ask for.
    pub(crate) max_batch: Option<usize>,
    /// The longest that one request may wait.
    pub(crate) max_expires: Option<Duration>,
    /// Findings for the operator, a sentence each.
    pub(crate) findings: Vec<String>,
}

/// Finds the consumer that `options` name, or creates it.
pub(crate) async fn ensure(link: &Link, options: &Options) -> Result<Facts> {
    let stream = stream(link, options).await?;
    let there = match found(link, &stream, options).await? {
        Some(there) => there,
        None => make(link, &stream, options).await?,
    };
    usable(&there, options)?;
    let mut findings = differences(&there, options);
    findings.extend(of_stream(&stream.cached_info().config));
    Ok(Facts {
        ack_wait: shortest_wait(&there),
        max_batch: usize::try_from(there.max_batch).ok().filter(|max| *max > 0),
        max_expires: Some(there.max_expires).filter(|max| !max.is_zero()),
        findings,
    })
}

/// Returns the stream that `options` name.
pub(crate) async fn stream(link: &Link, options: &Options) -> Result<Stream> {
    let stream = link
        .during(link.context.get_stream(&options.stream))
        .await?;
    stream.map_err(|error| match error.kind() {
        GetStreamErrorKind::JetStream(error)
            if error.error_code() == ErrorCode::STREAM_NOT_FOUND =>
        {
            no_stream(options)
        }
        GetStreamErrorKind::JetStream(error) => answered(
            CODE,
            &format!("look at the stream {}", options.stream),
            error,
        ),
        GetStreamErrorKind::EmptyName | GetStreamErrorKind::InvalidStreamName => no_stream(options),
        GetStreamErrorKind::Request => away(
            CODE,
            "JetStream does not answer; is it enabled on the server and for the account?",
        )
        .with_source(error),
    })
}

/// Returns the consumer that `options` name, if it is there.
pub(crate) async fn found(
    link: &Link,
    stream: &Stream,
    options: &Options,
) -> Result<Option<consumer::Config>> {
    match link.during(stream.consumer_info(&options.consumer)).await? {
        Ok(info) => Ok(Some(info.config)),
        Err(error) => match error.kind() {
            ConsumerInfoErrorKind::NotFound => Ok(None),
            ConsumerInfoErrorKind::StreamNotFound => Err(no_stream(options)),
            ConsumerInfoErrorKind::JetStream(error) => {
                Err(answered(CODE, &attempt("look at", options), error))
            }
            ConsumerInfoErrorKind::InvalidName
            | ConsumerInfoErrorKind::Offline
            | ConsumerInfoErrorKind::Request
            | ConsumerInfoErrorKind::TimedOut
            | ConsumerInfoErrorKind::NoResponders => {
                let message = format!("cannot {}", attempt("look at", options));
                Err(away(CODE, message).with_source(error))
            }
        },
    }
}

/// Returns the consumer as it stands: the number of its deliveries in hand, and of the messages
/// that wait for it.
pub(crate) async fn info(link: &Link, options: &Options) -> Result<consumer::Info> {
    let Options {
        stream, consumer, ..
    } = options;
    let subject = format!("CONSUMER.INFO.{stream}.{consumer}");
    // An empty object: the server takes no other payload.
    let nothing = BTreeMap::<&str, &str>::new();
    let asked = link.context.request(subject, &nothing);
    let answer: Response<consumer::Info> = link.during(asked).await?.map_err(|error| {
        let message = format!("cannot {}", attempt("look at", options));
        away(CODE, message).with_source(error)
    })?;
    match answer {
        Response::Ok(info) => Ok(info),
        Response::Err { error } => Err(answered(CODE, &attempt("look at", options), error)),
    }
}

async fn make(link: &Link, stream: &Stream, options: &Options) -> Result<consumer::Config> {
    let config = pull::Config {
        durable_name: Some(options.consumer.clone()),
        ack_policy: AckPolicy::Explicit,
        deliver_policy: DeliverPolicy::All,
        ack_wait: options.lease,
        max_deliver: -1,
        max_ack_pending: i64::from(options.max_ack_pending),
        filter_subject: options.filter_subject.clone().unwrap_or_default(),
        ..pull::Config::default()
    };
    let made = created(link, stream, config, &attempt("make", options)).await?;
    Ok(made.config)
}

/// Creates a consumer that is not there yet. `attempt` names the action, for errors.
pub(crate) async fn created(
    link: &Link,
    stream: &Stream,
    config: pull::Config,
    attempt: &str,
) -> Result<consumer::Info> {
    match link.during(stream.create_consumer_strict(config)).await? {
        Ok(made) => Ok(made.cached_info().clone()),
        Err(error) => Err(match error.kind() {
            ConsumerCreateStrictErrorKind::JetStream(error) => answered(CODE, attempt, error),
            // Another worker was faster: the next try finds it.
            ConsumerCreateStrictErrorKind::AlreadyExists
            | ConsumerCreateStrictErrorKind::TimedOut
            | ConsumerCreateStrictErrorKind::Request
            | ConsumerCreateStrictErrorKind::InvalidConsumerType
            | ConsumerCreateStrictErrorKind::InvalidName
            | ConsumerCreateStrictErrorKind::Other => {
                away(CODE, format!("cannot {attempt}")).with_source(error)
            }
        }),
    }
}

/// Refuses a consumer with settings under which no promise could be kept.
pub(crate) fn usable(there: &consumer::Config, options: &Options) -> Result<()> {
    let name = format!("the consumer {} of {}", options.consumer, options.stream);
    if there.deliver_subject.is_some() {
        return Err(wrong(format!(
            "{name} is a push consumer; name another, or delete it"
        )));
    }
    if there.ack_policy != AckPolicy::Explicit {
        return Err(wrong(format!(
            "{name} has the acknowledgement policy {:?}, which settles messages that nobody named; it must \
             be explicit: name another, or delete it",
            there.ack_policy
        )));
    }
    if there.headers_only {
        return Err(wrong(format!(
            "{name} delivers headers only; name another, or delete it"
        )));
    }
    match (&options.filter_subject, filters(there)) {
        (Some(wanted), has) if has != [wanted.as_str()] => Err(wrong(format!(
            "{name} filters by {has:?}, not by {wanted:?}; name another, or change one of the two"
        ))),
        _ => Ok(()),
    }
}

/// Lists the settings that make the consumer less good than one that Semel would create.
pub(crate) fn differences(there: &consumer::Config, options: &Options) -> Vec<String> {
    let name = format!("consumer {}", options.consumer);
    let mut findings = Vec::new();
    let wait = shortest_wait(there);
    if wait < options.lease {
        findings.push(format!(
            "{name}: the server takes a delivery back after {wait:?}, though the lease is {:?}; raise \
             ack_wait (and backoff), or messages may be delivered while they are worked on",
            options.lease
        ));
    }
    if there.max_deliver > 0 {
        findings.push(format!(
            "{name}: max_deliver is {}; after as many deliveries the server leaves a message out for good, \
             settled or not; set it to -1",
            there.max_deliver
        ));
    }
    if there.deliver_policy != DeliverPolicy::All {
        findings.push(format!(
            "{name}: it was made to begin at {:?}, not at the first message of the stream",
            there.deliver_policy
        ));
    }
    let filters = filters(there);
    if options.filter_subject.is_none() && !filters.is_empty() {
        findings.push(format!("{name}: it delivers only what is on {filters:?}"));
    }
    if there.memory_storage {
        findings.push(format!(
            "{name}: what was acknowledged is kept in memory alone and forgotten in a restart"
        ));
    }
    if !there.inactive_threshold.is_zero() {
        findings.push(format!(
            "{name}: the server deletes it after {:?} without a source, and with it what was acknowledged",
            there.inactive_threshold
        ));
    }
    findings
}

pub(crate) fn of_stream(config: &stream::Config) -> Option<String> {
    (config.storage == StorageType::Memory).then(|| {
        format!(
            "stream {}: its messages are in memory alone and lost in a restart",
            config.name
        )
    })
}

/// Returns the subjects of which it delivers; none where it delivers all.
pub(crate) fn filters(there: &consumer::Config) -> Vec<&str> {
    let several = there.filter_subjects.iter().map(String::as_str);
    let one = Some(there.filter_subject.as_str()).filter(|one| !one.is_empty());
    several.chain(one).collect()
}

/// Returns the shortest wait: a backoff list stands in for `ack_wait`, delivery by delivery.
fn shortest_wait(there: &consumer::Config) -> Duration {
    there
        .backoff
        .iter()
        .copied()
        .min()
        .unwrap_or(there.ack_wait)
}

fn attempt(verb: &str, options: &Options) -> String {
    format!(
        "{verb} the consumer {} of the stream {}",
        options.consumer, options.stream
    )
}

fn no_stream(options: &Options) -> Error {
    let stream = &options.stream;
    wrong(format!(
        "there is no stream {stream}; create it, or correct the name"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new("nats://x", "S", "c")
    }

    fn good() -> consumer::Config {
        consumer::Config {
            ack_wait: options().lease,
            max_deliver: -1,
            ..consumer::Config::default()
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        usable(&good(), &options()).expect("good");
        let bad = [
            consumer::Config {
                ack_policy: AckPolicy::All,
                ..good()
            },
            consumer::Config {
                ack_policy: AckPolicy::None,
                ..good()
            },
            consumer::Config {
                deliver_subject: Some("x".to_owned()),
                ..good()
            },
            consumer::Config {
                headers_only: true,
                ..good()
            },
        ];
        for bad in bad {
            let error = usable(&bad, &options()).expect_err("of no use");
            assert!(error.to_string().contains("the consumer c of S"), "{error}");
        }
        let wanted = Options {
            filter_subject: Some("a.>".to_owned()),
            ..options()
        };
        assert!(usable(&good(), &wanted).is_err());
        let same = consumer::Config {
            filter_subject: "a.>".to_owned(),
            ..good()
        };
        usable(&same, &wanted).expect("the same filter");
    }

    #[test]
    fn what_is_worse_is_told() {
        assert_eq!(differences(&good(), &options()), [""; 0]);
        let second = Duration::from_secs(1);
        let worse = [
            consumer::Config {
                ack_wait: second,
                ..good()
            },
            consumer::Config {
                backoff: vec![options().lease, second],
                ..good()
            },
            consumer::Config {
                max_deliver: 3,
                ..good()
            },
            consumer::Config {
                deliver_policy: DeliverPolicy::New,
                ..good()
            },
            consumer::Config {
                filter_subject: "a".to_owned(),
                ..good()
            },
            consumer::Config {
                memory_storage: true,
                ..good()
            },
            consumer::Config {
                inactive_threshold: second,
                ..good()
            },
        ];
        for worse in worse {
            assert_eq!(differences(&worse, &options()).len(), 1, "{worse:?}");
        }
    }
}
