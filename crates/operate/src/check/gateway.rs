//! The report of a route of a gateway: what it promises, to whom, and what it leaves unprotected.

use std::borrow::Cow;

use semel_config::{GatewaySettings, RouteSettings, Settings, TenantProof};
use semel_core::Error;
use semel_core::units::{duration_text, spelled};
use semel_engine::effect::{Class, OnDoubt, within_provider_window};
use semel_gateway::{BodyPart, Mode, OnOutage, Parts, Route, TenantFrom};
use serde::{Deserialize, Serialize};

use super::finding::{Finding, Severity, warn};
use super::inspection::Inspection;
use super::report::{StoreReport, guarantee};
use super::rules::of_store;
use crate::value::Span;

/// The documented object; the names and the order of its members are stable.
#[derive(Debug, Serialize, Deserialize)]
pub struct RouteReport {
    /// The path of the route; `*` for every path that no route before it has.
    pub route: String,
    /// The worst of the findings.
    pub verdict: Severity,
    /// The address of the gateway.
    pub gateway: String,
    /// The servers behind it.
    pub upstreams: Vec<String>,
    /// The name under which keys are kept.
    pub operation: String,
    /// The methods that are guarded.
    pub methods: Vec<String>,
    /// The class of what is behind the route.
    pub class: Cow<'static, str>,
    /// The promise of the class.
    pub guarantee: Cow<'static, str>,
    /// The treatment of an unkeyed request whose end is unknown.
    pub on_doubt: Option<Cow<'static, str>>,
    /// The fate of a request whose end is unknown, a sentence.
    pub doubt: String,
    /// The requests that have no protection, a clause each.
    pub unprotected: Vec<String>,
    /// The place of the key.
    pub key: Cow<'static, str>,
    /// The place of the tenant; none where there is only one.
    pub tenant: Option<String>,
    /// The parts that must be the same under one key.
    pub fingerprint: Vec<String>,
    /// The store that the promise rests on.
    pub store: StoreReport,
    /// The time for which an answer is remembered.
    pub window: Span,
    /// The longest wait for the first request under a key.
    pub wait: Span,
    /// The time for which a claim lasts.
    pub lease: Span,
    /// The longest time for an answer.
    pub timeout: Span,
    /// The answers that are remembered.
    pub outcomes: String,
    /// The dialect of the answers.
    pub mode: Cow<'static, str>,
    /// All findings.
    pub findings: Vec<Finding>,
}

impl RouteReport {
    /// Applies every rule to the routes of the gateway, in their order; nothing if there is none.
    pub fn all(settings: &Settings, store: Result<&Inspection, &Error>) -> Vec<Self> {
        let routes = settings.gateway.iter().flat_map(|gateway| {
            let of = |it| Self::of(settings, gateway, it, store);
            gateway.routes.iter().map(of)
        });
        routes.collect()
    }

    fn of(
        settings: &Settings,
        gateway: &GatewaySettings,
        RouteSettings { path, route, proof }: &RouteSettings,
        store: Result<&Inspection, &Error>,
    ) -> Self {
        let mut findings = findings(settings, route, store);
        findings.extend(of_proof(gateway, proof.as_ref()));
        let severities = findings.iter().map(|finding| finding.severity);
        Self {
            route: path.to_string(),
            verdict: severities.max().unwrap_or(Severity::Ok),
            gateway: gateway.listen.to_string(),
            upstreams: gateway.upstreams.iter().map(ToString::to_string).collect(),
            operation: route.operation.to_string(),
            methods: route.methods.iter().map(ToString::to_string).collect(),
            class: route.class.as_str().into(),
            guarantee: if route.shadow {
                "nothing: every request passes, and is counted".into()
            } else {
                guarantee(route.class).into()
            },
            on_doubt: match route.class {
                Class::Unkeyed(OnDoubt::Park) => Some("park".into()),
                Class::Unkeyed(OnDoubt::Repeat) => Some("repeat".into()),
                Class::Keyed { .. } | Class::Transactional | Class::Streamed => None,
            },
            doubt: doubt(route),
            unprotected: unprotected(route),
            key: if route.derive {
                "derived".into()
            } else {
                "Idempotency-Key".into()
            },
            tenant: match (&route.tenant, proof) {
                (TenantFrom::Header(name), _) => Some(format!("header:{name}")),
                (_, Some(TenantProof::Certificate)) => Some("mtls".to_owned()),
                (_, Some(TenantProof::Jwt(claim))) => Some(format!("jwt:{claim}")),
                (TenantFrom::Nowhere | TenantFrom::Extension, None) => None,
            },
            fingerprint: parts(&route.fingerprint),
            store: StoreReport::of(settings, store),
            window: Span(route.window),
            wait: Span(route.wait),
            lease: Span(route.lease),
            timeout: Span(route.upstream_timeout),
            outcomes: route.outcomes.to_string(),
            mode: match route.mode {
                Mode::Ietf => "ietf".into(),
                Mode::Stripe => "stripe".into(),
            },
            findings,
        }
    }
}

