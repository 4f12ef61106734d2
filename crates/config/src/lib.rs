//! The configuration of a worker: takes the text of a file and the variables of an environment, and returns
//! [`Settings`] or every [`Fault`].
//!
//! Reading has two stages. The first collects the written values and their places: the file, the variables over
//! it, and the flags ([`Overrides`]) over both. The second takes the settings out of them one by one, each with
//! its default, and checks them against each other. Neither stops at the first fault. The settings that were
//! taken can be shown again, each with its origin, without secrets ([`Effective`]).
//!
//! The crate opens no store and knows no driver of one. A program passes in its built-in backends
//! ([`Backends`]). Of the file system, the crate reads the files of secrets that settings name, and checks
//! whether two paths lead to one file.
//!
//! ```
//! use semel_config::{Backends, Overrides, Servers, Settings};
//!
//! # fn backends() -> Backends {
//! #     let servers = Servers { is_built_in: |_| false, check: |_| Ok(()) };
//! #     Backends { servers, target: |_| unreachable!("nothing is published") }
//! # }
//! let text = r#"
//!     [pipelines.payments]
//!     source = { kind = "stdin" }
//!     key = "json:/id"
//!     effect = { kind = "stdot" }
//! "#;
//! let variables = std::iter::once(("SEMEL__SHUTDOWN".into(), "soon".into()));
//! let read = Settings::of("semel.toml", text, variables, &Overrides::default(), backends());
//! let faults: Vec<_> = read.err().into_iter().flatten().map(|fault| fault.to_string()).collect();
//! assert_eq!(faults.len(), 2, "{faults:?}");
//! assert!(faults[0].starts_with("semel.toml:5: pipelines.payments.effect.kind: `stdot` is no kind of effect"));
//! assert!(faults[1].starts_with("SEMEL__SHUTDOWN: shutdown: `soon` is no duration"));
//! ```

mod admin;
#[cfg(test)]
mod all_backends;
mod claims;
mod console;
mod diagnostics;
mod effect;
mod fields;
mod gateway;
mod ingest;
mod layers;
mod lenders;
mod listener;
mod node;
mod ownership;
mod paths;
mod pipeline;
#[cfg(test)]
mod reference;
mod refusal;
mod relay;
pub mod same_file;
mod secret;
mod sequence_gate;
mod server;
mod settings;
mod show;
mod sink;
mod source;
pub mod starter;
mod store;
mod streamed;
mod suggestion;
mod telemetry;
mod tls;
mod tree;
mod waiver;
mod webhook;

pub use admin::AdminSettings;
pub use claims::{ClaimsListener, ClaimsSettings, TokensSettings};
pub use console::ConsoleSettings;
pub use gateway::{
    CLAIM_PATHS, GatewaySettings, HealthSettings, JwtSettings, RouteSettings, TenantProof,
};
pub use ingest::IngestSettings;
pub use layers::{Cache, Front, Layers};
pub use listener::{Certificate, Door};
pub use ownership::Ownership;
pub use pipeline::PipelineSettings;
pub use refusal::Refusal;
pub use relay::{RelaySettings, RelaySink};
pub use secret::masked;
pub use settings::{Backends, Overrides, Settings};
pub use show::Effective;
pub use sink::{SinkPlace, SinkSettings, TargetOf};
pub use source::{AmqpSettings, KafkaSettings, NatsSettings, SourceSettings};
pub use store::{Accepted, ServerKind, ServerUrl, Servers, StoreUrl};
pub use suggestion::suggestion;
pub use telemetry::TelemetrySettings;
pub use waiver::Waived;
pub use webhook::WebhookSettings;

use semel_core::Code;

/// Every setting with its default and a short explanation: the page of the book, which a test compares with the
/// code.
pub const REFERENCE: &str = include_str!("../../../docs/book/src/reference/config.toml");

/// One fault of a configuration. Printed as `ORIGIN: PATH: MESSAGE [CODE]`, without a path if no setting is at
/// fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The place where it was written: `semel.toml:12`, an environment variable, a flag.
    pub origin: String,
    /// The setting, `pipelines.payments.key`; empty if the file as a whole is at fault.
    pub path: String,
    /// The fault and what to do about it, one line.
    pub message: String,
    /// Its stable code.
    pub code: Code,
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
