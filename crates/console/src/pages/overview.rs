//! The overview: each pipeline, what it does, and what waits for a person.

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use semel_core::port::outbox::operations::MOST_COUNTED;
use semel_http::{Caller, Role};
use serde_json::Value;

use crate::api::Api;
use crate::form::Form;
use crate::layout::{Place, missing, page};
use crate::plot::{Line, Selection, Unit, amount, last_sum, lines, plot};
use crate::text::{address, foreign, grouped, list, shown, state, text, time, words};

/// Shows the overview.
pub(crate) async fn show(State(api): State<Api>, head: Parts) -> Response {
    let caller = match Form::of_query(&head) {
        Ok((caller, _)) => caller,
        Err(problem) => return problem.into_response(),
    };
    let content = if caller.tenant.is_some() {
        of_tenant(&caller)
    } else {
        of_worker(&api, &caller).await
    };
    page(&caller, Place::Overview, "Overview", &content)
}

/// The overview of somebody who is confined to a tenant: counts are those of all of them.
fn of_tenant(caller: &Caller) -> Markup {
    let tenant = caller.tenant.as_ref().map(semel_http::Tenant::as_str);
    html! {
        h1 { "Overview" }
        p.notice {
            "Your token is confined to the tenant " code { (tenant.unwrap_or_default()) }
            ", and what a worker counts is about all tenants. You see the keys of yours, its "
            a href="/in-doubt" { "doubts" } ", its " a href="/dead-letters" { "dead letters" } " and its "
            a href="/quarantine" { "quarantine" } "."
        }
        (super::key::search("", "", ""))
    }
}

async fn of_worker(api: &Api, caller: &Caller) -> Markup {
    let status = match api.get(caller, "/v1/status", &[]).await {
        Ok(status) => status,
        Err(refusal) => return missing(&refusal),
    };
    let pipelines = match api.get(caller, "/v1/pipelines", &[]).await {
        Ok(pipelines) => pipelines,
        Err(refusal) => return missing(&refusal),
    };
    let families = [
        "semel_decisions_total",
        "semel_overhead_seconds",
        "semel_effect_seconds",
        "semel_set_aside",
    ];
    let series = super::series(api, caller, families).await;
    let may = caller.may(Role::Operator).is_ok();
    let all = list(&pipelines, "items").iter();
    let (relays, pipelines): (Vec<_>, Vec<_>) = all.partition(|it| is_relay(it));
    html! {
        h1 { "Overview" }
        p.worker {
            "The worker is " span data-state="worker" { (state(text(&status, "state"))) }
            " · version " (text(&status, "version")) " · store " code { (text(&status, "store")) }
        }
        (super::key::search("", "", ""))
        @if pipelines.is_empty() {
            p { "No pipeline is configured." }
        }
        @for pipeline in pipelines {
            (of_pipeline(pipeline, &series, may))
        }
        @for relay in relays {
            (of_relay(relay, may))
        }
        (services(&status))
    }
}

/// Tells whether an entry of the list of pipelines is a relay.
pub(super) fn is_relay(entry: &Value) -> bool {
    entry["relay"] == true
}

fn of_pipeline(pipeline: &Value, series: &Value, may: bool) -> Markup {
    let name = text(pipeline, "pipeline");
    let of = |family, label| {
        let selection = Selection {
            family,
            pipeline: name,
            label,
        };
        lines(series, selection)
    };
    let decisions = of("semel_decisions_total", "decision");
    let overhead = of("semel_overhead_seconds", "");
    let id = format!("p-{}", identifier(name));
    html! {
        section.card aria-labelledby=(id) {
            h2 #(id) { (foreign(name)) " " span data-state=(name) { (state(text(pipeline, "state"))) } }
            div data-refresh={ "facts-" (id) } {
                @for reason in list(pipeline, "reasons") {
                    p.notice.bad {
                        (words(text(reason, "reason"))) ": " (foreign(text(reason, "error")))
                    }
                }
                (paused(&pipeline["paused"]))
                (facts(pipeline, &decisions, &overhead))
            }
            @if may { (orders(name, &pipeline["paused"])) }
            div.plots data-refresh={ "plots-" (id) } {
                (plot("Messages, by what the claim was answered", Unit::PerSecond, &decisions))
                (plot("What Semel adds to a message", Unit::Seconds, &overhead))
                (plot("The effect’s own time", Unit::Seconds, &of("semel_effect_seconds", "")))
                (plot("Waits for a person", Unit::Count, &of("semel_set_aside", "why")))
            }
        }
    }
}

/// The order by which a pipeline or a relay is paused, if there is one.
fn paused(order: &Value) -> Markup {
    html! {
        @if order.is_object() {
            p.notice {
                "Ordered: " (words(text(order, "order"))) ", by " (foreign(text(order, "by"))) ", since "
                (time(&order["since"])) ": " (foreign(text(order, "reason")))
            }
        }
    }
}

