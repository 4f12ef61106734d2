//! One key: found by what a person types, its story, what a duplicate meets now, and what can be done.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use semel_http::{Caller, Role};
use serde_json::Value;

use crate::api::{Api, Told};
use crate::form::Form;
use crate::layout::{Place, missing, page};
use crate::text::{address, key_link, list, shown, state, text, time, words};

/// Shows a key, or the keys that can be meant.
pub(crate) async fn show(State(api): State<Api>, head: Parts) -> Response {
    let (caller, form) = match Form::of_query(&head) {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let [key, pipeline, tenant] = ["key", "pipeline", "tenant"].map(|name| form.text(name));
    let found = if key.is_empty() {
        html! {}
    } else {
        found(&api, &caller, [key, pipeline, tenant]).await
    };
    let content = html! {
        h1 { "Key" }
        (search(key, pipeline, tenant))
        (found)
    };
    page(&caller, Place::Key, "Key", &content)
}

/// The form that finds a key.
pub(crate) fn search(key: &str, pipeline: &str, tenant: &str) -> Markup {
    html! {
        form.filter method="get" action="/key" role="search" aria-label="Find a key" {
            div.grows {
                label for="find" { "Key, operation id, or the beginning of either" }
                input #find name="key" value=(key) required autocomplete="off" spellcheck="false";
            }
            @if !key.is_empty() {
                div { label for="pipeline" { "Pipeline" } input #pipeline name="pipeline" value=(pipeline); }
                div { label for="tenant" { "Tenant" } input #tenant name="tenant" value=(tenant); }
            }
            button { "Find" }
        }
    }
}

/// Shows the meaning of a typed key: one key, several, or those that begin so.
async fn found(api: &Api, caller: &Caller, [key, pipeline, tenant]: [&str; 3]) -> Markup {
    let of = [("pipeline", pipeline), ("tenant", tenant)];
    let named = [of[0], of[1], ("key", key)];
    let meant = match api.get(caller, "/v1/keys/find", &named).await {
        Ok(meant) => meant,
        Err(refusal) => return missing(&refusal),
    };
    match list(&meant, "items") {
        [one] => {
            let id = text(one, "operation_id");
            let pipeline = text(one, "pipeline");
            let tenant = text(one, "tenant");
            let named = [("key", id), ("pipeline", pipeline), ("tenant", tenant)];
            story(api.get(caller, "/v1/keys/explain", &named).await, caller)
        }
        [] => {
            // A key that was forgotten may have left traces.
            match api.get(caller, "/v1/keys/explain", &named).await {
                Ok(told) => story(Ok(told), caller),
                Err(refusal) if refusal.status != StatusCode::NOT_FOUND => missing(&refusal),
                Err(_) => {
                    let begin = [of[0], of[1], ("prefix", key), ("limit", "100")];
                    let alike = api.get(caller, "/v1/keys", &begin).await;
                    several(
                        &alike,
                        "Nothing is on record under this key, and none begins so.",
                    )
                }
            }
        }
        _ => several(&Ok(meant), ""),
    }
}

/// The keys that can be meant.
fn several(told: &Told, nothing: &str) -> Markup {
    let told = match told {
        Ok(told) => told,
        Err(refusal) => return missing(refusal),
    };
    html! {
        @if list(told, "items").is_empty() {
            p.notice { (nothing) }
        } @else {
            h2 { "Which one?" }
            div.wide tabindex="0" role="region" aria-label="The keys that can be meant" { table {
                caption.hidden { "The keys that can be meant" }
                thead { tr {
                    th scope="col" { "Key" } th scope="col" { "Pipeline" } th scope="col" { "Tenant" }
                    th scope="col" { "State" } th scope="col" { "Since" }
                } }
                tbody {
                    @for entry in list(told, "items") {
                        tr {
                            td { (key_link(entry)) }
                            td { (text(entry, "pipeline")) }
                            td { (text(entry, "tenant")) }
                            td { (state(text(entry, "state"))) }
                            td { (time(&entry["since"])) }
                        }
                    }
                }
            } }
            @if told["complete"] == false { p.hint { "There may be more: type more of it, or name a pipeline." } }
        }
    }
}

/// The story of one key.
fn story(told: Told, caller: &Caller) -> Markup {
    let told = match told {
        Ok(told) => told,
        Err(refusal) => return missing(&refusal),
    };
    let duplicate = &told["duplicate"];
    html! {
        h2.subject { code.key { (text(&told, "key")) } " " (state(text(&told, "state"))) }
        p.lead { (text(&told, "text")) }
        dl.facts {
            div { dt { "Pipeline" } dd { (text(&told, "pipeline")) } }
            @if !text(&told, "tenant").is_empty() {
                div { dt { "Tenant" } dd { (text(&told, "tenant")) } }
            }
            div { dt { "Since" } dd { (time(&told["since"])) } }
            @if told["reason"].is_string() {
                div { dt { "Reason" } dd { (text(&told, "reason")) } }
            }
            div { dt { "Remembered until" } dd { (time(&told["remembered_until"])) } }
            div { dt { "Operation id" } dd { code { (text(&told, "operation_id")) } } }
            @if told["transport"].is_string() {
                div { dt { "First message" } dd { code { (text(&told, "transport")) } } }
            }
            @if told["fingerprint"].is_string() {
                div { dt { "Fingerprint" } dd { code { (text(&told, "fingerprint")) } } }
            }
            @if told["outcome_blake3"].is_string() {
                div { dt { "Digest of the outcome" } dd { code { (text(&told, "outcome_blake3")) } } }
            }
        }
        section.card aria-labelledby="duplicate" {
            h3 #duplicate { "What a duplicate meets now: " (words(text(duplicate, "answer"))) }
            @for sentence in list(duplicate, "texts") { p { (shown(sentence)) } }
            p { "If nobody acts: " (text(&told, "next")) }
        }
        section.card aria-labelledby="history" {
            h3 #history { "What happened" }
            ol.story {
                @for event in list(&told, "history") {
                    li { (time(&event["at"])) span { (text(event, "text")) } }
                }
            }
        }
        @if !list(&told, "messages").is_empty() {
            section.card aria-labelledby="messages" {
                h3 #messages { "Messages set aside (" (shown(&told["message_count"])) ")" }
                ul {
                    @for message in list(&told, "messages") {
                        li {
                            (text(message, "reason")) ": " (text(message, "detail")) " · from "
                            code { (text(message, "coordinates")) } ", " (time(&message["since"]))
                        }
                    }
                }
            }
        }
        (choices(&told, caller))
    }
}

/// The choices about a key: in words, and as forms for this caller.
fn choices(told: &Value, caller: &Caller) -> Markup {
    let may = caller.may(Role::Operator).is_ok();
    let is_on_record = text(told, "state") != "absent";
    html! {
        section.card aria-labelledby="can" {
            h3 #can { "What can be done" }
            @for choice in list(told, "can") { p { (text(choice, "text")) } }
            @if may && is_on_record {
                @if text(told, "state") == "in_doubt" { (super::doubts::verdict(&hidden(told))) }
                div.actions {
                    (action("keys/release", "Release…", told, &html! {}))
                    (action("keys/hold", "Hold…", told, &html! {}))
                    (action("keys/hold", "Let go…", told, &html! { input type="hidden" name="off" value="true"; }))
                    (action("keys/extend", "Extend…", told, &html! {
                        label for="window" { "Remember for" }
                        input #window.short name="window" required placeholder="30d";
                    }))
                    (action("keys/forget", "Forget…", told, &html! {}))
                }
                p.hint { "Each shows its plan first, and wants a reason." }
            } @else if !may {
                p.hint { "Your role, " (caller.role.as_str()) ", changes nothing." }
            }
        }
    }
}

fn action(path: &str, name: &str, told: &Value, more: &Markup) -> Markup {
    html! {
        form method="post" action={ "/orders/plan/" (path) } { (hidden(told)) (more) button { (name) } }
    }
}

/// The members that name a key in a form.
fn hidden(told: &Value) -> Markup {
    html! {
        input type="hidden" name="ids" value=(text(told, "operation_id"));
        input type="hidden" name="pipeline" value=(text(told, "pipeline"));
        @if !text(told, "tenant").is_empty() {
            input type="hidden" name="tenant" value=(text(told, "tenant"));
        }
    }
}

/// The address of the page of a key.
pub(crate) fn page_of(id: &str) -> String {
    address("/key", &[("key", id)])
}
