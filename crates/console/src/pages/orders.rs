//! Orders: the plan of one first, then what came of it.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use semel_http::Caller;
use serde_json::{Map, Value};

use super::key::page_of;
use crate::api::Api;
use crate::form::Form;
use crate::layout::{Place, page, refusal, refused};
use crate::text::{key_link, list, shown, state, text, words};

/// An order that pages can give.
struct Order {
    /// Its path below `/v1/`.
    path: &'static str,
    place: Place,
    /// Its verb, as a button has it.
    verb: &'static str,
    /// The page to go back to.
    back: &'static str,
    /// The members that name what is meant, and those of the order itself.
    members: &'static [(&'static str, Member)],
}

/// The form of a member in JSON.
#[derive(Clone, Copy)]
enum Member {
    Texts,
    Text,
    Flag,
}

const NAMED: [(&str, Member); 3] = [
    ("ids", Member::Texts),
    ("pipeline", Member::Text),
    ("tenant", Member::Text),
];
const KEYS: &[(&str, Member)] = &NAMED;
const HOLD: &[(&str, Member)] = &[NAMED[0], NAMED[1], NAMED[2], ("off", Member::Flag)];
const EXTEND: &[(&str, Member)] = &[NAMED[0], NAMED[1], NAMED[2], ("window", Member::Text)];
const RESOLVE: &[(&str, Member)] = &[
    NAMED[0],
    NAMED[1],
    NAMED[2],
    ("all", Member::Flag),
    ("older_than", Member::Text),
    ("reason_like", Member::Text),
    ("verdict", Member::Text),
    ("outcome", Member::Text),
];
const DROP: &[(&str, Member)] = &[NAMED[0], NAMED[1], NAMED[2]];

const ORDERS: [Order; 8] = [
    Order {
        path: "in-doubt/resolve",
        place: Place::InDoubt,
        verb: "Resolve",
        back: "/in-doubt",
        members: RESOLVE,
    },
    Order {
        path: "dead-letters/drop",
        place: Place::DeadLetters,
        verb: "Drop",
        back: "/dead-letters",
        members: DROP,
    },
    Order {
        path: "quarantine/drop",
        place: Place::Quarantine,
        verb: "Drop",
        back: "/quarantine",
        members: DROP,
    },
    Order {
        path: "keys/release",
        place: Place::Key,
        verb: "Release",
        back: "/key",
        members: KEYS,
    },
    Order {
        path: "keys/forget",
        place: Place::Key,
        verb: "Forget",
        back: "/key",
        members: KEYS,
    },
    Order {
        path: "keys/hold",
        place: Place::Key,
        verb: "Hold or let go",
        back: "/key",
        members: HOLD,
    },
    Order {
        path: "keys/extend",
        place: Place::Key,
        verb: "Extend",
        back: "/key",
        members: EXTEND,
    },
    Order {
        path: "store/sweep",
        place: Place::Store,
        verb: "Sweep",
        back: "/store",
        members: &[],
    },
];

impl Order {
    fn of(path: &str) -> Option<&'static Self> {
        ORDERS.iter().find(|it| it.path == path)
    }

    /// The body of a request for its plan; members that are empty are left out.
    fn body(&self, form: &Form) -> Value {
        let mut body = Map::new();
        for (name, member) in self.members {
            let value = match member {
                Member::Texts => Value::from(form.all(name)),
                Member::Text => Value::from(form.text(name)),
                Member::Flag => Value::from(form.text(name) == "true"),
            };
            let is_empty = match &value {
                Value::Array(all) => all.is_empty(),
                Value::String(text) => text.is_empty(),
                value => *value == Value::Bool(false),
            };
            if !is_empty {
                body.insert((*name).to_owned(), value);
            }
        }
        body.into()
    }
}

