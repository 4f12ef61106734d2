//! The settings of a route, which the gateway has for all of them.

use std::time::Duration;

use http::{HeaderName, Method};
use semel_core::Window;
use semel_core::json::Pointer;
use semel_engine::effect::Class;
use semel_gateway::{BodyPart, Mode, OnOutage, Parts, Route, Statuses, TenantFrom};
use semel_worker::effect::publish::Promise;

use crate::fields::Fields;
use crate::node::{Table, Value};
use crate::{effect, pipeline};

use super::proof::TenantProof;

/// Reads the settings that a route can have; nothing if one of them means nothing. The tenant that is to be proved is an
/// extension of each request for the route.
pub(super) fn read(table: &mut Fields<'_>, window: Window) -> Option<(Route, Option<TenantProof>)> {
    let usual = Route::default();
    let methods = methods(table, &usual);
    let require_key = table.boolean_or("require_key", false);
    let derive = table.choice_or("key", ("header", false), &[("derive", true)]);
    let operation = operation(table, &usual);
    let fingerprint = fingerprint(table);
    let mode = table.choice_or("mode", ("ietf", Mode::Ietf), &[("stripe", Mode::Stripe)]);
    let (wait, window) = times(table, mode, window, &usual);
    let lease = pipeline::lease(table, Window::new(window));
    let upstream_timeout = table.positive_or("upstream_timeout", usual.upstream_timeout);
    let class = effect::promise(table, false).map(Promise::class);
    let max_body_bytes = size(table, "max_body", usual.max_body_bytes);
    let max_answer_bytes = size(table, "max_answer", usual.max_answer_bytes);
    let outcomes = outcomes(table, &usual);
    let decisive = decisive(table, class);
    let unsure = unsure(table);
    let kept_headers = kept_headers(table, &usual);
    let (tenant, proof) = table.parsed_with("tenant", tenant).unwrap_or_default();
    let fail = table.choice_or(
        "fail",
        ("closed", OnOutage::Closed),
        &[("open", OnOutage::Open)],
    );
    let shadow = table.boolean_or("shadow", false);
    if let Some(node) = table.node("key")
        && derive
        && let Some(parts) = &fingerprint
        && is_empty(parts)
    {
        table.fault("key", node, NOTHING_TO_DERIVE);
    }
    let route = Route {
        operation: operation?,
        methods: methods?,
        require_key,
        derive,
        fingerprint: fingerprint?,
        wait,
        lease,
        window,
        upstream_timeout,
        class: class?,
        max_body_bytes,
        max_answer_bytes,
        outcomes,
        decisive,
        unsure,
        kept_headers,
        tenant,
        fail,
        mode,
        shadow,
        ..usual
    };
    Some((route, proof))
}

/// Returns what a route has of its own, and what the gateway has for all of them where the route says nothing.
pub(super) fn inherited(gateway: &Table, own: &Table) -> Table {
    let says = |name: &str| own.contains_key(name);
    let is_stripe = own
        .get("mode")
        .is_some_and(|mode| matches!(&mode.value, Value::Text(mode) if mode == "stripe"));
    let applies = |name: &str| match name {
        "on_doubt" | "provider_window" => !says("class"),
        "wait" | "window" => !is_stripe,
        _ => true,
    };
    let mut table = own.clone();
    for name in SHARED {
        if let (false, true, Some(node)) = (says(name), applies(name), gateway.get(name)) {
            table.insert(name.to_owned(), node.clone());
        }
    }
    table
}

fn methods(table: &mut Fields<'_>, usual: &Route) -> Option<Vec<Method>> {
    if !table.is_written("methods") {
        let names = usual.methods.iter().map(|it| it.as_str().into());
        table.default("methods", names.collect::<toml::value::Array>());
        return Some(usual.methods.clone());
    }
    table.one_or_many("methods", |text| {
        let is_written_so = text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        let method = Method::from_bytes(text.as_bytes());
        method
            .ok()
            .filter(|_| is_written_so)
            .ok_or_else(|| format!("`{text}` is no method; write it in capitals, as in `POST`"))
    })
}

