//! Configuration in two stages: what was written, where ([`tree`]), and what it means, checked
//! across settings ([`settings`]). Every fault is found, not only the first.

mod admin;
mod effect;
#[cfg(test)]
mod everything;
mod fields;
mod found;
mod layers;
mod node;
mod paths;
mod pipeline;
#[cfg(test)]
mod reference;
mod refusal;
pub(crate) mod same_file;
mod settings;
mod show;
mod sink;
mod source;
mod store;
mod streamed;
mod suggest;
mod tls;
mod tree;
mod waived;

pub(crate) use layers::{Cache, Front};
pub(crate) use pipeline::PipelineSettings;
pub(crate) use refusal::Refusal;
pub(crate) use settings::{Backends, Overrides, Settings};
pub(crate) use sink::{SinkPlace, SinkSettings};
pub(crate) use source::{AmqpSettings, KafkaSettings, NatsSettings, SourceSettings};
pub(crate) use store::{Accepted, ServerKind, ServerUrl, Servers, StoreUrl};
pub(crate) use suggest::suggestion;
pub(crate) use waived::Waived;

use semel_core::Code;

/// Every setting with its default, as the book has it.
pub(crate) const REFERENCE: &str = include_str!("../../../docs/book/src/reference/config.toml");

/// One thing that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Where it was written: `semel.toml:12`, an environment variable, a flag.
    pub(crate) origin: String,
    /// The setting: `pipelines.payments.key`.
    pub(crate) path: String,
    /// What is wrong and what to do, one line.
    pub(crate) message: String,
    /// Its stable code.
    pub(crate) code: Code,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            origin,
            path,
            message,
            code,
        } = self;
        if path.is_empty() {
            write!(f, "{origin}: {message} [{code}]")
        } else {
            write!(f, "{origin}: {path}: {message} [{code}]")
        }
    }
}
