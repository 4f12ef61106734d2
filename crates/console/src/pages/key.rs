//! One key: found by what a person types, its story, what a duplicate meets now, and what can be done.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use semel_http::{Caller, Role};
use serde_json::Value;

use crate::api::Api;
use crate::form::Form;
use crate::layout::{Place, missing, more, nothing, page};
use crate::text::{foreign, key_link, list, shown, state, text, time, whole_address, words};

/// Shows a key, or the keys that can be meant.
pub(crate) async fn show(State(api): State<Api>, head: Parts) -> Response {
    let (caller, form) = match Form::of_query(&head) {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let typed = Typed {
        key: form.text("key"),
        pipeline: form.text("pipeline"),
        tenant: form.text("tenant"),
    };
    let (id, cursor) = (form.text("id"), form.text("cursor"));
    let found = match (typed.key, id, cursor) {
        ("", ..) => html! {},
        (_, "", "") => typed.found(&api, &caller).await,
        (_, "", cursor) => typed.alike(&api, &caller, cursor).await,
        (_, id, _) => typed.exact(&api, &caller, id).await,
    };
    let Typed {
        key,
        pipeline,
        tenant,
    } = typed;
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

/// The key that a person typed, or that an address names, and where it is looked for.
#[derive(Clone, Copy)]
struct Typed<'t> {
    key: &'t str,
    pipeline: &'t str,
    tenant: &'t str,
}

impl Typed<'_> {
    /// Shows the meaning of what was typed: one key, several, or those that begin so.
    async fn found(self, api: &Api, caller: &Caller) -> Markup {
        // A key that was forgotten may have left traces, which are told as well.
        let refusal = match api.get(caller, "/v1/keys/explain", &self.members()).await {
            Ok(told) if is_id(self.key) && text(&told, "key") == self.key => {
                return namesake(&told);
            }
            Ok(told) if self.can_mean(&told) => return story(&told, caller),
            Ok(_) => return other(),
            Err(refusal) => refusal,
        };
        match refusal.status {
            StatusCode::NOT_FOUND => self.alike(api, caller, "").await,
            StatusCode::BAD_REQUEST => {
                let meant = api.get(caller, "/v1/keys/find", &self.members()).await;
                match meant {
                    Ok(meant) if list(&meant, "items").len() > 1 => several(&meant),
                    Ok(_) | Err(_) => missing(&refusal),
                }
            }
            _ => missing(&refusal),
        }
    }

    /// Shows the record that an address names by everything: an empty tenant is that of a pipeline without tenants.
    async fn exact(self, api: &Api, caller: &Caller, id: &str) -> Markup {
        let address = whole_address("/v1/keys/explain", &self.members());
        match api.get_at(caller, &address).await {
            Ok(told) if text(&told, "operation_id") == id => story(&told, caller),
            Ok(_) => other(),
            Err(refusal) if refusal.status == StatusCode::NOT_FOUND => {
                html! { p.notice { "Nothing is on record under this key." } }
            }
            Err(refusal) => missing(&refusal),
        }
    }

    /// Shows the keys that begin like what was typed.
    async fn alike(self, api: &Api, caller: &Caller, cursor: &str) -> Markup {
        let of = [("pipeline", self.pipeline), ("tenant", self.tenant)];
        let page = [("limit", "100"), ("cursor", cursor)];
        let query = [of[0], of[1], ("prefix", self.key), page[0], page[1]];
        let alike = match api.get(caller, "/v1/keys", &query).await {
            Ok(alike) => alike,
            Err(refusal) => return missing(&refusal),
        };
        let is_whole = cursor.is_empty() && alike["complete"] == true;
        let none = "Nothing is on record under this key, and none begins so.";
        html! {
            @if !list(&alike, "items").is_empty() {
                (several(&alike))
            } @else if is_whole {
                p.notice { (none) }
            } @else {
                (nothing(false, none))
            }
            (more("/key", &self.members(), text(&alike, "next"), "Read on"))
        }
    }

    fn members(&self) -> [(&str, &str); 3] {
        let Self {
            key,
            pipeline,
            tenant,
        } = self;
        [("key", key), ("pipeline", pipeline), ("tenant", tenant)]
    }

    /// Tells whether a story is that of what was typed: of its key, or of an operation whose id begins so.
    fn can_mean(&self, told: &Value) -> bool {
        let id = self.key.to_ascii_lowercase();
        text(told, "key") == self.key || text(told, "operation_id").starts_with(&id)
    }
}

