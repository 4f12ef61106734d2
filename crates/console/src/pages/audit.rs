//! The audit trail: who changed what, and why.

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::Value;

use crate::api::Api;
use crate::form::Form;
use crate::layout::{Place, missing, page};
use crate::text::{address, key_link, list, state, text, time};

/// Shows a page of the trail.
pub(crate) async fn show(State(api): State<Api>, head: Parts) -> Response {
    let (caller, form) = match Form::of_query(&head) {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let query =
        ["key", "pipeline", "tenant", "since", "cursor"].map(|name| (name, form.text(name)));
    let told = api.get(&caller, "/v1/audit", &query).await;
    let [key, pipeline, tenant, since, _] = query.map(|(_, value)| value);
    let content = html! {
        h1 { "Audit" }
        form.filter method="get" action="/audit" role="search" {
            div { label for="key" { "Key" } input #key name="key" value=(key); }
            div { label for="pipeline" { "Pipeline" } input #pipeline name="pipeline" value=(pipeline); }
            div { label for="tenant" { "Tenant" } input #tenant name="tenant" value=(tenant); }
            div { label for="since" { "Within" } input #since name="since" value=(since) placeholder="24h"; }
            button { "Show" }
        }
        @match &told {
            Ok(trail) => { (entries(trail, &query)) }
            Err(refusal) => { (missing(refusal)) }
        }
    };
    page(&caller, Place::Audit, "Audit", &content)
}

fn entries(trail: &Value, query: &[(&str, &str)]) -> Markup {
    let next = text(trail, "next");
    let mut of_next: Vec<_> = query
        .iter()
        .copied()
        .filter(|(name, _)| *name != "cursor")
        .collect();
    of_next.push(("cursor", next));
    html! {
        @if list(trail, "items").is_empty() {
            p { "Nobody has changed anything here." }
        } @else {
            div.wide tabindex="0" role="region" aria-label="The audit trail, oldest first" {
                table {
                    caption { "Oldest first" }
                    thead { tr {
                        th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "What" }
                        th scope="col" { "Key" } th scope="col" { "Pipeline" } th scope="col" { "Tenant" }
                        th scope="col" { "Before" } th scope="col" { "After" } th scope="col" { "Why" }
                    } }
                    tbody {
                        @for entry in list(trail, "items") {
                            tr {
                                td { (time(&entry["at"])) }
                                td { (text(entry, "by")) }
                                td { (text(entry, "action")) }
                                td { @if !text(entry, "key").is_empty() { (key_link(entry)) } }
                                td { (text(entry, "pipeline")) }
                                td { (text(entry, "tenant")) }
                                td { (state(text(entry, "before"))) }
                                td { (state(text(entry, "after"))) }
                                td { (text(entry, "reason")) }
                            }
                        }
                    }
                }
            }
        }
        @if !next.is_empty() {
            p { a href=(address("/audit", &of_next)) { "Newer entries" } }
        }
    }
}