fn operation(table: &mut Fields<'_>, usual: &Route) -> Option<Box<str>> {
    table.default("operation", usual.operation.to_string());
    if !table.is_written("operation") {
        return Some(usual.operation.clone());
    }
    table.parsed_with("operation", |text| {
        pipeline::scope_of(text)?;
        if text.ends_with(".shadow") {
            return Err(
                "ends like the names that keys in shadow are recorded under; set another"
                    .to_owned(),
            );
        }
        Ok(Box::from(text))
    })
}

/// One part of a request that must be the same under one key.
enum Part {
    Method,
    Path,
    Query,
    Header(HeaderName),
    Body,
    Field(Pointer),
}

fn fingerprint(table: &mut Fields<'_>) -> Option<Parts> {
    if !table.is_written("fingerprint") {
        let all = ["method", "path", "query", "body"].map(toml::Value::from);
        table.default("fingerprint", toml::Value::Array(all.into()));
        return Some(Parts::default());
    }
    let written = table.one_or_many("fingerprint", part)?;
    let mut parts = Parts {
        method: false,
        path: false,
        query: false,
        headers: Vec::new(),
        body: BodyPart::Nothing,
    };
    let (mut has_body, mut fields) = (false, Vec::new());
    for part in written {
        match part {
            Part::Method => parts.method = true,
            Part::Path => parts.path = true,
            Part::Query => parts.query = true,
            Part::Header(name) => parts.headers.push(name),
            Part::Body => has_body = true,
            Part::Field(pointer) => fields.push(pointer),
        }
    }
    if has_body && !fields.is_empty() {
        let node = table.node("fingerprint")?;
        let message = "either all of the `body` or fields of it, not both";
        table.fault("fingerprint", node, message);
        return None;
    }
    if has_body {
        parts.body = BodyPart::Whole;
    } else if !fields.is_empty() {
        parts.body = BodyPart::Fields(fields);
    }
    Some(parts)
}

fn part(text: &str) -> Result<Part, String> {
    if let Some(name) = text.strip_prefix("header:") {
        return header(name).map(Part::Header);
    }
    if let Some(pointer) = text.strip_prefix("json:") {
        let pointer = Pointer::parse(pointer);
        return pointer
            .map(Part::Field)
            .map_err(|error| format!("`{text}`: {error}"));
    }
    match text {
        "method" => Ok(Part::Method),
        "path" => Ok(Part::Path),
        "query" => Ok(Part::Query),
        "body" => Ok(Part::Body),
        _ => Err(format!(
            "`{text}` is no part of a request; there are method, path, query, body, header:NAME and json:/POINTER"
        )),
    }
}

fn header(name: &str) -> Result<HeaderName, String> {
    let read = HeaderName::from_bytes(name.as_bytes());
    read.map_err(|_| format!("`{name}` is no name of a header"))
}

/// Tells whether nothing of a request is a part.
fn is_empty(parts: &Parts) -> bool {
    let nothing = Parts {
        method: false,
        path: false,
        query: false,
        headers: Vec::new(),
        body: BodyPart::Nothing,
    };
    // The method and the path are the same for requests that have nothing to do with each other.
    let told_apart = Parts {
        method: false,
        path: false,
        ..parts.clone()
    };
    told_apart == nothing
}

/// Reads how long a request waits for the first one, and how long an answer is remembered.
fn times(
    table: &mut Fields<'_>,
    mode: Mode,
    window: Window,
    usual: &Route,
) -> (Duration, Duration) {
    if mode == Mode::Stripe {
        table.reject(
            "wait",
            "in the mode `stripe` no request waits for another; remove it",
        );
        table.reject("window", "in the mode `stripe` it is 24 hours; remove it");
        return (Duration::ZERO, A_DAY);
    }
    let wait = table.duration_or("wait", usual.wait);
    let inherited = semel_core::units::duration_text(window.duration());
    table.default_from("window", inherited, "window.duration");
    let own = table.window("window");
    if let (Some(node), Some(Duration::ZERO)) = (table.node("window"), own) {
        let message = "a window of zero remembers nothing; the least is `1ms`";
        table.fault("window", node, message);
    }
    (wait, own.unwrap_or(window.duration()))
}

