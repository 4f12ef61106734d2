//! Runs: messages that were run again, what was foretold, and what has come of it; and keys that are remembered for longer.

use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use semel_http::{Role, body};
use serde_json::Value;

use crate::api::Api;
use crate::form::{Form, MOST_REASON_LETTERS};
use crate::layout::{Place, missing, page, refusal, refused};
use crate::pages::orders::tables::table;
use crate::text::{address, foreign, grouped, list as items, shown, state, text, time, words};

/// Lists the runs that the worker remembers.
pub(crate) async fn list(State(api): State<Api>, head: Parts) -> Response {
    let (caller, _) = match Form::of_query(&head) {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let told = api.get(&caller, "/v1/runs", &[]).await;
    let content = html! {
        h1 { "Runs" }
        p { "Messages that were run again, and keys of a pipeline that were extended, the latest first. The worker remembers \
             the last ones." }
        @match &told {
            Ok(told) => @if items(told, "items").is_empty() {
                p.notice { "There was no run since the worker began." }
            } @else {
                (runs(items(told, "items")))
            },
            Err(refusal) => { (missing(refusal)) }
        }
    };
    page(&caller, Place::Elsewhere, "Runs", &content)
}

/// Shows a run, and each of its changes.
pub(crate) async fn show(State(api): State<Api>, Path(id): Path<String>, head: Parts) -> Response {
    let (caller, _) = match Form::of_query(&head) {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    // Whatever else is at such a path is not asked for.
    let id: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    let told = api.get(&caller, &format!("/v1/runs/{id}"), &[]).await;
    let (place, title) = match told.as_ref().map(|run| text(run, "action")) {
        Ok("in-doubt/retry") => (Place::InDoubt, "Call again"),
        Ok("dead-letters/replay") => (Place::DeadLetters, "Run again"),
        Ok("quarantine/release") => (Place::Quarantine, "Release"),
        Ok(EXTEND) => (Place::Key, "Extend"),
        Ok(_) | Err(_) => (Place::Elsewhere, "Run"),
    };
    let content = html! {
        @match &told {
            Ok(run) => {
                (report(title, run))
                @if caller.may(Role::Operator).is_ok() { (stopping(run)) }
            }
            Err(refusal) => { h1 { "Run" } (missing(refusal)) }
        }
        p { a href="/runs" { "Runs" } " · " a href="/audit" { "Audit" } }
    };
    page(&caller, place, title, &content)
}

/// Stops a run, and shows it.
pub(crate) async fn stop(
    State(api): State<Api>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let caller = match body::caller(&head, Role::Viewer) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let form = match Form::of_body(&head, body, &caller, Role::Operator).await {
        Ok(form) => form,
        Err(problem) => {
            return refusal(
                &caller,
                Place::Elsewhere,
                problem.status(),
                problem.detail(),
            );
        }
    };
    let id: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    let order = serde_json::json!({ "reason": form.text("reason") });
    match api
        .post(&caller, &format!("/v1/runs/{id}/stop"), &order)
        .await
    {
        Ok(run) => {
            let content = html! {
                (report("Stop", &run))
                p { a href="/runs" { "Runs" } " · " a href="/audit" { "Audit" } }
            };
            page(&caller, Place::Elsewhere, "Stop", &content)
        }
        Err(refusal) => refused(&caller, Place::Elsewhere, &refusal),
    }
}

/// The form that stops a run that goes on.
pub(crate) fn stopping(run: &Value) -> Markup {
    html! {
        @if run["state"] == "running" && run["stopped"].is_null() {
            form.confirm method="post" action={ (path(run)) "/stop" } {
                label for="reason" { "Stop it: what is in hand is finished, the rest stays as it is. Why?" }
                input #reason name="reason" required maxlength=(MOST_REASON_LETTERS) autocomplete="off";
                button { "Stop the run" }
            }
        }
    }
}

fn runs(runs: &[Value]) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Runs" {
            table {
                caption.hidden { "Runs" }
                thead { tr {
                    th scope="col" { "Begun" } th scope="col" { "Order" } th scope="col" { "State" }
                    th.number scope="col" { "Done" } th scope="col" { "Who" } th scope="col" { "Why" }
                } }
                tbody {
                    @for run in runs {
                        tr {
                            td { a href=(path(run)) { (time(&run["begun"])) } }
                            td { (words(text(run, "action"))) }
                            td { (state(text(run, "state"))) }
                            td.number {
                                @match of_keys(run) {
                                    Some(result) => { (shown(&result["extended"])) " keys" }
                                    None => { (shown(&run["done"])) }
                                }
                            }
                            td { (foreign(text(run, "by"))) }
                            td { (foreign(text(run, "reason"))) }
                        }
                    }
                }
            }
        }
    }
}

