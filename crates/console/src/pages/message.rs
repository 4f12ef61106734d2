//! One message that was set aside, as a whole: what was wrong with it, its headers and its payload.

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::Value;

use super::set_aside::{DEAD_LETTERS, Kind, QUARANTINE};
use crate::api::Api;
use crate::form::Form;
use crate::layout::{missing, page};
use crate::text::{address, foreign, grouped, key_link, list, shown, state, text, time};

/// Shows a dead letter.
pub(crate) async fn dead_letter(State(api): State<Api>, head: Parts) -> Response {
    show(&DEAD_LETTERS, &api, &head).await
}

/// Shows a message in quarantine.
pub(crate) async fn quarantined(State(api): State<Api>, head: Parts) -> Response {
    show(&QUARANTINE, &api, &head).await
}

async fn show(kind: &Kind, api: &Api, head: &Parts) -> Response {
    let (caller, form) = match Form::of_query(head) {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let named = ["id", "pipeline", "tenant"].map(|name| (name, form.text(name)));
    let asked = address(&format!("{}/show", kind.api), &named);
    let content = html! {
        h1 { "Message" }
        p { a href=(kind.path) { (kind.title) } }
        @match api.get_at(&caller, &asked).await {
            Ok(message) => { (facts(kind, &message)) (headers(&message)) (payload(&message)) }
            Err(refusal) => { (missing(&refusal)) }
        }
    };
    page(&caller, kind.place, "Message", &content)
}

fn facts(kind: &Kind, message: &Value) -> Markup {
    html! {
        dl.facts {
            div { dt { "Key" } dd { (key_link(message)) } }
            div { dt { "Pipeline" } dd { (foreign(text(message, "pipeline"))) } }
            @if message["tenant"].is_string() {
                div { dt { "Tenant" } dd { (foreign(text(message, "tenant"))) } }
            }
            div { dt { "State" } dd { (state(text(message, "state"))) } }
            div { dt { "Reason" } dd { (foreign(text(message, "reason"))) } }
            div { dt { "What was wrong" } dd { (foreign(text(message, kind.detail))) } }
            div { dt { "Since" } dd { (time(&message["since"])) } }
            div { dt { "From" } dd { code { (text(message, "coordinates")) } } }
            div { dt { "Id" } dd { code { (text(message, "id")) } } }
            @if message["transport"].is_string() {
                div { dt { "Id at the broker" } dd { (foreign(text(message, "transport"))) } }
            }
        }
    }
}

fn headers(message: &Value) -> Markup {
    let headers = list(message, "headers");
    html! {
        @if !headers.is_empty() {
            h2 { "Headers" }
            div.wide tabindex="0" role="region" aria-label="The headers" { table {
                caption.hidden { "The headers" }
                thead { tr { th scope="col" { "Name" } th scope="col" { "Value" } } }
                tbody { @for header in headers { tr {
                    td { (foreign(text(header, "name"))) }
                    td {
                        @if header["value_base64"].is_string() {
                            code { (text(header, "value_base64")) } " in base64"
                        } @else if header["value"].is_string() {
                            (foreign(text(header, "value")))
                        } @else { (shown(&Value::Null)) }
                    }
                } } }
            } }
        }
    }
}

fn payload(message: &Value) -> Markup {
    let size = grouped(&message["size_bytes"].to_string());
    let withheld = match text(message, "withheld") {
        "role" => Some("Your role does not see payloads."),
        "members" => Some("Members are hidden, as the configuration says."),
        "no_json" => Some(
            "It is no JSON. The configuration hides members, which cannot be told there, so nothing of it is shown.",
        ),
        _ => None,
    };
    html! {
        h2 { "Payload" }
        p { (size) " bytes." @if let Some(withheld) = withheld { " " (withheld) } }
        @if message["payload_base64"].is_string() {
            (block("in base64", text(message, "payload_base64")))
        } @else if message["payload"].is_string() {
            (block("text", text(message, "payload")))
        }
    }
}

/// The beginning of a payload. A page is no place for megabytes.
fn block(form: &str, payload: &str) -> Markup {
    let begin: String = payload.chars().take(SHOWN).collect();
    let is_whole = begin.len() == payload.len();
    html! {
        pre.payload tabindex="0" role="region" aria-label={ "The payload, " (form) } { (begin) }
        @if !is_whole {
            p.hint {
                "The first " (grouped(&SHOWN.to_string())) " characters are shown. "
                code { "semel dead-letters show" } " and " code { "semel quarantine show" } " print all of it."
            }
        }
    }
}

/// The characters of a payload that are shown.
const SHOWN: usize = 20_000;
