//! The report of the claim API: where it listens, what protects it, and what its store promises.

use std::borrow::Cow;

use semel_config::{ClaimsListener, Settings};
use semel_core::{Error, Result};
use semel_engine::effect::{Class, OnDoubt};
use serde::{Deserialize, Serialize};

use super::finding::{Finding, Severity, fail, warn};
use super::inspection::Inspection;
use super::report::StoreReport;
use super::rules::of_store;
use crate::value::Span;

/// The documented object; the names and the order of its members are stable.
#[derive(Debug, Serialize, Deserialize)]
pub struct ClaimsReport {
    /// The address.
    pub claims: String,
    /// The setting of the address: `claims.listen` or `gateway.listen`.
    pub listener: Cow<'static, str>,
    /// The worst of the findings.
    pub verdict: Severity,
    /// True if every caller needs a token.
    pub needs_token: bool,
    /// The number of tokens that are good now.
    pub tokens: usize,
    /// The store that the promise rests on.
    pub store: StoreReport,
    /// The time for which a key is remembered whose claim names none.
    pub window: Span,
    /// The time for which a claim lasts that names none.
    pub lease: Span,
    /// All findings.
    pub findings: Vec<Finding>,
}

/// The tokens of callers, as a program found them.
#[derive(Clone, Copy, Debug)]
pub struct TokensSeen {
    /// The number of tokens.
    pub count: usize,
    /// The number of those that have not expired.
    pub usable: usize,
}

impl ClaimsReport {
    /// Applies every rule to the known facts about one of the listeners that serve claims.
    pub fn of(
        settings: &Settings,
        listener: &ClaimsListener,
        store: Result<&Inspection, &Error>,
        needs_token: bool,
        tokens: &Result<TokensSeen>,
    ) -> Self {
        let claims = &settings.claims;
        // A client may ask for any class.
        let class = Class::Unkeyed(OnDoubt::Park);
        let mut findings = of_store(settings, class, store);
        findings.extend(of_tokens(settings, needs_token, tokens));
        let severities = findings.iter().map(|finding| finding.severity);
        Self {
            claims: listener.address.to_string(),
            listener: listener.setting.into(),
            verdict: severities.max().unwrap_or(Severity::Ok),
            needs_token,
            tokens: tokens.as_ref().map_or(0, |it| it.usable),
            store: StoreReport::of(settings, store),
            window: Span(claims.window.duration()),
            lease: Span(claims.lease),
            findings,
        }
    }
}

fn of_tokens(
    settings: &Settings,
    needs_token: bool,
    tokens: &Result<TokensSeen>,
) -> Option<Finding> {
    let file = settings.tokens.file.display();
    match tokens {
        Err(error) => Some(fail(
            error.code().as_str(),
            error.to_string(),
            "put back a sound copy, or remove the file and make the tokens anew",
        )),
        Ok(TokensSeen { count: 0, .. }) if needs_token => Some(fail(
            "tokens-missing",
            format!("other machines reach the address, and there is no token in {file}"),
            "make one: `semel token create NAME --role operator`",
        )),
        Ok(TokensSeen { usable: 0, .. }) if needs_token => Some(warn(
            "tokens-expired",
            format!("every token in {file} has expired, so that nobody can claim"),
            "make one: `semel token create NAME --role operator`",
        )),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use semel_core::ErrorKind;
    use semel_core::port::store::Durability;

    use super::super::text_settings::settings;
    use super::*;

    fn listening(address: &str) -> Settings {
        settings(&format!("[claims]\nlisten = \"{address}\"\n"))
    }

    fn codes(
        tokens: &Result<TokensSeen>,
        needs_token: bool,
        durability: Durability,
    ) -> Vec<String> {
        let (settings, inspection) = (listening("0.0.0.0:8181"), Inspection::embedded(durability));
        let listeners = settings.claims_listeners();
        let listener = listeners.first().expect("claims are served");
        let report = ClaimsReport::of(&settings, listener, Ok(&inspection), needs_token, tokens);
        assert_eq!(report.listener, "claims.listen");
        let findings = report.findings;
        let code = |it: &Finding| format!("{} {}", it.severity.as_str(), it.code);
        findings.iter().map(code).collect()
    }

    #[test]
    fn an_address_that_others_reach_wants_a_token_that_is_good() {
        let seen = |count, usable| Ok(TokensSeen { count, usable });
        let damaged = Err(Error::new(ErrorKind::InvalidConfig, "is damaged"));
        for (tokens, needs_token, expected) in [
            (seen(0, 0), false, &[][..]),
            (seen(0, 0), true, &["fail tokens-missing"]),
            (seen(2, 0), true, &["warn tokens-expired"]),
            (seen(2, 0), false, &[]),
            (seen(2, 1), true, &[]),
            (damaged, false, &["fail invalid-config"]),
        ] {
            assert_eq!(codes(&tokens, needs_token, Durability::PowerCut), expected);
        }
    }

    #[test]
    fn a_store_must_keep_what_the_strictest_class_needs() {
        let tokens = Ok(TokensSeen {
            count: 1,
            usable: 1,
        });
        let found = codes(&tokens, true, Durability::Kill);
        assert_eq!(found, ["fail store-durability"]);
    }
}
