//! Horizons of a stream, as the server's settings give them. Looks only: creates no consumer, acknowledges nothing.

use std::time::Duration;

use async_nats::jetstream::consumer;
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy};
use semel_core::port::horizon::{Horizon, HorizonReport};
use semel_core::units::spelled;
use semel_core::{Code, Result, Timestamp};

use crate::consumer::{differences, found, of_stream, stream, usable};
use crate::link::{Link, PATIENCE};
use crate::options::Options;

/// Returns the time for which the messages of the stream can come again.
///
/// # Errors
///
/// As those of [`NatsSource::connect`](crate::NatsSource::connect), but a consumer that is not there is none
///
/// # Cancel safety
///
/// Safe
pub async fn inspect(options: &Options) -> Result<HorizonReport> {
    let address = options.address()?;
    let link = Link::open(&address, Code::SourceUnavailable, PATIENCE).await?;
    let stream = stream(&link, options).await?;
    let consumer = found(&link, &stream, options).await?;
    let info = stream.cached_info();
    let mut horizons = of_config(&info.config);
    if info.state.messages > 0 {
        let nanos = info.state.first_timestamp.unix_timestamp_nanos();
        let oldest = u64::try_from(nanos / 1_000_000).ok();
        horizons.oldest = oldest.map(Timestamp::from_millis);
        if let Some(oldest) = horizons.oldest {
            horizons.fact(
                "first_ts",
                oldest.to_string(),
                "the oldest message that is still there",
            );
        }
    }
    match consumer {
        Some(there) => {
            usable(&there, options)?;
            add_consumer(&mut horizons, &there);
            let worse = differences(&there, options).into_iter();
            horizons.warnings.extend(worse.map(String::into_boxed_str));
        }
        None => horizons.fact("consumer", "not there yet", "a run makes it"),
    }
    let worse = of_stream(&info.config).into_iter();
    horizons.warnings.extend(worse.map(String::into_boxed_str));
    link.end().await;
    Ok(horizons)
}

/// Derives the horizons from the settings of a stream.
fn of_config(config: &stream::Config) -> HorizonReport {
    let mut horizons = HorizonReport::unknown();
    // Every message has the time at which the stream took it in.
    horizons.is_stamped = true;
    let kept = if config.max_age.is_zero() {
        let meaning = "no message goes because it is old";
        horizons.fact("max_age", "0", meaning);
        let by_size = config.max_messages > 0 || config.max_bytes > 0;
        if by_size && config.discard == DiscardPolicy::Old {
            let meaning =
                "the oldest go by number or size: how long they stay depends on how many come";
            horizons.fact("max_msgs, max_bytes", "set", meaning);
            Horizon::Unknown
        } else {
            Horizon::Endless
        }
    } else {
        let meaning = "a message goes when it is older";
        horizons.fact("max_age", spelled(config.max_age), meaning);
        Horizon::Within(config.max_age)
    };
    (horizons.redelivery, horizons.replay) = (kept, kept);
    let (policy, meaning) = match config.retention {
        RetentionPolicy::Limits => (
            "limits",
            "an acknowledged message stays, and another consumer gets it again",
        ),
        RetentionPolicy::Interest => (
            "interest",
            "a message goes when all consumers have acknowledged it",
        ),
        RetentionPolicy::WorkQueue => ("workqueue", "a message goes when it is acknowledged"),
    };
    horizons.fact("retention", policy, meaning);
    horizons.fact(
        "duplicate_window",
        spelled(config.duplicate_window),
        "so long the stream drops a second message with the same Nats-Msg-Id; later ones come through, and \
         Semel's window tells them",
    );
    horizons
}

/// Adds the facts from the settings of a consumer.
fn add_consumer(horizons: &mut HorizonReport, there: &consumer::Config) {
    let meaning = "a delivery that is not extended comes again after so long";
    if there.backoff.is_empty() {
        horizons.fact("ack_wait", spelled(there.ack_wait), meaning);
    } else {
        let waits: Vec<_> = there.backoff.iter().copied().map(spelled).collect();
        horizons.fact("backoff", waits.join(", "), meaning);
    }
    match u32::try_from(there.max_deliver) {
        Ok(most) if most > 0 => {
            horizons.deliveries = Some(most);
            let waited = longest_wait(there).saturating_mul(most);
            let meaning = format!(
                "a message that is never extended is left out for good after {}",
                spelled(waited)
            );
            horizons.fact("max_deliver", most.to_string(), meaning);
        }
        _ => horizons.fact("max_deliver", "-1", "deliveries are not limited"),
    }
}

fn longest_wait(there: &consumer::Config) -> Duration {
    let longest = there.backoff.iter().copied().max();
    longest.unwrap_or(there.ack_wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn config() -> stream::Config {
        stream::Config {
            max_messages: -1,
            max_bytes: -1,
            ..stream::Config::default()
        }
    }

    #[test]
    fn a_message_stays_for_max_age_or_without_end() {
        for (config, expected) in [
            (config(), Horizon::Endless),
            (
                stream::Config {
                    max_age: DAY,
                    ..config()
                },
                Horizon::Within(DAY),
            ),
            (
                stream::Config {
                    max_age: DAY,
                    max_messages: 10,
                    ..config()
                },
                Horizon::Within(DAY),
            ),
            (
                stream::Config {
                    max_messages: 10,
                    ..config()
                },
                Horizon::Unknown,
            ),
            (
                stream::Config {
                    max_bytes: 10,
                    ..config()
                },
                Horizon::Unknown,
            ),
            (
                stream::Config {
                    max_bytes: 10,
                    discard: DiscardPolicy::New,
                    ..config()
                },
                Horizon::Endless,
            ),
        ] {
            let horizons = of_config(&config);
            assert_eq!(horizons.redelivery, expected, "{config:?}");
            assert_eq!(horizons.replay, expected, "{config:?}");
            assert!(horizons.is_stamped);
        }
    }

    #[test]
    fn a_limit_of_deliveries_is_told_with_what_it_comes_to() {
        let mut horizons = HorizonReport::unknown();
        let there = consumer::Config {
            ack_wait: Duration::from_secs(30),
            max_deliver: 5,
            ..consumer::Config::default()
        };
        add_consumer(&mut horizons, &there);
        assert_eq!(horizons.deliveries, Some(5));
        let limit = horizons
            .facts
            .iter()
            .find(|fact| &*fact.name == "max_deliver");
        let limit = limit.expect("a limit");
        assert!(limit.meaning.ends_with("after 2m 30s"), "{}", limit.meaning);
        let mut horizons = HorizonReport::unknown();
        let there = consumer::Config {
            max_deliver: -1,
            backoff: vec![Duration::from_secs(1), Duration::from_secs(60)],
            ..there
        };
        add_consumer(&mut horizons, &there);
        assert_eq!(horizons.deliveries, None);
        assert!(horizons.facts.iter().any(|fact| &*fact.value == "1s, 1m"));
    }
}
