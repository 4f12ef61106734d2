//! The terms of an order, beside what it is about: in words on every page about it, for whoever consents.

use maud::{Markup, html};

use super::order::Order;
use crate::form::Form;
use crate::text::foreign;

/// The terms of an order, as its form has them. They go from page to page with the token of the plan, which holds the
/// order itself.
pub(super) struct Terms(Vec<(&'static str, String)>);

impl Terms {
    /// Those of an order in a form, which may have members of other orders, too.
    pub(super) fn of(order: &Order, form: &Form) -> Self {
        let mut terms = Vec::new();
        let has = |name: &str| order.members.iter().any(|(known, _)| *known == name);
        for name in NAMES.into_iter().filter(|name| has(name)) {
            let value = form.text(name);
            if !value.is_empty() {
                terms.push((name, value.to_owned()));
            }
        }
        // Only an order about all that there are is told by where it looks.
        let is_all = terms.iter().any(|(name, _)| *name == "all");
        terms.retain(|(name, _)| is_all || !OF_ALL.contains(name));
        Self(terms)
    }

    fn get(&self, name: &str) -> Option<&str> {
        let mut terms = self.0.iter();
        let (_, value) = terms.find(|(known, _)| *known == name)?;
        Some(value)
    }

    /// Tells whether a hold is to end.
    pub(super) fn is_off(&self) -> bool {
        self.get("off") == Some("true")
    }

    /// The terms in words.
    pub(super) fn shown(&self) -> Markup {
        let is_applied = self.get("verdict") == Some("applied");
        html! {
            @if !self.0.is_empty() {
                dl.facts {
                    @if let Some(verdict) = self.get("verdict") {
                        div { dt { "What was found" } dd { (found(verdict)) } }
                    }
                    @if is_applied {
                        div { dt { "The outcome that duplicates get" } dd {
                            @match self.get("outcome") {
                                Some(outcome) => code { (foreign(outcome)) },
                                None => "an empty one",
                            }
                        } }
                    }
                    @if let Some(window) = self.get("window") {
                        div { dt { "Remember for" } dd { (foreign(window)) } }
                    }
                    @if let Some(key) = self.get("key") {
                        div { dt { "As an operation of its own, under the key" } dd { code.key { (foreign(key)) } } }
                    }
                    @if self.is_off() { div { dt { "Held" } dd { "no longer" } } }
                    @if self.get("all").is_some() {
                        div { dt { "Of" } dd { "all that there are" } }
                    }
                    @for (name, words) in [
                        ("pipeline", "In the pipeline"), ("side", "On the side"), ("tenant", "Of the tenant"),
                        ("older_than", "For at least"), ("reason_like", "With this in what is known"),
                    ] {
                        @if let Some(value) = self.get(name) {
                            div { dt { (words) } dd { code { (foreign(value)) } } }
                        }
                    }
                }
            }
        }
    }

    /// The terms as members of the next form.
    pub(super) fn hidden(&self) -> Markup {
        html! {
            @for (name, value) in &self.0 {
                input type="hidden" name=(name) value=(value);
            }
        }
    }
}

fn found(verdict: &str) -> &str {
    match verdict {
        "applied" => "it happened",
        "not_applied" => "it did not happen",
        "abandon" => "it cannot be found out",
        other => other,
    }
}

const NAMES: [&str; 11] = [
    "key",
    "verdict",
    "outcome",
    "window",
    "off",
    "all",
    "pipeline",
    "side",
    "tenant",
    "older_than",
    "reason_like",
];
const OF_ALL: [&str; 4] = ["pipeline", "tenant", "older_than", "reason_like"];
