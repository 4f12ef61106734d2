//! Prints the report of the claim API.

use semel_config::Settings;
use semel_core::{Clock, Error, Result};
use semel_http::needs_token;
use semel_http::tokens::TokenFile;
use semel_operate::check::{ClaimsReport, Inspection, Severity, TokensSeen};

use crate::output::Answers;

/// Looks at every listener of the claim API; returns the worst finding.
pub(super) fn look(
    settings: &Settings,
    store: Result<&Inspection, &Error>,
    clock: &dyn Clock,
    answers: &mut Answers,
) -> Result<Severity> {
    let listeners = settings.claims_listeners();
    if listeners.is_empty() {
        return Ok(Severity::Ok);
    }
    let tokens = TokenFile::new(&settings.tokens.file).read();
    let seen = tokens.map(|tokens| TokensSeen {
        count: tokens.count(),
        usable: tokens
            .iter()
            .filter(|it| !it.is_expired(clock.now()))
            .count(),
    });
    let mut worst = Severity::Ok;
    for listener in &listeners {
        let needs_token = needs_token(listener.address);
        let report = ClaimsReport::of(settings, listener, store, needs_token, &seen);
        worst = worst.max(report.verdict);
        // Nobody reading is no reason to stop: these are the last answers.
        let _ = answers.print(&report)?;
    }
    Ok(worst)
}