/// Plans an order; changes nothing.
pub(crate) async fn plan(
    State(api): State<Api>,
    Path(path): Path<String>,
    request: Request,
) -> Response {
    let (caller, form) = match Form::of_body(request).await {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let Some(order) = Order::of(&path) else {
        return unknown(&caller);
    };
    if !order.members.is_empty() && form.all("ids").is_empty() && form.text("all").is_empty() {
        let detail = "Nothing is selected. Go back, and select what you mean.";
        return refusal(&caller, order.place, StatusCode::BAD_REQUEST, detail);
    }
    let path = format!("/v1/{}/plan", order.path);
    match api.post(&caller, &path, &order.body(&form)).await {
        Ok(told) => confirm(&caller, order, &told, StatusCode::OK, &html! {}),
        Err(refusal) => refused(&caller, order.place, &refusal),
    }
}

/// Carries an order out, if its plan still holds; shows the new plan if it does not.
pub(crate) async fn carry_out(
    State(api): State<Api>,
    Path(path): Path<String>,
    request: Request,
) -> Response {
    let (caller, form) = match Form::of_body(request).await {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let Some(order) = Order::of(&path) else {
        return unknown(&caller);
    };
    let path = format!("/v1/{}/do", order.path);
    let body = serde_json::json!({ "token": form.text("token"), "reason": form.text("reason") });
    match api.post(&caller, &path, &body).await {
        Ok(told) => done(&caller, order, &told),
        Err(refusal) if text(&refusal.problem, "code") == "plan-stale" => {
            let why = html! {
                p.notice.bad role="alert" {
                    "Something has changed since this was planned, and nothing was done. This is the plan now."
                }
            };
            confirm(&caller, order, &refusal.problem, StatusCode::CONFLICT, &why)
        }
        Err(refusal) if text(&refusal.problem, "certainty") == "maybe_applied" => {
            let detail = format!("It may have been done: {}", refusal.detail());
            self::refusal(&caller, order.place, refusal.status, &detail)
        }
        Err(refusal) => refused(&caller, order.place, &refusal),
    }
}

fn unknown(caller: &Caller) -> Response {
    let detail = "There is no such order.";
    refusal(caller, Place::Elsewhere, StatusCode::NOT_FOUND, detail)
}

/// Shows a plan, and asks for a reason.
fn confirm(
    caller: &Caller,
    order: &Order,
    plan: &Value,
    status: StatusCode,
    why: &Markup,
) -> Response {
    let (changes, left) = (list(plan, "changes"), list(plan, "left"));
    let content = html! {
        h1 { (order.verb) "?" }
        (why)
        @if changes.is_empty() {
            p.notice { "Nothing would change." }
        } @else {
            h2 { "What would change" }
            (table(changes, false))
        }
        @if plan["complete"] == false {
            p.notice { "There is more than fits into one plan. Plan again after this." }
        }
        @if !left.is_empty() {
            h2 { "What stays as it is" }
            ul {
                @for it in left {
                    li {
                        code.key { (if text(it, "key").is_empty() { text(it, "id") } else { text(it, "key") }) }
                        ": " (text(it, "why"))
                    }
                }
            }
        }
        @if !changes.is_empty() {
            form.confirm method="post" action={ "/orders/do/" (order.path) } {
                input type="hidden" name="token" value=(text(plan, "token"));
                label for="reason" { "Why? The audit trail keeps it, with your name." }
                input #reason name="reason" required maxlength="1024" autocomplete="off";
                button.primary { (order.verb) " " (number(changes)) }
            }
        }
        p { a href=(back(order, changes)) { "Back" } }
    };
    let mut page = page(caller, order.place, order.verb, &content);
    *page.status_mut() = status;
    page
}

/// Shows what came of an order.
fn done(caller: &Caller, order: &Order, told: &Value) -> Response {
    let changes = list(told, "changes");
    let is_whole = told["complete"] == true;
    let content = html! {
        h1 { (order.verb) ": " @if is_whole { "done" } @else { "not all of it" } }
        p.notice.good[is_whole].bad[!is_whole] role="status" {
            (shown(&told["done"])) " of " (number(changes)) " done."
        }
        (table(changes, true))
        p { a href=(back(order, changes)) { "Back" } " · " a href="/audit" { "Audit" } }
    };
    page(caller, order.place, order.verb, &content)
}

fn number(changes: &[Value]) -> String {
    match changes.len() {
        1 => "one change".to_owned(),
        count => format!("{count} changes"),
    }
}

/// The page to go back to: that of the key, where it is about one.
fn back(order: &Order, changes: &[Value]) -> String {
    match changes {
        [one] if order.back == "/key" => page_of(text(one, "operation_id")),
        _ => order.back.to_owned(),
    }
}

/// Changes, and their results once they were tried.
fn table(changes: &[Value], is_done: bool) -> Markup {
    let is_sweep = changes.iter().any(|it| it.get("removed").is_some());
    html! {
        div.wide tabindex="0" role="region" aria-label="Changes" {
            table {
                caption.hidden { "Changes" }
                thead { tr {
                    @if is_sweep {
                        th scope="col" { "Records removed" }
                    } @else {
                        th scope="col" { "Key" } th scope="col" { "Pipeline" } th scope="col" { "Tenant" }
                        th scope="col" { "Before" } th scope="col" { "After" } th scope="col" { "Message" }
                        th scope="col" { "Remark" }
                    }
                    @if is_done { th scope="col" { "Result" } }
                } }
                tbody {
                    @for change in changes { (row(change, is_sweep, is_done)) }
                }
            }
        }
    }
}

fn row(change: &Value, is_sweep: bool, is_done: bool) -> Markup {
    let is_message = change.get("size_bytes").is_some();
    html! {
        tr {
            @if is_sweep {
                td {
                    @if !is_done { "about " }
                    @if change["removed"].is_null() { "as many as there are" } @else { (shown(&change["removed"])) }
                }
            } @else {
                td { (key_link(change)) }
                td { (text(change, "pipeline")) }
                td { (text(change, "tenant")) }
                @if is_message {
                    td { (state(text(change, "state"))) }
                    td { "dropped" }
                    td { (text(change, "reason")) }
                    td { (text(change, "error")) (text(change, "detail")) }
                } @else {
                    td { (state(text(change, "before"))) }
                    td { (state(text(change, "after"))) }
                    td { (words(text(change, "message"))) }
                    td { (text(&change["remark"], "text")) }
                }
            }
            @if is_done {
                td { (state(text(change, "result"))) " " (text(change, "why")) }
            }
        }
    }
}