/// A run: what was foretold, and what has come of it so far.
pub(crate) fn report(verb: &str, run: &Value) -> Markup {
    let is_whole = run["complete"] == true;
    let is_running = run["state"] == "running";
    let changes = items(run, "changes");
    let title = match text(run, "state") {
        "running" => "goes on",
        "failed" => "broken off",
        "stopped" => "ended before its time",
        _ if is_whole => "done",
        _ => "not all of it",
    };
    html! {
        h1 { (verb) ": " (title) }
        p.notice.good[is_whole].bad[!is_whole && !is_running] role="status" {
            @match of_keys(run) {
                Some(result) => {
                    (shown(&result["extended"])) " keys extended, " (shown(&result["refused"])) " refused."
                }
                None => {
                    (shown(&run["done"])) " of " (grouped(&changes.len().to_string())) " done."
                }
            }
            @if run["differ"] != 0 && !is_running { " " (shown(&run["differ"])) " not as foretold." }
            @if is_running { " It goes on without this page: " a href=(path(run)) { "look again" } "." }
        }
        @if let Some(detail) = run["problem"]["detail"].as_str() {
            p.notice.bad { (foreign(detail)) }
        }
        dl.facts {
            div { dt { "Begun" } dd { (time(&run["begun"])) } }
            div { dt { "Ended" } dd { (time(&run["ended"])) } }
            div { dt { "Who" } dd { (foreign(text(run, "by"))) } }
            div { dt { "Why" } dd { (foreign(text(run, "reason"))) } }
            @if run["stopped"].is_object() {
                @let stopped = &run["stopped"];
                div { dt { "Stopped" } dd {
                    (time(&stopped["at"])) " by " (foreign(text(stopped, "by"))) ": " (foreign(text(stopped, "reason")))
                } }
            }
            @if !text(run, "key").is_empty() {
                div { dt { "Under the key" } dd { code.key { (foreign(text(run, "key"))) } } }
            }
        }
        (sums("Foretold", &run["foretold"]))
        @if text(run, "action") != EXTEND { (sums("So far", &run["came"])) }
        @if !changes.is_empty() { (table(changes, true)) }
    }
}

/// The number of messages of each word.
pub(crate) fn sums(title: &str, sums: &Value) -> Markup {
    let sums = sums.as_object().filter(|it| !it.is_empty());
    html! {
        @if let Some(sums) = sums {
            p { (title) ": "
                @for (at, (word, count)) in sums.iter().enumerate() {
                    @if at > 0 { ", " }
                    b { (shown(count)) } " " (words(word))
                }
                "."
            }
        }
    }
}

/// The progress of a run about keys; nothing of one about messages, or of one that has told nothing yet.
fn of_keys(run: &Value) -> Option<&Value> {
    if text(run, "action") == EXTEND {
        items(run, "results").first()
    } else {
        None
    }
}

fn path(run: &Value) -> String {
    address(&format!("/runs/{}", text(run, "id")), &[])
}

/// The order whose run is about keys.
const EXTEND: &str = "keys/extend";