impl RouteReport {
    /// Returns the heading of the report.
    pub fn title(&self) -> String {
        match &*self.route {
            "*" => "gateway".to_owned(),
            path => format!("gateway {path}"),
        }
    }
}

/// The fate of a request whose end nobody knows.
fn doubt(route: &Route) -> String {
    match route.class {
        Class::Keyed { .. } => {
            "a request whose end is unknown is sent again under its key, as long as the servers recognise that"
                .to_owned()
        }
        Class::Unkeyed(OnDoubt::Repeat) => {
            "a request whose end is unknown is sent again with the next try, and listed: it may be carried out twice"
                .to_owned()
        }
        Class::Unkeyed(OnDoubt::Park) | Class::Transactional | Class::Streamed => {
            "a request whose end is unknown is not sent again: its key is answered 409 in-doubt until somebody \
             resolves it"
                .to_owned()
        }
    }
}

/// The requests that have no protection.
fn unprotected(route: &Route) -> Vec<String> {
    let methods: Vec<_> = route.methods.iter().map(ToString::to_string).collect();
    let mut all = vec![format!("every method but {}", methods.join(", "))];
    if route.shadow {
        all.insert(0, "every request, since the route only watches".to_owned());
    }
    if !route.require_key && !route.derive {
        all.push("requests without a key".to_owned());
    }
    if route.fail == OnOutage::Open {
        all.push("every request while the store is away".to_owned());
    }
    all
}

fn parts(parts: &Parts) -> Vec<String> {
    let named = [
        ("method", parts.method),
        ("path", parts.path),
        ("query", parts.query),
    ];
    let named = named.into_iter().filter(|(_, counts)| *counts);
    let mut all: Vec<_> = named.map(|(name, _)| name.to_owned()).collect();
    all.extend(parts.headers.iter().map(|name| format!("header:{name}")));
    match &parts.body {
        BodyPart::Whole => all.push("body".to_owned()),
        BodyPart::Fields(fields) => all.extend(fields.iter().map(|field| format!("json:{field}"))),
        BodyPart::Nothing => {}
    }
    all
}

fn findings(
    settings: &Settings,
    route: &Route,
    store: Result<&Inspection, &Error>,
) -> Vec<Finding> {
    let mut findings = of_store(settings, route.class, store);
    if route.shadow {
        findings.push(warn(
            "route-in-shadow",
            "every request passes, the second under a key too; what the route would have done is counted",
            "take `shadow` out when the counts are what you expect",
        ));
    }
    if route.fail == OnOutage::Open {
        findings.push(warn(
            "fails-open",
            "while the store is away, requests pass without a claim and leave no record: their duplicates are carried \
             out again",
            "leave `fail` at \"closed\" unless an answer matters more than that it is given once",
        ));
    }
    if let TenantFrom::Header(name) = &route.tenant {
        findings.push(warn(
            "tenant-of-client",
            format!("a client that can set {name} itself chooses its tenant, and may see the answers to another one"),
            format!("let what authenticates callers set {name}, and drop it from what clients send"),
        ));
    }
    if route.derive {
        findings.push(warn(
            "key-derived",
            format!(
                "two requests without a key that are alike within {} are one: the second is not carried out, though \
                 it may be meant",
                spelled(route.window)
            ),
            "where clients can, let them send Idempotency-Key; name in `fingerprint` what tells two intents apart",
        ));
    }
    if route.upstream_timeout > route.lease {
        findings.push(warn(
            "lease-shorter-than-timeout",
            format!(
                "an answer may take {}, a lease lasts {}: it is renewed meanwhile, but a gateway that stands still \
                 loses it within one request",
                duration_text(route.upstream_timeout),
                duration_text(route.lease)
            ),
            "make `lease` as long as `upstream_timeout`",
        ));
    }
    if let Class::Keyed { provider_window } = route.class
        && provider_window < within_provider_window(route.window)
    {
        findings.push(warn(
            "provider-window-short",
            format!(
                "the servers forget a key before the window of {} has passed: what was started and not finished by \
                 then is in doubt",
                duration_text(route.window)
            ),
            "where they remember longer, say so in `provider_window`",
        ));
    }
    findings
}

