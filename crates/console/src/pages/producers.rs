//! Producers of the store: what waits in each, and the orders that freeze and release them.

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use semel_http::Role;
use serde_json::Value;

use crate::api::Api;
use crate::form::Form;
use crate::layout::{Place, missing, more, nothing, page};
use crate::text::{foreign, list, shown, state, text};

/// Shows the producers.
pub(crate) async fn show(State(api): State<Api>, head: Parts) -> Response {
    let (caller, form) = match Form::of_query(&head) {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let query = [("cursor", form.text("cursor"))];
    let told = api.get(&caller, "/v1/producers", &query).await;
    let may = caller.may(Role::Operator).is_ok();
    let content = html! {
        h1 { "Producers" }
        p { "Who publishes from this store, and who sends messages to it." }
        @match &told {
            Ok(told) => {
                @if list(told, "items").is_empty() {
                    (nothing(told["complete"] == true, "There is no producer."))
                } @else {
                    (table(list(told, "items"), may))
                }
                (more("/producers", &query, text(told, "next"), "More producers"))
            }
            Err(refusal) => { (missing(refusal)) }
        }
    };
    page(&caller, Place::Elsewhere, "Producers", &content)
}

fn table(producers: &[Value], may: bool) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Producers" {
            table {
                caption.hidden { "Producers" }
                thead { tr {
                    th scope="col" { "Producer" } th scope="col" { "Side" } th scope="col" { "State" }
                    th scope="col" { "Epoch" } th scope="col" { "Waiting" } th scope="col" { "Streams" }
                    @if may { th scope="col" { "Orders" } }
                } }
                tbody {
                    @for producer in producers {
                        tr {
                            th scope="row" { (foreign(text(producer, "producer"))) }
                            td { (text(producer, "side")) }
                            td { (state(standing(producer))) }
                            td { (shown(&producer["epoch"])) }
                            td { (shown(&producer["waiting"])) }
                            td { ul { @for stream in list(producer, "streams") { (of_stream(stream)) } } }
                            @if may { td { (orders(producer)) } }
                        }
                    }
                }
            }
        }
    }
}

fn of_stream(stream: &Value) -> Markup {
    html! {
        li {
            (foreign(text(stream, "stream"))) " to " (foreign(text(stream, "target"))) ": "
            (shown(&stream["confirmed"])) " confirmed, " (shown(&stream["waiting"])) " waiting"
        }
    }
}

/// The orders that change something.
fn orders(producer: &Value) -> Markup {
    let may_follow: &[(&str, &str)] = match standing(producer) {
        "frozen" => &[("thaw", "Thaw…"), ("release", "Release…")],
        _ => &[("freeze", "Freeze…")],
    };
    let name = text(producer, "producer");
    html! {
        div.actions {
            @for (order, button) in may_follow {
                form method="post" action={ "/orders/plan/producers/" (order) } {
                    input type="hidden" name="producers" value=(name);
                    input type="hidden" name="side" value=(text(producer, "side"));
                    button aria-label={ (button) " " (name) } { (button) }
                }
            }
        }
    }
}

fn standing(producer: &Value) -> &'static str {
    if producer["frozen"] == true {
        "frozen"
    } else {
        "open"
    }
}