fn size(table: &mut Fields<'_>, name: &'static str, default: usize) -> usize {
    let read = table.size_bytes_or(name, default as u64);
    if let Some(node) = table.node(name)
        && !SIZES.contains(&read)
    {
        table.fault(name, node, "must be from `1B` to `256MiB`");
    }
    usize::try_from(read).unwrap_or(usize::MAX)
}

fn outcomes(table: &mut Fields<'_>, usual: &Route) -> Statuses {
    table.default("outcomes", usual.outcomes.to_string());
    let read = table.parsed_with("outcomes", statuses);
    let outcomes = read.unwrap_or_else(|| usual.outcomes.clone());
    let route = Route {
        outcomes: outcomes.clone(),
        ..Route::default()
    };
    refuse(table, "outcomes", &route);
    outcomes
}

fn decisive(table: &mut Fields<'_>, class: Option<Class>) -> Statuses {
    let decisive = table.parsed_with("decisive", statuses).unwrap_or_default();
    let usual = Route::default();
    let route = Route {
        decisive: decisive.clone(),
        class: class.unwrap_or(usual.class),
        ..usual
    };
    refuse(table, "decisive", &route);
    decisive
}

fn unsure(table: &mut Fields<'_>) -> Statuses {
    let unsure = table.parsed_with("unsure", statuses).unwrap_or_default();
    let route = Route {
        unsure: unsure.clone(),
        ..Route::default()
    };
    refuse(table, "unsure", &route);
    unsure
}

fn kept_headers(table: &mut Fields<'_>, usual: &Route) -> Vec<HeaderName> {
    if !table.is_written("kept_headers") {
        let names = usual.kept_headers.iter().map(|it| it.as_str().into());
        table.default("kept_headers", names.collect::<toml::value::Array>());
        return usual.kept_headers.clone();
    }
    let kept_headers = table.words("kept_headers", header);
    let route = Route {
        kept_headers: kept_headers.clone(),
        ..Route::default()
    };
    refuse(table, "kept_headers", &route);
    kept_headers
}

/// Reports what a route that has nothing but this setting would be refused for.
fn refuse(table: &mut Fields<'_>, name: &'static str, route: &Route) {
    if let (Some(node), Err(error)) = (table.node(name), route.check()) {
        table.fault(name, node, error.to_string());
    }
}

fn statuses(text: &str) -> Result<Statuses, String> {
    text.parse::<Statuses>().map_err(|error| error.to_string())
}

fn tenant(text: &str) -> Result<(TenantFrom, Option<TenantProof>), String> {
    if let Some(name) = text.strip_prefix("header:") {
        return Ok((TenantFrom::Header(header(name)?), None));
    }
    match (text, text.strip_prefix("jwt:")) {
        (_, Some(claim)) if !claim.trim().is_empty() => {
            Ok((TenantFrom::Extension, Some(TenantProof::Jwt(claim.into()))))
        }
        ("mtls", _) => Ok((TenantFrom::Extension, Some(TenantProof::Certificate))),
        ("none", _) => Ok((TenantFrom::Nowhere, None)),
        _ => Err(format!(
            "`{text}` says nothing of where a tenant is; write `header:NAME`, `mtls`, `jwt:CLAIM`, or `none`"
        )),
    }
}

/// The settings of the gateway that its routes have, too, unless they have their own.
const SHARED: [&str; 22] = [
    "methods",
    "require_key",
    "key",
    "operation",
    "fingerprint",
    "mode",
    "wait",
    "window",
    "lease",
    "upstream_timeout",
    "class",
    "on_doubt",
    "provider_window",
    "max_body",
    "max_answer",
    "outcomes",
    "decisive",
    "unsure",
    "kept_headers",
    "tenant",
    "fail",
    "shadow",
];
const SIZES: std::ops::RangeInclusive<u64> = 1..=256 << 20;
const A_DAY: Duration = Duration::from_secs(86_400);
const NOTHING_TO_DERIVE: &str = "derives a key from the parts of `fingerprint`, and method and path alone are the same for \
                                 requests that have nothing to do with each other; name more of them";