/// The orders that can be given about a pipeline or a relay. The part is drawn anew, except while somebody is in it.
fn orders(name: &str, standing: &Value) -> Markup {
    let id = format!("orders-{}", identifier(name));
    let may_follow: &[(&str, &str)] = match text(standing, "order") {
        "pause" => &[("resume", "Resume…")],
        "drain" => &[("pause", "Pause…"), ("resume", "Resume…")],
        _ => &[("pause", "Pause…"), ("drain", "Drain…")],
    };
    html! {
        div.actions data-refresh=(id) {
            @for (order, button) in may_follow {
                form method="post" action={ "/orders/plan/pipelines/" (order) } {
                    input type="hidden" name="pipelines" value=(name);
                    button { (button) }
                }
            }
        }
    }
}

/// The numbers of a pipeline.
fn facts(pipeline: &Value, decisions: &[Line], overhead: &[Line]) -> Markup {
    let name = text(pipeline, "pipeline");
    let so_far = &pipeline["so_far"];
    let live = |member: &str| {
        let value = so_far[member].as_u64().unwrap_or_default();
        html! { span data-live-of=(name) data-member=(member) { (grouped(&value.to_string())) } }
    };
    let quantiles = overhead.iter().filter_map(|it| {
        let last = it.values.last().copied().flatten()?;
        Some(format!("{} {}", it.name, amount(last, Unit::Seconds)))
    });
    let quantiles: Vec<_> = quantiles.collect();
    let rate = last_sum(decisions).map(|it| amount(it, Unit::PerSecond));
    html! {
        dl.facts {
            div { dt { "Effect" } dd { (shown(&pipeline["effect"])) ", class " (shown(&pipeline["class"])) } }
            div { dt { "Rate" } dd { (rate.as_deref().unwrap_or("–")) } }
            div { dt { "Applied" } dd { (live("applied")) } }
            div { dt { "Duplicates suppressed" } dd { (live("replayed")) } }
            div { dt { "Added, p50 and p99" } dd {
                @if quantiles.is_empty() { "–" } @else { (quantiles.join(", ")) }
            } }
            div { dt { "Window" } dd {
                a href="/window" { (shown(&pipeline["window"])) }
                @if pipeline["window_needed"].is_string() {
                    ", " (text(pipeline, "window_needed")) " needed"
                }
            } }
            div { dt { "Waits for a person" } dd { (waiting(pipeline)) } }
            @if !text(pipeline, "owner").is_empty() {
                div { dt { "Owner" } dd { (text(pipeline, "owner")) } }
            }
            @if !text(pipeline, "runbook").is_empty() {
                div { dt { "Runbook" } dd { (text(pipeline, "runbook")) } }
            }
        }
    }
}

/// Counts of everything that waits for a person, each with its page.
fn waiting(pipeline: &Value) -> Markup {
    let (name, aside) = (text(pipeline, "pipeline"), &pipeline["set_aside"]);
    html! {
        ul.waiting {
            @for (why, path, words) in [
                ("in_doubt", "/in-doubt", "in doubt"),
                ("dead", "/dead-letters", "dead"),
                ("quarantined", "/quarantine", "quarantined"),
            ] {
                @let count = aside[why].as_u64();
                li {
                    a href=(address(path, &[("pipeline", name)])) {
                        b.due[count.is_some_and(|it| it > 0)] data-aside-of=(name) data-member=(why) {
                            (count.map_or("–".to_owned(), |it| grouped(&it.to_string())))
                        }
                        " " (words)
                    }
                }
            }
        }
    }
}

/// A relay, with what waits in its outbox and the orders about it.
fn of_relay(relay: &Value, may: bool) -> Markup {
    let name = text(relay, "pipeline");
    let id = format!("r-{}", identifier(name));
    html! {
        section.card aria-labelledby=(id) {
            h2 #(id) { "relay " (foreign(name)) }
            div data-refresh={ "facts-" (id) } {
                p { (state(text(relay, "state"))) }
                @for reason in list(relay, "reasons") {
                    p.notice.bad {
                        (words(text(reason, "reason"))) ": " (foreign(text(reason, "error")))
                    }
                }
                (paused(&relay["paused"]))
                dl.facts {
                    @for (member, words) in [("waiting", "Waits to be published"), ("dead", "Dead")] {
                        div { dt { (words) } dd {
                            @match relay["backlog"][member].as_u64() {
                                Some(count) => {
                                    @if count >= u64::from(MOST_COUNTED) { "at least " }
                                    (grouped(&count.to_string()))
                                }
                                None => { "–" }
                            }
                        } }
                    }
                }
            }
            @if may { (orders(name, &relay["paused"])) }
        }
    }
}

/// The services beside pipelines and relays: the claim API and a gateway.
fn services(status: &Value) -> Markup {
    let others = [("claims", "claim API"), ("gateway", "gateway")];
    let others = others.map(|(member, name)| (name, &status[member]));
    let others = others.into_iter().filter(|(_, it)| it.is_object());
    let others: Vec<_> = others.collect();
    html! {
        @if !others.is_empty() {
            section.card aria-labelledby="services" {
                h2 #services { "Beside pipelines" }
                ul data-refresh="services" {
                    @for (name, service) in others {
                        li { (name) " " (state(text(service, "state"))) }
                    }
                }
            }
        }
    }
}

/// A name as a part of an identifier of the page.
fn identifier(name: &str) -> String {
    let digits = name.bytes().map(|byte| format!("{byte:02x}"));
    digits.collect()
}
