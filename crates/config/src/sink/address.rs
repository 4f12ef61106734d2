//! A target as it is typed: the url of a broker, and a place there.

use std::time::Duration;

use semel_core::percent;
use semel_tls::Tls;

use super::{SinkPlace, SinkSettings, TIMEOUT};
use crate::refusal::Refusal;
use crate::secret::masked;
use crate::suggestion::suggestion;

impl SinkSettings {
    /// Reads the url of a broker, `kafka://HOST:PORT`, `nats://…` or `amqp://…`, and the place to publish to: a topic, a
    /// subject, or a queue. Behind `?`, a url of Kafka has properties of librdkafka.
    ///
    /// # Errors
    ///
    /// A scheme that is no broker's, no host, no place, a property that breaks idempotence. Says nothing that may be a
    /// secret.
    pub fn parse(url: &str, place: &str) -> Result<Self, Refusal> {
        if place.is_empty() || place.contains(char::is_control) {
            return Err(Refusal::from(
                "the place to publish to is a topic, a subject or a queue".to_owned(),
            ));
        }
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        if !SCHEMES.contains(&scheme) {
            let is_word = scheme.len() <= 20 && scheme.bytes().all(|it| it.is_ascii_alphanumeric());
            let scheme = if is_word { scheme } else { "…" };
            return Err(Refusal::from(format!(
                "`{scheme}` is no broker; a url is `kafka://HOST:PORT`, `nats://HOST:PORT` or \
                 `amqp://USER:PASSWORD@HOST:PORT/VHOST`; {}",
                suggestion(scheme, &SCHEMES)
            )));
        }
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        if host.rsplit('@').next().is_none_or(str::is_empty) {
            return Err(Refusal::from(format!(
                "`{scheme}://` names no host, as in `{scheme}://127.0.0.1`"
            )));
        }
        let place = place.to_owned();
        let (place, timeout) = match scheme {
            "kafka" => (kafka(rest, place)?, FOR_EVER),
            "nats" | "tls" => (
                SinkPlace::Nats {
                    url: url.to_owned(),
                    subject: place,
                    credentials: None,
                    tls: Tls::default(),
                },
                TIMEOUT,
            ),
            _ => (
                SinkPlace::Amqp {
                    url: url.to_owned(),
                    tls: Tls::default(),
                    exchange: String::new(),
                    routing_key: place,
                },
                TIMEOUT,
            ),
        };
        Ok(Self { place, timeout })
    }

    /// Returns the target and its servers, without secrets: the same in whatever order those of Kafka are written.
    pub fn address(&self) -> String {
        match &self.place {
            SinkPlace::Kafka { brokers, .. } => {
                let mut brokers: Vec<_> = brokers.split(',').map(str::trim).collect();
                brokers.sort_unstable();
                brokers.dedup();
                format!("{self} at {}", brokers.join(","))
            }
            SinkPlace::Nats { url, .. } | SinkPlace::Amqp { url, .. } => {
                format!("{self} at {}", masked(url))
            }
        }
    }
}

fn kafka(rest: &str, topic: String) -> Result<SinkPlace, Refusal> {
    let (brokers, query) = rest.split_once('?').unwrap_or((rest, ""));
    let brokers = brokers.trim_end_matches('/');
    if brokers.contains('@') {
        return Err(Refusal::from(
            "a url of Kafka has no user; name it by properties, as in \
             `?security.protocol=SASL_SSL&sasl.mechanism=PLAIN&sasl.username=…&sasl.password=…`"
                .to_owned(),
        ));
    }
    if brokers.contains('/') {
        return Err(Refusal::from(
            "a url of Kafka has no path; the topic is the argument of --stream".to_owned(),
        ));
    }
    let mut properties = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            let wanted = "behind `?`, a url of Kafka has NAME=VALUE, with & between them";
            Refusal::from(wanted.to_owned())
        })?;
        if let Some(why) = conflict(name, value) {
            return Err(Refusal::from(format!("{name}: {why}")));
        }
        // What is so in any case is not said twice.
        if !OURS.contains(&name) {
            properties.push((name.to_owned(), decoded(value)?));
        }
    }
    Ok(SinkPlace::Kafka {
        brokers: brokers.to_owned(),
        topic,
        properties,
        has_id_header: true,
    })
}

