//! What an effect is made of, once configuration has been read: typed, checked, no defaults left
//! open.

use std::path::PathBuf;
use std::time::Duration;

use semel_engine::effect::Class;

use crate::effect::SqlBinding;
use crate::effect::exec::Settings as ExecSettings;
use crate::effect::http::Settings as HttpSettings;
use crate::effect::jsonl::Settings as JsonlSettings;

/// What happens once per key.
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
}

impl EffectSettings {
    /// How the effect takes part in the proof.
    pub const fn class(&self) -> Class {
        match self {
            Self::Sql(_) | Self::File { .. } => Class::Transactional,
            Self::Http(_, class)
            | Self::Exec(_, class)
            | Self::Jsonl(_, class)
            | Self::Stdout(class) => *class,
        }
    }
}

/// What stays of a provider's window when a margin for clocks and queues is taken off: an eighth,
/// at most one minute.
pub fn within_provider_window(provider_window: Duration) -> Duration {
    provider_window.saturating_sub((provider_window / 8).min(Duration::from_secs(60)))
}
