//! The settings of an effect, once configuration has been read: typed, checked, no defaults left
//! open.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use semel_engine::effect::Class;

use crate::effect::SqlBinding;
use crate::effect::exec::Settings as ExecSettings;
use crate::effect::http::Settings as HttpSettings;
use crate::effect::jsonl::Settings as JsonlSettings;
use crate::effect::publish::Settings as PublishSettings;

/// The effect that happens once per key.
#[derive(Clone, Debug)]
pub enum EffectSettings {
    /// Statements in the store's own transaction.
    Sql(SqlBinding),
    /// An output file, kept exact by its recorded length.
    File {
        /// Its path.
        path: PathBuf,
    },
    /// An HTTP call.
    Http(HttpSettings, Class),
    /// A command per message.
    Exec(ExecSettings, Class),
    /// One command for all messages, line by line.
    Jsonl(JsonlSettings, Class),
    /// Standard output.
    Stdout(Class),
    /// A place of a broker.
    Publish(PublishSettings),
    /// A topic of the source's own cluster, in its transactions.
    Streamed(Box<StreamedSettings>),
}

impl EffectSettings {
    /// Returns the kind of the effect, one word.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Sql(_) => "sql",
            Self::File { .. } => "file",
            Self::Http(..) => "http",
            Self::Exec(..) => "exec",
            Self::Jsonl(..) => "jsonl",
            Self::Stdout(_) => "stdout",
            Self::Publish(_) => "publish",
            Self::Streamed(_) => "streamed",
        }
    }
}

/// The output in transactions of the source's cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct StreamedSettings {
    /// The topic of the output.
    pub topic: String,
    /// The topic that records which operations are completed.
    pub changelog: String,
    /// The name of this worker's transactions; one of its own where there is none.
    pub transactional_id: Option<String>,
    /// The time for which a transaction may be open.
    pub transaction_timeout: Duration,
    /// The producer's own settings; some are secrets.
    pub properties: Vec<(String, String)>,
    /// True if the user guarantees that records of a key are in one partition.
    pub is_copartitioned: bool,
    /// True if the id of its operation is sent with each output.
    pub has_id_header: bool,
    /// The command that makes the output of a message; without it, the output is the message
    /// itself.
    pub transform: Option<JsonlSettings>,
}

impl fmt::Debug for StreamedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "streamed to {}, changelog {}",
            self.topic, self.changelog
        )
    }
}

impl EffectSettings {
    /// The way in which the effect takes part in the proof, as far as it is known before the broker
    /// was asked.
    pub fn class(&self) -> Class {
        match self {
            Self::Sql(_) | Self::File { .. } => Class::Transactional,
            Self::Http(_, class)
            | Self::Exec(_, class)
            | Self::Jsonl(_, class)
            | Self::Stdout(class) => *class,
            Self::Publish(settings) => settings.class(),
            Self::Streamed(_) => Class::Streamed,
        }
    }

    /// The program that the effect starts, as it is named in the settings.
    pub fn program(&self) -> Option<&str> {
        let command = match self {
            Self::Exec(settings, _) => &settings.command,
            Self::Jsonl(settings, _) => &settings.command,
            Self::Streamed(settings) => &settings.transform.as_ref()?.command,
            Self::Sql(_)
            | Self::File { .. }
            | Self::Http(..)
            | Self::Stdout(_)
            | Self::Publish(_) => return None,
        };
        command.first().map(String::as_str)
    }
}