/// Returns why a property breaks the idempotence of a producer, if it does.
fn conflict(name: &str, value: &str) -> Option<&'static str> {
    let number: Option<u64> = value.parse().ok();
    match name {
        "acks" | "request.required.acks" if !matches!(value, "all" | "-1") => {
            Some("with fewer confirmations, messages get lost; leave it out, it is `all`")
        }
        "enable.idempotence" if value != "true" => {
            Some("without it, a retry writes a message twice; leave it out, it is `true`")
        }
        "max.in.flight" | "max.in.flight.requests.per.connection"
            if number.is_none_or(|it| it > 5) =>
        {
            Some("with more than 5 requests in flight, Kafka keeps no order; leave it out")
        }
        "retries" | "message.send.max.retries" if number.is_none_or(|it| it < 2_147_483_647) => {
            Some("what is given up is overtaken; leave it out, retries have no limit")
        }
        "message.timeout.ms" | "delivery.timeout.ms" => {
            Some("what is given up is overtaken; leave it out, messages wait for the broker")
        }
        "delivery.report.only.error" if value != "false" => {
            Some("without word of what arrived, nothing is ever confirmed; leave it out")
        }
        "partitioner" if !KEYED.contains(&value) => {
            Some("it does not go by the key alone, so that nothing is in order; leave it out")
        }
        "bootstrap.servers" | "metadata.broker.list" => {
            Some("the cluster is that behind `kafka://`; leave it out")
        }
        "transactional.id" => Some("a producer has a sequence of its own instead; leave it out"),
        _ => None,
    }
}

/// Decodes `%41` and the like.
fn decoded(value: &str) -> Result<String, Refusal> {
    let bad = || Refusal::from("a value in the url has a `%` without two digits".to_owned());
    percent::decoded(value).ok_or_else(bad)
}

/// The partitioners that give all messages of a key one partition.
const KEYED: [&str; 6] = [
    "consistent",
    "consistent_random",
    "murmur2",
    "murmur2_random",
    "fnv1a",
    "fnv1a_random",
];
const OURS: [&str; 3] = ["acks", "request.required.acks", "enable.idempotence"];
const SCHEMES: [&str; 5] = ["kafka", "nats", "tls", "amqp", "amqps"];
/// The time that a message may be under way where the driver keeps it, in order, for as long as the broker is away.
const FOR_EVER: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_as_it_is_typed() {
        let kafka = "kafka://one:9092,two:9092?linger.ms=5&acks=all&sasl.password=a%26b";
        let kafka = SinkSettings::parse(kafka, "orders").expect("a target");
        let SinkPlace::Kafka {
            brokers,
            properties,
            ..
        } = &kafka.place
        else {
            panic!("{kafka:?}")
        };
        assert_eq!(brokers, "one:9092,two:9092");
        assert_eq!(properties[1].1, "a&b");
        assert_eq!(kafka.address(), "kafka orders at one:9092,two:9092");
        let turned = SinkSettings::parse("kafka://two:9092,one:9092", "orders");
        assert_eq!(turned.expect("a target").address(), kafka.address());
        let amqp = SinkSettings::parse("amqp://me:geheim@host:5672/%2f", "orders");
        let amqp = amqp.expect("a target").address();
        assert!(
            amqp.starts_with("amqp orders at ") && !amqp.contains("geheim"),
            "{amqp}"
        );
        assert!(SinkSettings::parse("nats://127.0.0.1:4222", "orders.new").is_ok());
    }

    #[test]
    fn what_is_no_target_is_refused_and_says_what_to_write() {
        for (url, place, words) in [
            ("kafak://host:9092", "orders", "kafka"),
            ("host:9092", "orders", "kafka://HOST:PORT"),
            ("nats://", "orders", "names no host"),
            ("kafka://host:9092", "", "a topic"),
            ("kafka://me:geheim@host:9092", "orders", "sasl.username"),
            ("kafka://host:9092/orders", "orders", "--stream"),
            ("kafka://host:9092?acks=1", "orders", "acks"),
            (
                "kafka://host:9092?enable.idempotence=false",
                "orders",
                "enable.idempotence",
            ),
            (
                "kafka://host:9092?max.in.flight=6",
                "orders",
                "max.in.flight",
            ),
            ("kafka://host:9092?retries=3", "orders", "retries"),
            (
                "kafka://host:9092?message.timeout.ms=9",
                "orders",
                "message.timeout.ms",
            ),
            (
                "kafka://host:9092?transactional.id=x",
                "orders",
                "transactional.id",
            ),
            (
                "kafka://host:9092?delivery.report.only.error=true",
                "orders",
                "confirmed",
            ),
            ("kafka://host:9092?partitioner=random", "orders", "the key"),
            (
                "kafka://host:9092?metadata.broker.list=x:1",
                "orders",
                "metadata.broker.list",
            ),
            ("kafka://host:9092?client.id=%4", "orders", "%"),
        ] {
            let refused = SinkSettings::parse(url, place).expect_err(url).to_string();
            assert!(refused.contains(words), "{url}: {refused}");
            assert!(!refused.contains("geheim"), "{refused}");
        }
    }
}
