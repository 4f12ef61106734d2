//! Doubts: effects of which nobody knows whether they happened, for a person who finds out.

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use semel_http::{Caller, Role};
use serde_json::Value;

use crate::api::{Api, Refusal};
use crate::form::Form;
use crate::layout::{Place, missing, more, nothing, page};
use crate::text::{grouped, key_link, shown, text, time};

/// Shows the queue of doubts.
pub(crate) async fn show(State(api): State<Api>, head: Parts) -> Response {
    let (caller, form) = match Form::of_query(&head) {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let query = ["pipeline", "tenant", "cursor"].map(|name| (name, form.text(name)));
    let [pipeline, tenant, _] = query.map(|(_, value)| value);
    let queue = Queue::read(&api, &caller, query).await;
    let content = html! {
        h1 { "In doubt" }
        p {
            "Nobody knows whether these effects happened. Look each up where it would have had its effect, by its key; then "
            "say what you found. Nothing is run again by itself."
        }
        p.hint {
            "A provider that takes idempotency keys got the one in the last column: from an effect " code { "http" } ", " code { "exec" }
            " or " code { "jsonl" } ", and from a caller of the claim API that handed it on. A gateway hands on the key itself."
        }
        form.filter method="get" action="/in-doubt" role="search" {
            div { label for="pipeline" { "Pipeline" } input #pipeline name="pipeline" value=(pipeline); }
            div { label for="tenant" { "Tenant" } input #tenant name="tenant" value=(tenant); }
            button { "Show" }
        }
        @match &queue {
            Ok(queue) => {
                (doubts(queue, &caller, pipeline, tenant))
                (more("/in-doubt", &query, &queue.next, "Read on"))
            }
            Err(refusal) => { (missing(refusal)) }
        }
    };
    page(&caller, Place::InDoubt, "In doubt", &content)
}

/// Those that wait the longest, of as many as were read.
struct Queue {
    oldest: Vec<Value>,
    read: usize,
    /// True if this is all, from the beginning to the end.
    is_whole: bool,
    /// The cursor of what was not read; empty if there is nothing more.
    next: String,
}

impl Queue {
    async fn read(
        api: &Api,
        caller: &Caller,
        [pipeline, tenant, (_, begin)]: [(&str, &str); 3],
    ) -> Result<Self, Refusal> {
        let (mut all, mut cursor) = (Vec::new(), begin.to_owned());
        for _ in 0..PAGES {
            let query = [pipeline, tenant, ("limit", "1000"), ("cursor", &cursor)];
            let mut told = api.get(caller, "/v1/in-doubt", &query).await?;
            if let Value::Array(items) = told["items"].take() {
                all.extend(items);
            }
            text(&told, "next").clone_into(&mut cursor);
            if cursor.is_empty() {
                break;
            }
        }
        let read = all.len();
        // Times are RFC 3339 in UTC with as many digits each, so that their text has their order.
        all.sort_by(|one, other| text(one, "since").cmp(text(other, "since")));
        all.truncate(SHOWN);
        Ok(Self {
            oldest: all,
            read,
            is_whole: begin.is_empty() && cursor.is_empty(),
            next: cursor,
        })
    }
}

fn doubts(queue: &Queue, caller: &Caller, pipeline: &str, tenant: &str) -> Markup {
    let may = caller.may(Role::Operator).is_ok();
    let count = grouped(&queue.read.to_string());
    html! {
        @if queue.oldest.is_empty() {
            (nothing(queue.is_whole, "Nothing is in doubt."))
        } @else {
            p role="status" {
                @if queue.is_whole { b { (count) } " in doubt" } @else { b { (count) } " in doubt were read of a longer list" }
                @if queue.oldest.len() < queue.read { "; the oldest " (queue.oldest.len()) " of these are shown" }
                "."
            }
            @if may {
                form method="post" action="/orders/plan/in-doubt/resolve" {
                    (table(&queue.oldest, may))
                    h2 { "Say of the selected ones" }
                    (verdicts("one"))
                    (call_again("the selected"))
                }
            } @else {
                (table(&queue.oldest, may))
            }
            @if may {
                details {
                    summary { "Say the same of all of them" }
                    form method="post" action="/orders/plan/in-doubt/resolve" {
                        input type="hidden" name="all" value="true";
                        input type="hidden" name="pipeline" value=(pipeline);
                        input type="hidden" name="tenant" value=(tenant);
                        div.filter {
                            div { label for="older" { "In doubt for at least" } input #older name="older_than" placeholder="1h"; }
                            div { label for="like" { "With this in what is known" } input #like name="reason_like"; }
                        }
                        (verdicts("all"))
                        (call_again("all of them"))
                    }
                }
            } @else {
                p.hint { "Your role, " (caller.role.as_str()) ", changes nothing." }
            }
        }
    }
}

fn table(doubts: &[Value], may: bool) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Effects in doubt, oldest first" {
            table data-selectable=[may.then_some("yes")] {
                caption { "Oldest first" }
                thead { tr {
                    @if may { th scope="col" { span.hidden { "Select" } } }
                    th scope="col" { "Key" } th scope="col" { "Pipeline" } th scope="col" { "Tenant" }
                    th scope="col" { "Since" } th.number scope="col" { "Attempts" }
                    th.number scope="col" { "Perhaps repeated" } th scope="col" { "What is known" }
                    th scope="col" { "Idempotency key" }
                } }
                tbody {
                    @for doubt in doubts { (row(doubt, may)) }
                }
            }
        }
    }
}

fn row(doubt: &Value, may: bool) -> Markup {
    let id = text(doubt, "operation_id");
    html! {
        tr {
            @if may {
                td { input type="checkbox" name="ids" value=(id) aria-label={ "Select " (text(doubt, "key")) }; }
            }
            td { (key_link(doubt)) }
            td { (text(doubt, "pipeline")) }
            td { (text(doubt, "tenant")) }
            td { (time(&doubt["since"])) }
            td.number { (shown(&doubt["attempts"])) }
            td.number { (shown(&doubt["possible_repeats"])) }
            td { (text(doubt, "reason")) }
            td { code.key { (id) } }
        }
    }
}

/// The form that says what became of one effect.
pub(crate) fn verdict(hidden: &Markup) -> Markup {
    html! {
        form method="post" action="/orders/plan/in-doubt/resolve" { (hidden) (verdicts("one")) }
    }
}

/// The button that calls effects again, in a form that says what became of them: where the target knows their keys, that
/// is no second effect, and nothing has to be found out.
fn call_again(which: &str) -> Markup {
    html! {
        p.hint { "Or let the target tell, if it knows the key: a call under the same key is no second effect." }
        button formaction="/orders/plan/in-doubt/retry" formnovalidate { "Call " (which) " again…" }
    }
}

/// The statements that a person can make about a doubt.
fn verdicts(of: &str) -> Markup {
    html! {
        fieldset {
            legend { "What did you find?" }
            div.choice {
                input type="radio" name="verdict" value="applied" id={ "applied-" (of) } required;
                label for={ "applied-" (of) } { "It happened. A duplicate gets its outcome." }
            }
            div.choice {
                input type="radio" name="verdict" value="not_applied" id={ "not-" (of) };
                label for={ "not-" (of) } { "It did not happen. It may run again." }
            }
            div.choice {
                input type="radio" name="verdict" value="abandon" id={ "abandon-" (of) };
                label for={ "abandon-" (of) } { "It cannot be found out. It is given up, and does not run again." }
            }
            div {
                label for={ "outcome-" (of) } { "Its outcome, if it happened" }
                input name="outcome" id={ "outcome-" (of) };
            }
            button.primary { "Plan…" }
        }
    }
}

/// The pages of a list that are read for the queue, of 1,000 each.
const PAGES: usize = 2;
/// The doubts that are shown at once.
const SHOWN: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_was_not_read_to_its_end_is_not_told_as_empty() {
        let shown = |is_whole| {
            let queue = Queue {
                oldest: Vec::new(),
                read: 0,
                is_whole,
                next: "after".to_owned(),
            };
            doubts(&queue, &Caller::loopback(), "", "").into_string()
        };
        assert!(shown(true).contains("Nothing is in doubt."));
        assert!(!shown(false).contains("Nothing is in doubt."));
        assert!(shown(false).contains("in this part of a longer list"));
    }
}
