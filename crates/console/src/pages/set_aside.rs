//! Dead letters and quarantine: messages that were set aside, in groups of the same reason.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use semel_http::{Caller, Role};
use serde_json::Value;

use crate::api::{Api, Refusal};
use crate::form::Form;
use crate::layout::{Place, missing, more, nothing, page};
use crate::text::{address, foreign, grouped, key_link, list, shown, text, time};

/// A kind of messages that are set aside.
pub(super) struct Kind {
    pub(super) place: Place,
    pub(super) title: &'static str,
    pub(super) path: &'static str,
    pub(super) api: &'static str,
    order: &'static str,
    /// The order that runs messages, and its verb.
    run: (&'static str, &'static str),
    /// True if a message may be given another key.
    is_keyed: bool,
    /// The member that says what was wrong.
    pub(super) detail: &'static str,
    about: &'static str,
    nothing: &'static str,
}

pub(super) const DEAD_LETTERS: Kind = Kind {
    place: Place::DeadLetters,
    title: "Dead letters",
    path: "/dead-letters",
    api: "/v1/dead-letters",
    order: "/orders/plan/dead-letters/drop",
    detail: "error",
    run: ("/orders/plan/dead-letters/replay", "Run"),
    is_keyed: false,
    about: "Messages whose effect failed for good. Mend the cause, and run them again.",
    nothing: "There is no dead letter.",
};
pub(super) const QUARANTINE: Kind = Kind {
    place: Place::Quarantine,
    title: "Quarantine",
    path: "/quarantine",
    api: "/v1/quarantine",
    order: "/orders/plan/quarantine/drop",
    detail: "detail",
    run: ("/orders/plan/quarantine/release", "Release"),
    is_keyed: true,
    about: "Messages that were set aside before their effect.",
    nothing: "Nothing is in quarantine.",
};

/// Shows the dead letters.
pub(crate) async fn dead_letters(State(api): State<Api>, head: Parts) -> Response {
    show(&DEAD_LETTERS, &api, &head).await
}

/// Shows the messages in quarantine.
pub(crate) async fn quarantine(State(api): State<Api>, head: Parts) -> Response {
    show(&QUARANTINE, &api, &head).await
}