/// Tells whether a text has the form of an operation id.
fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|it| it.is_ascii_hexdigit())
}

/// Shows that what was typed as an operation id is a key: whoever chose that key may have meant to hide the operation.
fn namesake(told: &Value) -> Markup {
    let one = serde_json::json!({ "items": [told] });
    html! {
        p.notice.bad {
            "A key with this very text is on record. The operation that has it as its id is another one: to find that, use \
             its own key."
        }
        (several(&one))
    }
}

/// Shows that an address does not mean what it says.
fn other() -> Markup {
    html! { p.notice.bad { "This key is on record, but not that of the operation that was asked for." } }
}

/// The keys that can be meant.
fn several(told: &Value) -> Markup {
    html! {
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

/// The story of one key.
fn story(told: &Value, caller: &Caller) -> Markup {
    let duplicate = &told["duplicate"];
    html! {
        h2.subject { code.key { (foreign(text(told, "key"))) } " " (state(text(told, "state"))) }
        p.lead { (text(told, "text")) }
        dl.facts {
            div { dt { "Pipeline" } dd { (text(told, "pipeline")) } }
            @if !text(told, "tenant").is_empty() {
                div { dt { "Tenant" } dd { (text(told, "tenant")) } }
            }
            div { dt { "Since" } dd { (time(&told["since"])) } }
            @if told["reason"].is_string() {
                div { dt { "Reason" } dd { (text(told, "reason")) } }
            }
            div { dt { "Remembered until" } dd { (time(&told["remembered_until"])) } }
            div { dt { "Operation id" } dd { code { (text(told, "operation_id")) } } }
            @if told["transport"].is_string() {
                div { dt { "First message" } dd { code { (text(told, "transport")) } } }
            }
            @if told["fingerprint"].is_string() {
                div { dt { "Fingerprint" } dd { code { (text(told, "fingerprint")) } } }
            }
            @if told["outcome_blake3"].is_string() {
                div { dt { "Digest of the outcome" } dd { code { (text(told, "outcome_blake3")) } } }
            }
        }
        section.card aria-labelledby="duplicate" {
            h3 #duplicate { "What a duplicate meets now: " (words(text(duplicate, "answer"))) }
            @for sentence in list(duplicate, "texts") { p { (shown(sentence)) } }
            p { "If nobody acts: " (text(told, "next")) }
        }
        section.card aria-labelledby="history" {
            h3 #history { "What happened" }
            ol.story {
                @for event in list(told, "history") {
                    li { (time(&event["at"])) span { (foreign(text(event, "text"))) } }
                }
            }
        }
        @if !list(told, "messages").is_empty() {
            section.card aria-labelledby="messages" {
                h3 #messages { "Messages set aside (" (shown(&told["message_count"])) ")" }
                ul {
                    @for message in list(told, "messages") {
                        li {
                            (foreign(text(message, "reason"))) ": " (foreign(text(message, "detail"))) " · from "
                            code { (foreign(text(message, "coordinates"))) } ", " (time(&message["since"]))
                        }
                    }
                }
            }
        }
        (choices(told, caller))
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

/// The members that name a record in a form: by its key, which is found at once. An empty tenant is one as well.
fn hidden(told: &Value) -> Markup {
    html! {
        @for (name, member) in [("keys", "key"), ("pipeline", "pipeline"), ("tenant", "tenant")] {
            input type="hidden" name=(name) value=(text(told, member));
        }
    }
}

/// The digits of an operation id.
const ID_DIGITS: usize = 64;
