//! A pipeline of which only the name is known: the defaults of a configuration file.

use semel_core::Scope;
use semel_core::fingerprint::FingerprintSelector;
use semel_core::key::KeySelector;

use crate::once::Settings;
use crate::pipeline::Pipeline;

pub(super) fn pipeline(name: &str, scope: Scope, settings: &Settings) -> Pipeline {
    Pipeline {
        name: name.into(),
        scope,
        tenant: None,
        key: KeySelector::line(),
        fingerprint: FingerprintSelector::Payload,
        transport: None,
        birth: None,
        order: None,
        gate: None,
        window: settings.window,
        lease: settings.lease,
        limits: settings.limits,
        backoff: settings.backoff,
        outcome_limit_bytes: settings.outcome_limit_bytes,
        batch: 1_000,
        concurrency: settings.concurrency,
        max_message_bytes: 8 << 20,
        pause_after: 20,
        bind: None,
        live_only: false,
    }
}