async fn show(kind: &Kind, api: &Api, head: &Parts) -> Response {
    let (caller, form) = match Form::of_query(head) {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let query = ["pipeline", "tenant", "cursor"].map(|name| (name, form.text(name)));
    let [pipeline, tenant, _] = query.map(|(_, value)| value);
    let groups = Groups::read(kind, api, &caller, query).await;
    let content = html! {
        h1 { (kind.title) }
        p { (kind.about) " " a href="/runs" { "Runs" } " tells what has come of those that were run." }
        form.filter method="get" action=(kind.path) role="search" {
            div { label for="pipeline" { "Pipeline" } input #pipeline name="pipeline" value=(pipeline); }
            div { label for="tenant" { "Tenant" } input #tenant name="tenant" value=(tenant); }
            button { "Show" }
        }
        @match &groups {
            Ok(groups) => {
                (of_groups(kind, groups, &caller, tenant))
                (more(kind.path, &query, &groups.next, "Read on"))
            }
            Err(refusal) => { (missing(refusal)) }
        }
    };
    page(&caller, kind.place, kind.title, &content)
}

/// The form that means all messages of a pipeline with some words in what was wrong, shown or not.
fn whole(kind: &Kind, (pipeline, tenant): (&str, &str), words: &str) -> Markup {
    // Their beginning tells them apart as well, and a condition has a longest length.
    let words: String = words.chars().take(MOST_LETTERS).collect();
    html! {
        form method="post" action=(kind.order) {
            input type="hidden" name="all" value="true";
            input type="hidden" name="pipeline" value=(pipeline);
            input type="hidden" name="tenant" value=(tenant);
            input type="hidden" name="reason_like" value=(words);
            button { "Drop all of " (foreign(pipeline)) " with this error…" }
            " "
            button formaction=(kind.run.0) { (kind.run.1) " all of " (foreign(pipeline)) " with this error…" }
        }
    }
}

/// Messages by their pipeline, their reason and what was wrong; the largest group first.
struct Groups {
    all: Vec<([String; 3], Vec<Value>)>,
    read: usize,
    /// True if this is all, from the beginning to the end.
    is_whole: bool,
    /// The cursor of what was not read; empty if there is nothing more.
    next: String,
}

impl Groups {
    async fn read(
        kind: &Kind,
        api: &Api,
        caller: &Caller,
        [pipeline, tenant, (_, begin)]: [(&str, &str); 3],
    ) -> Result<Self, Refusal> {
        let (mut groups, mut cursor) = (BTreeMap::<_, Vec<Value>>::new(), begin.to_owned());
        let mut read = 0;
        for _ in 0..PAGES {
            let query = [pipeline, tenant, ("limit", "1000"), ("cursor", &cursor)];
            let told = api.get(caller, kind.api, &query).await?;
            for message in list(&told, "items") {
                let group = ["pipeline", "reason", kind.detail];
                let group = group.map(|name| text(message, name).to_owned());
                groups.entry(group).or_default().push(message.clone());
                read += 1;
            }
            text(&told, "next").clone_into(&mut cursor);
            if cursor.is_empty() {
                break;
            }
        }
        let mut all: Vec<_> = groups.into_iter().collect();
        all.sort_by_key(|(_, messages)| std::cmp::Reverse(messages.len()));
        Ok(Self {
            all,
            read,
            is_whole: begin.is_empty() && cursor.is_empty(),
            next: cursor,
        })
    }
}

fn of_groups(kind: &Kind, groups: &Groups, caller: &Caller, tenant: &str) -> Markup {
    let may = caller.may(Role::Operator).is_ok();
    html! {
        @if groups.all.is_empty() {
            (nothing(groups.is_whole, kind.nothing))
        } @else {
            p role="status" {
                @if !groups.is_whole { "Of a longer list, " }
                b { (grouped(&groups.read.to_string())) } @if groups.read == 1 { " message" } @else { " messages" }
                ", in " (groups.all.len()) @if groups.all.len() == 1 { " group." } @else { " groups." }
            }
            @for (at, (group, messages)) in groups.all.iter().take(MOST_GROUPS).enumerate() {
                (of_group(kind, at, group, messages, may.then_some(tenant)))
            }
            @if groups.all.len() > MOST_GROUPS {
                p.hint { "The largest " (MOST_GROUPS) " groups are shown." }
            }
        }
    }
}

fn of_group(
    kind: &Kind,
    at: usize,
    [pipeline, reason, detail]: &[String; 3],
    messages: &[Value],
    may_in: Option<&str>,
) -> Markup {
    let may = may_in.is_some();
    html! {
        details.card open[at == 0] {
            summary {
                b { (grouped(&messages.len().to_string())) } " × " (foreign(reason)) " in " (foreign(pipeline)) ": "
                span.detail { (foreign(detail)) }
            }
            @if let Some(tenant) = may_in {
                form method="post" action=(kind.order) {
                    (table(kind, [pipeline, reason], messages, may))
                    @if kind.is_keyed {
                        div.filter { div {
                            label for={ "key-" (at) } { "Of one message: release it under another key" }
                            input id={ "key-" (at) } name="key" autocomplete="off";
                        } }
                    }
                    // The first button is the one that the key for a line break presses in a field.
                    button formaction=(kind.run.0) { (kind.run.1) " the selected…" }
                    " "
                    button { "Drop the selected…" }
                }
                (whole(kind, (pipeline, tenant), if detail.is_empty() { reason } else { detail }))
            } @else {
                (table(kind, [pipeline, reason], messages, may))
            }
        }
    }
}

fn table(kind: &Kind, [pipeline, reason]: [&str; 2], messages: &[Value], may: bool) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label={ "Messages: " (reason) } {
            table data-selectable=[may.then_some("yes")] {
                caption.hidden { (reason) " in " (pipeline) }
                thead { tr {
                    @if may { th scope="col" { span.hidden { "Select" } } }
                    th scope="col" { "Key" } th scope="col" { "Tenant" } th scope="col" { "Since" }
                    th scope="col" { "From" } th.number scope="col" { "Bytes" } th scope="col" { "State" }
                } }
                tbody {
                    @for message in messages.iter().take(SHOWN) { (row(kind, message, may)) }
                }
            }
        }
        @if messages.len() > SHOWN { p.hint { "The first " (SHOWN) " are shown." } }
    }
}

fn row(kind: &Kind, message: &Value, may: bool) -> Markup {
    html! {
        tr {
            @if may {
                td {
                    input type="checkbox" name="ids" value=(text(message, "id"))
                        aria-label={ "Select " (text(message, "coordinates")) };
                }
            }
            td { (key_link(message)) }
            td { (text(message, "tenant")) }
            td { (time(&message["since"])) }
            td { a href=(page_address(kind, message)) { code { (name_of(message)) } } }
            td.number { (shown(&message["size_bytes"])) }
            td { (crate::text::state(text(message, "state"))) }
        }
    }
}

/// The words of the link to a message: the place where it was read, if there is one.
fn name_of(message: &Value) -> &str {
    match text(message, "coordinates") {
        "" => text(message, "id"),
        coordinates => coordinates,
    }
}

/// Returns the address of the page of a message of a list.
fn page_address(kind: &Kind, message: &Value) -> String {
    let named = ["id", "pipeline", "tenant"].map(|name| (name, text(message, name)));
    address(&format!("{}/message", kind.path), &named)
}

/// The pages of a list that are read, of 1,000 each.
const PAGES: usize = 2;
/// The groups that are shown.
const MOST_GROUPS: usize = 50;
/// The most letters of a condition, which has 1,024 bytes at most.
const MOST_LETTERS: usize = 250;
/// The messages of a group that are shown.
const SHOWN: usize = 100;