/// The finding about the proof of a tenant, if there is one.
fn of_proof(gateway: &GatewaySettings, proof: Option<&TenantProof>) -> Option<Finding> {
    let jwt = gateway.jwt.as_ref()?;
    let is_by_jwt = matches!(proof, Some(TenantProof::Jwt(_)));
    (is_by_jwt && jwt.audience.is_none()).then(|| {
        warn(
            "jwt-any-audience",
            "a token that one of the keys has signed for another service is good here, too",
            "set `audience` in `[gateway.jwt]` to the one that tokens for this API are issued for",
        )
    })
}

#[cfg(test)]
mod tests {
    use semel_core::port::store::Durability;

    use super::super::text_settings::settings;
    use super::*;

    fn reports(more: &str, durability: Durability) -> Vec<RouteReport> {
        let text =
            format!("[gateway]\nlisten = '127.0.0.1:1'\nupstream = 'http://127.0.0.1:9'\n{more}\n");
        let inspection = Inspection::embedded(durability);
        RouteReport::all(&settings(&text), Ok(&inspection))
    }

    #[test]
    fn a_route_that_says_nothing_warns_of_nothing_and_names_what_passes() {
        let reports = reports("", Durability::PowerCut);
        let [all] = &*reports else {
            panic!("{reports:?}");
        };
        assert_eq!((&*all.route, all.verdict), ("*", Severity::Ok));
        assert_eq!((&*all.class, &*all.guarantee), ("unkeyed", "at most once"));
        assert_eq!(
            all.unprotected,
            ["every method but POST, PATCH", "requests without a key"]
        );
        assert_eq!(all.fingerprint, ["method", "path", "query", "body"]);
        assert!(all.doubt.contains("409 in-doubt"), "{}", all.doubt);
    }

    #[test]
    fn what_weakens_a_route_is_found() {
        let codes = |more: &str| -> Vec<_> {
            let reports = reports(more, Durability::PowerCut);
            reports[0]
                .findings
                .iter()
                .map(|it| it.code.clone())
                .collect()
        };
        for (more, code) in [
            ("shadow = true", "route-in-shadow"),
            ("fail = 'open'", "fails-open"),
            ("tenant = 'header:X-Tenant'", "tenant-of-client"),
            (
                "tenant = 'jwt:org'\njwt = { keys = 'jwks.json' }",
                "jwt-any-audience",
            ),
            ("key = 'derive'", "key-derived"),
            ("upstream_timeout = '31s'", "lease-shorter-than-timeout"),
            (
                "class = 'keyed'\nprovider_window = '1h'",
                "provider-window-short",
            ),
        ] {
            assert_eq!(codes(more), [code], "{more}");
        }
        assert!(codes("class = 'keyed'\nprovider_window = '30d'\nrequire_key = true").is_empty());
        for (proved, tenant) in [
            (
                "tenant = 'mtls'\ntls = { cert = 'a', key = 'b', client_ca = 'c' }",
                "mtls",
            ),
            (
                "tenant = 'jwt:org'\njwt = { keys = 'jwks.json', audience = 'pay' }",
                "jwt:org",
            ),
        ] {
            assert!(codes(proved).is_empty(), "{proved}");
            let reports = reports(proved, Durability::PowerCut);
            assert_eq!(reports[0].tenant.as_deref(), Some(tenant));
        }
    }

    #[test]
    fn a_store_must_keep_what_the_class_of_a_route_needs() {
        let reports = reports(
            "[[gateway.routes]]\npath = '/a'\non_doubt = 'repeat'",
            Durability::Kill,
        );
        let found: Vec<_> = reports.iter().map(|it| it.verdict).collect();
        assert_eq!(found, [Severity::Warn, Severity::Fail]);
        assert_eq!(reports[1].findings[0].code, "store-durability");
    }
}
