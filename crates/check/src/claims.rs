//! The listeners of the claim API.

use semel_config::Settings;
use semel_core::{Clock, Error, Result};
use semel_http::needs_token;
use semel_http::tokens::TokenFile;
use semel_operate::check::{ClaimsReport, Inspection, TokensSeen};

/// Looks at every listener of the claim API, and at its tokens.
pub(crate) fn claims(
    settings: &Settings,
    store: Result<&Inspection, &Error>,
    clock: &dyn Clock,
) -> Vec<ClaimsReport> {
    let listeners = settings.claims_listeners();
    if listeners.is_empty() {
        return Vec::new();
    }
    let tokens = TokenFile::new(&settings.tokens.file).read();
    let seen = tokens.map(|tokens| TokensSeen {
        count: tokens.count(),
        usable: tokens
            .iter()
            .filter(|it| !it.is_expired(clock.now()))
            .count(),
    });
    let reports = listeners.iter().map(|listener| {
        let needs_token = needs_token(listener.address);
        ClaimsReport::of(settings, listener, store, needs_token, &seen)
    });
    reports.collect()
}
