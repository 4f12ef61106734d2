//! Values of reports as people read them, and the addresses of pages.

use form_urlencoded::byte_serialize;
use maud::{Markup, html};
use serde_json::Value;

/// The text of a member; empty if there is none.
pub(crate) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// The elements of a member; none if it is no list.
pub(crate) fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// A word of a report in the form of prose: `in_doubt` becomes `in doubt`, and `store-away` `store away`.
pub(crate) fn words(word: &str) -> String {
    word.replace(['_', '-'], " ")
}

/// Text that strangers write, beside other text: its letters cannot turn the order of those around it.
pub(crate) fn foreign(text: &str) -> Markup {
    html! { bdi { (text) } }
}

/// A time of a report, which is RFC 3339 in UTC.
pub(crate) fn time(value: &Value) -> Markup {
    let Some(text) = value.as_str() else {
        return html! { span.none { "–" } };
    };
    let shown = text.split('.').next().unwrap_or(text).trim_end_matches('Z');
    html! { time datetime=(text) { (shown.replacen('T', " ", 1)) " UTC" } }
}

/// A value of a report, or a dash.
pub(crate) fn shown(value: &Value) -> Markup {
    match value {
        Value::Null => html! { span.none { "–" } },
        Value::String(text) if text.is_empty() => html! { span.none { "–" } },
        Value::String(text) => html! { (text) },
        Value::Number(number) => html! { (grouped(&number.to_string())) },
        Value::Bool(true) => html! { "yes" },
        Value::Bool(false) => html! { "no" },
        Value::Array(_) | Value::Object(_) => html! { code { (value.to_string()) } },
    }
}

/// A number in groups of three digits.
pub(crate) fn grouped(number: &str) -> String {
    let is_whole = number.bytes().all(|it| it.is_ascii_digit());
    if !is_whole {
        return number.to_owned();
    }
    let mut grouped = String::new();
    for (at, digit) in number.chars().enumerate() {
        if at > 0 && (number.len() - at).is_multiple_of(3) {
            // A space that does not break.
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// The address of a page with these members of its query; those that are empty are left out.
pub(crate) fn address(path: &str, members: &[(&str, &str)]) -> String {
    let members = members.iter().filter(|(_, value)| !value.is_empty());
    let members: Vec<_> = members.copied().collect();
    whole_address(path, &members)
}

/// The same with those that are empty.
pub(crate) fn whole_address(path: &str, members: &[(&str, &str)]) -> String {
    let mut address = path.to_owned();
    for (at, (name, value)) in members.iter().enumerate() {
        address.push(if at == 0 { '?' } else { '&' });
        address.push_str(name);
        address.push('=');
        address.extend(byte_serialize(value.as_bytes()));
    }
    address
}

/// The key of an entry, linked to its page if it is on record.
pub(crate) fn key_link(entry: &Value) -> Markup {
    let (key, id) = (text(entry, "key"), text(entry, "operation_id"));
    if key.is_empty() {
        return html! { span.none { "no key" } };
    }
    if id.is_empty() {
        return html! { code.key { (foreign(key)) } };
    }
    html! { a.key href=(key_address(entry)) { (foreign(key)) } }
}

/// The address of the page of one record. It names the operation id beside the key, the pipeline and the tenant, by which
/// the page tells that it shows that record and no other.
pub(crate) fn key_address(entry: &Value) -> String {
    let members = ["key", "pipeline", "tenant"].map(|name| (name, text(entry, name)));
    let [key, pipeline, tenant] = members;
    let id = ("id", text(entry, "operation_id"));
    address("/key", &[key, pipeline, tenant, id])
}

/// A state, by a word and a colour.
pub(crate) fn state(word: &str) -> Markup {
    let kind = match word {
        "running" | "completed" | "done" | "applied" | "replayed" | "ended" => "good",
        "in_doubt" | "dead" | "failed" | "unknown" | "stopping" => "bad",
        "claimed" | "started" | "released" | "absent" => "plain",
        _ => "warn",
    };
    html! { @if !word.is_empty() { span.state.(kind) { (words(word)) } } }
}
