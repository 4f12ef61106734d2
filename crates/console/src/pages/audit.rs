//! The audit trail: who changed what, and why.

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::Value;

use crate::api::Api;
use crate::form::Form;
use crate::layout::{Place, missing, more, nothing, page};
use crate::text::{key_link, list, state, text, time};

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
    html! {
        @if list(trail, "items").is_empty() {
            (nothing(trail["complete"] == true, "Nobody has changed anything here."))
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
        (more("/audit", query, text(trail, "next"), "Newer entries"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trail_that_was_not_read_to_its_end_is_not_told_as_empty() {
        let query = [("key", "pay-1"), ("cursor", "before")];
        let part = json!({ "items": [], "complete": false, "next": "after" });
        let shown = entries(&part, &query).into_string();
        assert!(!shown.contains("Nobody"), "{shown}");
        assert!(shown.contains("in this part of a longer list"), "{shown}");
        assert!(
            shown.contains("/audit?key=pay-1&amp;cursor=after\""),
            "{shown}"
        );
        let whole = entries(&json!({ "items": [], "complete": true }), &query);
        assert!(whole.into_string().contains("Nobody has changed anything"));
    }
}
