//! The store: what it holds, what asking it takes, and all of it as a file.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use semel_http::{Leave, Role, body};
use serde_json::{Value, json};

use crate::api::Api;
use crate::form::{Form, MOST_REASON_LETTERS};
use crate::layout::{Place, page, page_with, refusal, refused};
use crate::plot::{Selection, Unit, amount, lines, plot};
use crate::text::{list, shown, text, words};

/// Shows the store, or the part `plots` of the page alone: what the store holds is counted one by one, which is not for a
/// page that is drawn anew by itself.
pub(crate) async fn show(State(api): State<Api>, head: Parts) -> Response {
    let (caller, form) = match Form::of_query(&head) {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let holdings = if form.text("part") == "plots" {
        html! {}
    } else {
        match api.get(&caller, "/v1/store", &[]).await {
            Ok(store) => holdings(&store),
            Err(refusal) => return refused(&caller, Place::Store, &refusal),
        }
    };
    let families = [
        "semel_records",
        "semel_store_bytes",
        "semel_store_call_seconds",
        "semel_store_errors_total",
        "semel_swept_total",
        "semel_cache_lookups_total",
    ];
    let series = super::series(&api, &caller, families).await;
    let of = |family, label| {
        let pipeline = "";
        let selection = Selection {
            family,
            pipeline,
            label,
        };
        lines(&series, selection)
    };
    let content = html! {
        h1 { "Store" }
        (holdings)
        div.plots data-refresh="plots-store" {
            (plot("Records, by state", Unit::Count, &of("semel_records", "state")))
            (plot("Size", Unit::Bytes, &of("semel_store_bytes", "store")))
            (plot("The time of a call", Unit::Seconds, &of("semel_store_call_seconds", "call")))
            (plot("Calls that failed", Unit::PerSecond, &of("semel_store_errors_total", "kind")))
            (plot("Records that sweeps removed", Unit::PerSecond, &of("semel_swept_total", "what")))
            (plot("Looked up in a cache or a filter", Unit::PerSecond, &of("semel_cache_lookups_total", "result")))
        }
        p { a href="/producers" { "Producers" } " that publish from it, or send messages to it." }
        @if caller.may(Role::Admin).is_ok() {
            section.card aria-labelledby="sweep" {
                h2 #sweep { "Sweep" }
                p { "Removes the records whose window has passed. The worker does so by itself now and then." }
                form method="post" action="/orders/plan/store/sweep" { button { "Plan a sweep…" } }
            }
            section.card aria-labelledby="export" {
                h2 #export { "Export" }
                p {
                    "All that the store holds, as a file for " code { "semel store import" } ". It has messages and outcomes as "
                    "they are: keep it as you keep the store. What changes meanwhile may be missing: to move the store, stop "
                    "its workers first."
                }
                form.confirm method="post" action="/store/export" {
                    label for="reason" { "Why? The audit trail keeps it, with your name." }
                    input #reason name="reason" required maxlength=(MOST_REASON_LETTERS) autocomplete="off";
                    button { "Export" }
                }
            }
        }
    };
    page(&caller, Place::Store, "Store", &content)
}

/// Hands over the export of the store, which the browser keeps as a file; shows why there is none.
pub(crate) async fn export(State(api): State<Api>, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    let caller = match body::caller(&head, Role::Viewer) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let leave = head.extensions.remove::<Leave>();
    let form = match Form::of_body(&head, body, &caller, Role::Admin).await {
        Ok(form) => form,
        Err(problem) => {
            return refusal(&caller, Place::Store, problem.status(), problem.detail());
        }
    };
    let order = json!({ "reason": form.text("reason") });
    let told = api.answer(&caller, "/v1/store/export", (&order, leave));
    match told.await {
        Ok(answer) => answer,
        Err(refusal) => {
            let content = html! {
                h1 { "Not exported" }
                p.notice.bad role="alert" { (refusal.detail()) }
                p { a href="/store" { "Back" } }
            };
            page_with(
                refusal.status,
                &caller,
                Place::Store,
                "Not exported",
                &content,
            )
        }
    }
}

fn holdings(store: &Value) -> Markup {
    html! {
        dl.facts {
            div { dt { "Address" } dd { code { (text(store, "url")) } } }
            div { dt { "Kind" } dd { (text(store, "kind")) } }
            div { dt { "Durability" } dd { (words(text(store, "durability"))) } }
            div { dt { "Shared by machines" } dd { (shown(&store["shared"])) } }
            div { dt { "On disk" } dd {
                @match store["disk_bytes"].as_f64() {
                    Some(bytes) => { (amount(bytes, Unit::Bytes)) }
                    None => { "–" }
                }
            } }
            div { dt { "Audit entries" } dd { (shown(&store["audit_entries"])) } }
        }
        @for warning in list(store, "warnings") {
            p.notice { (shown(warning)) }
        }
        div.columns {
            (counts("Records", &store["records"]))
            (counts("Messages set aside", &store["parked"]))
        }
    }
}

/// Counts by their names.
fn counts(title: &str, counts: &Value) -> Markup {
    let counts = counts.as_object().into_iter().flatten();
    html! {
        table.narrow {
            caption { (title) }
            tbody {
                @for (name, count) in counts {
                    tr { th scope="row" { (words(name)) } td.number { (shown(count)) } }
                }
            }
        }
    }
}
