//! The tables of a plan, and of what came of it.

use maud::{Markup, html};
use serde_json::Value;

use crate::text::{foreign, key_link, shown, state, text, words};

/// The kind of what changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Keys,
    Messages,
    Runs,
    Pipelines,
    Producers,
    Sweep,
    /// Every finished key of a pipeline.
    Extension,
}

impl Kind {
    fn of(changes: &[Value]) -> Self {
        let has = |name| changes.iter().any(|it| it.get(name).is_some());
        if has("removed") {
            Self::Sweep
        } else if has("counted") {
            Self::Extension
        } else if has("predicted") {
            Self::Runs
        } else if has("size_bytes") {
            Self::Messages
        } else if has("producer") {
            Self::Producers
        } else if has("key") {
            Self::Keys
        } else {
            Self::Pipelines
        }
    }

    const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Keys => &[
                "Key", "Pipeline", "Tenant", "Order", "Before", "After", "Message", "Remark",
            ],
            Self::Messages => &[
                "Key", "Pipeline", "Tenant", "Before", "After", "Reason", "Remark",
            ],
            Self::Runs => &[
                "Key",
                "Pipeline",
                "Tenant",
                "State",
                "Set aside for",
                "Foretold",
            ],
            Self::Pipelines => &["Pipeline", "Order", "Before", "After"],
            Self::Producers => &["Producer", "Side", "Order", "Before", "After", "Waiting"],
            Self::Sweep => &["Records removed"],
            Self::Extension => &["Pipeline", "Tenant", "Order", "Window", "Finished keys"],
        }
    }
}

/// Changes, and their results once they were tried.
pub(crate) fn table(changes: &[Value], is_done: bool) -> Markup {
    let kind = Kind::of(changes);
    html! {
        div.wide tabindex="0" role="region" aria-label="Changes" {
            table {
                caption.hidden { "Changes" }
                thead { tr {
                    @for column in kind.columns() { th scope="col" { (column) } }
                    @if is_done { th scope="col" { "Result" } }
                } }
                tbody {
                    @for change in changes {
                        tr {
                            (cells(change, kind, is_done))
                            @if is_done {
                                td {
                                    (state(text(change, "result"))) " " (foreign(text(change, "why")))
                                    @if change["differs"] == true { "not as foretold" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cells(change: &Value, kind: Kind, is_done: bool) -> Markup {
    match kind {
        Kind::Keys => html! {
            td { (key_link(change)) }
            td { (text(change, "pipeline")) }
            td { (text(change, "tenant")) }
            td { (words(text(change, "action"))) }
            td { (state(text(change, "before"))) }
            td { (state(text(change, "after"))) }
            td { (words(text(change, "message"))) }
            td { (text(&change["remark"], "text")) }
        },
        Kind::Messages => html! {
            td { (key_link(change)) }
            td { (text(change, "pipeline")) }
            td { (text(change, "tenant")) }
            td { (state(text(change, "state"))) }
            td { "dropped" }
            td { (text(change, "reason")) }
            td { (text(change, "error")) (text(change, "detail")) }
        },
        Kind::Runs => html! {
            td { (key_link(change)) }
            td { (text(change, "pipeline")) }
            td { (text(change, "tenant")) }
            // A doubt without a message has the state before.
            td { (state(text(change, "state"))) (state(text(change, "before"))) }
            td { (text(change, "reason")) }
            td {
                @if text(change, "predicted").is_empty() { "released for the next message or claim of its key" }
                @else { (foreign(text(change, "detail"))) }
            }
        },
        Kind::Pipelines => html! {
            th scope="row" { (text(change, "pipeline")) }
            td { (words(text(change, "action"))) }
            td { (text(change, "before")) }
            td { (text(change, "after")) }
        },
        Kind::Producers => html! {
            th scope="row" { (foreign(text(change, "producer"))) }
            td { (text(change, "side")) }
            td { (words(text(change, "action"))) }
            td { (text(change, "before")) }
            td { (text(change, "after")) }
            td { (shown(&change["waiting"])) }
        },
        Kind::Extension => extension(change),
        Kind::Sweep => html! {
            td {
                @if !is_done { "about " }
                @if change["removed"].is_null() { "as many as there are" } @else { (shown(&change["removed"])) }
            }
        },
    }
}

/// The pipeline whose keys are extended.
fn extension(change: &Value) -> Markup {
    html! {
        th scope="row" { (foreign(text(change, "pipeline"))) }
        td { (foreign(text(change, "tenant"))) }
        td { (words(text(change, "action"))) }
        td { "at least " (text(change, "window")) }
        td.number { @if change["counted"] == false { "at least " } (shown(&change["keys"])) }
    }
}

/// Everything that an order leaves as it is, and why.
pub(super) fn left(left: &[Value]) -> Markup {
    let name = |it: &Value| {
        let names = ["key", "id", "pipeline", "producer"].into_iter();
        let mut names = names.map(|name| text(it, name).to_owned());
        names.find(|it| !it.is_empty()).unwrap_or_default()
    };
    html! {
        @if !left.is_empty() {
            h2 { "What stays as it is" }
            ul {
                @for it in left {
                    li { code.key { (foreign(&name(it))) } ": " (foreign(text(it, "why"))) }
                }
            }
        }
    }
}
