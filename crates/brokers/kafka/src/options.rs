//! Settings of a member of a group.

use std::fmt;
use std::time::Duration;

use rdkafka::ClientConfig;
use semel_core::{Error, ErrorKind, Result};

/// Settings of a source.
#[derive(Clone)]
pub struct Options {
    /// `host:port`, several with commas between them.
    pub brokers: Box<str>,
    /// Topics to read; at least one.
    pub topics: Vec<Box<str>>,
    /// The consumer group, which shares the partitions among its members.
    pub group: Box<str>,
    /// librdkafka's own settings by name, such as `security.protocol` or `sasl.username`. Settings that affect commits
    /// are refused.
    pub properties: Vec<(Box<str>, Box<str>)>,
    /// The longest message that is handed over whole.
    pub max_message_bytes: usize,
    /// Offsets of a partition that may lie between its oldest unfinished record and the newest that was read: the most
    /// records that are read again after a crash.
    pub span: u32,
    /// Time for which a partition that is to leave waits for effects that have begun.
    pub drain: Duration,
    /// Time between two commits of finished prefixes, at most: a tenth of it where nothing is in hand.
    pub commit_every: Duration,
}

impl Options {
    /// Returns the usual settings: messages of at most 8 MiB, spans of 50,000 offsets, five seconds to drain, a commit
    /// every second.
    pub fn new(brokers: &str, topic: &str, group: &str) -> Self {
        Self {
            brokers: brokers.into(),
            topics: vec![topic.into()],
            group: group.into(),
            properties: Vec::new(),
            max_message_bytes: 8 << 20,
            span: 50_000,
            drain: Duration::from_secs(5),
            commit_every: Duration::from_secs(1),
        }
    }

    /// Returns the settings as librdkafka takes them.
    pub(crate) fn config(&self) -> Result<ClientConfig> {
        if self.topics.is_empty() {
            return Err(invalid("a Kafka source needs a topic"));
        }
        let mut config = client(&self.brokers, &self.properties, OURS)?;
        config.set("group.id", &*self.group);
        config.set("enable.auto.commit", "false");
        config.set("enable.auto.offset.store", "false");
        config.set("partition.assignment.strategy", "cooperative-sticky");
        if !self.has("auto.offset.reset") {
            // A record that is read again is recognized; a skipped one is lost.
            config.set("auto.offset.reset", "earliest");
        }
        if !self.has("fetch.queue.backoff.ms") {
            // Otherwise a consumer that has read all that was fetched ahead waits for the rest of a second.
            config.set("fetch.queue.backoff.ms", "5");
        }
        Ok(config)
    }

    /// Returns whether a group without offsets begins elsewhere than at the earliest record.
    pub(crate) fn skips(&self) -> bool {
        let mut properties = self.properties.iter();
        let reset = properties.rfind(|(name, _)| &**name == "auto.offset.reset");
        reset.is_some_and(|(_, value)| !matches!(&**value, "earliest" | "smallest" | "beginning"))
    }

    pub(crate) fn has(&self, property: &str) -> bool {
        self.properties.iter().any(|(name, _)| &**name == property)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of properties may be secrets.
        let names: Vec<_> = self.properties.iter().map(|(name, _)| name).collect();
        f.debug_struct("Options")
            .field("brokers", &self.brokers)
            .field("topics", &self.topics)
            .field("group", &self.group)
            .field("properties", &names)
            .finish_non_exhaustive()
    }
}

/// Builds the settings that both ends share: the brokers, and the user's properties by librdkafka's names.
pub(crate) fn client(
    brokers: &str,
    properties: &[(Box<str>, Box<str>)],
    ours: &[&str],
) -> Result<ClientConfig> {
    // Threads of librdkafka may outlive the end of `main`. By itself, OpenSSL frees what they use as the process exits,
    // and one that frees the same then aborts it.
    #[cfg(feature = "tls")]
    openssl_sys::init();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    config.set("client.id", "semel");
    for (name, value) in properties {
        if ours.contains(&&**name) {
            let message =
                format!("`{name}` decides what is settled, and is Semel's to set; remove it");
            return Err(invalid(message));
        }
        if !cfg!(feature = "tls") && wants_tls(name, value) {
            let message = format!(
                "`{name}` is {value}, and this program was built without encryption for Kafka; build it with \
                 --features kafka-tls"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        config.set(&**name, &**value);
    }
    // A user who sets one of the two has both; librdkafka refuses a first pause above the longest.
    if [RECONNECT_FIRST, RECONNECT_LONGEST]
        .iter()
        .all(|name| config.get(name).is_none())
    {
        config.set(RECONNECT_LONGEST, "1000");
    }
    Ok(config)
}

/// Returns whether librdkafka needs OpenSSL for a setting.
fn wants_tls(name: &str, value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    match name {
        "security.protocol" => value.ends_with("ssl"),
        "sasl.mechanism" | "sasl.mechanisms" => {
            value.starts_with("scram") || value == "oauthbearer"
        }
        _ => false,
    }
}

pub(crate) fn invalid(message: impl Into<Box<str>>) -> Error {
    let message: Box<str> = message.into();
    Error::new(ErrorKind::InvalidConfig, String::from(message))
}

/// Setting that decides whether asking for a topic creates it, where the brokers allow that.
pub(crate) const AUTO_CREATE: &str = "allow.auto.create.topics";

/// The pauses before a broker is connected to again. librdkafka's longest is ten seconds, for which it does not notice
/// that a broker has gone, nor that it is back; Kafka's own clients wait one second at most.
const RECONNECT_FIRST: &str = "reconnect.backoff.ms";
const RECONNECT_LONGEST: &str = "reconnect.backoff.max.ms";

/// Settings of a consumer that the user cannot have.
const OURS: &[&str] = &[
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "group.id",
    "partition.assignment.strategy",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_on_commits_is_ours() {
        for name in OURS {
            let mut options = Options::new("localhost:9092", "payments", "billing");
            options.properties.push(((*name).into(), "true".into()));
            let error = options.config().expect_err("ours");
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn what_the_user_says_is_passed_on_and_not_shown() {
        let mut options = Options::new("localhost:9092", "payments", "billing");
        let password = ("sasl.password".into(), "geheim".into());
        options.properties.push(password);
        let config = options.config().expect("settings");
        assert_eq!(config.get("sasl.password"), Some("geheim"));
        assert_eq!(config.get("enable.auto.commit"), Some("false"));
        assert_eq!(config.get("auto.offset.reset"), Some("earliest"));
        assert!(!format!("{options:?}").contains("geheim"));
    }

    #[test]
    fn a_broker_is_connected_to_again_within_a_second_unless_the_user_says_otherwise() {
        let longest = |set: &[(&str, &str)]| {
            let set = set
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()));
            let config = client("localhost:9092", &set.collect::<Vec<_>>(), OURS);
            config
                .expect("settings")
                .get(RECONNECT_LONGEST)
                .map(str::to_owned)
        };
        assert_eq!(longest(&[]).as_deref(), Some("1000"));
        assert_eq!(
            longest(&[(RECONNECT_LONGEST, "5000")]).as_deref(),
            Some("5000")
        );
        assert_eq!(longest(&[(RECONNECT_FIRST, "3000")]), None);
    }

    #[test]
    fn where_to_begin_may_be_said() {
        let mut options = Options::new("localhost:9092", "payments", "billing");
        let latest = ("auto.offset.reset".into(), "latest".into());
        options.properties.push(latest);
        let config = options.config().expect("settings");
        assert_eq!(config.get("auto.offset.reset"), Some("latest"));
    }
}
